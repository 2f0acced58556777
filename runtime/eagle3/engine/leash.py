"""Runs a command so that it cannot outlive whoever started it: `python leash.py [NAME=VALUE ...] -- command ...`

The starter holds the other end of standard input, in a process group of this script's own. When the input ends
(the starter died, even by SIGKILL), the command gets SIGTERM and, a moment later, its whole group SIGKILL. SIGTERM
to this script is passed on to the command. Environment variables named before `--` are set unless they are already.
Exits with the command's code, or 128 plus the signal that ended it.

Imports nothing of this package: it runs as a script of its own, so that it starts within milliseconds. (The kernel's
parent-death signal is no substitute: it is bound to the thread that forked and does not reach grandchildren.)
"""

import os
import signal
import subprocess
import sys
import threading
import time

_GRACE_S = 5.0


def _kill_when_input_ends(command: "subprocess.Popen[bytes]") -> None:
    while os.read(0, 4096):
        pass
    command.terminate()
    deadline = time.monotonic() + _GRACE_S
    while command.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(0, signal.SIGKILL)


def main(arguments: list[str]) -> int:
    """Start the command, pass signals on, return its exit code."""
    split = arguments.index("--")
    for setting in arguments[:split]:
        name, _, value = setting.partition("=")
        os.environ.setdefault(name, value)
    command = subprocess.Popen(arguments[split + 1 :], stdin=subprocess.DEVNULL)  # noqa: S603 - the caller's command
    signal.signal(signal.SIGTERM, lambda *_: command.terminate())
    threading.Thread(target=_kill_when_input_ends, args=(command,), daemon=True).start()
    code = command.wait()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
