"""`python -m fyke` is the command `fyke`."""

from fyke.cli import main

if __name__ == "__main__":
    main()
