"""Run one program that does not outlive the process that started this one.

Started as a script, without the package: the parent holds our standard input, and when that closes, however
the parent ended, the program is killed. The program's process id is the first line that we print.
"""

import contextlib
import os
import signal
import sys
import threading


def main(command: list[str]) -> int:
    """Run the command; its exit code (128 + the signal's number where a signal ended it)."""
    program = os.fork()
    if program == 0:
        _become(command)
    os.write(1, b"%d\n" % program)
    threading.Thread(target=_kill_when_abandoned, args=(program,), daemon=True).start()
    code = os.waitstatus_to_exitcode(os.waitpid(program, 0)[1])
    return code if code >= 0 else 128 - code


def _become(command: list[str]) -> None:
    # Its output goes to our standard error, the log; the two pipes of the parent stay with us.
    try:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(2, 1)
        os.execvp(command[0], command)
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode())
    os._exit(127)


def _kill_when_abandoned(program: int) -> None:
    while os.read(0, 1024):
        pass
    with contextlib.suppress(ProcessLookupError):
        os.kill(program, signal.SIGKILL)


if __name__ == "__main__":
    os._exit(main(sys.argv[1:]))
