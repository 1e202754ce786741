"""`python -m fyke` is the command `fyke`."""

from fyke.cli import main

main()
