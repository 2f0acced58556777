"""Where the server's log goes: standard error, from a thread, so that neither a full disk nor a stuck pipe stops it.

Lines are written with one system call each, past Python's buffers: a line that cannot be written is lost and nothing
else. Knows nothing of what is logged. Invariant: no call that logs blocks or raises.
"""

from __future__ import annotations

import logging
import logging.handlers
import os
import queue
import threading

_MOST_QUEUED = 1000
_FLUSH_S = 1.0
_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class DescriptorHandler(logging.Handler):
    """Writes records to a file descriptor."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record; it is lost when the descriptor takes nothing."""
        write_line(self._descriptor, self.format(record))


class _DroppingQueueHandler(logging.handlers.QueueHandler):
    """Drops records while the thread that writes them is stuck."""

    def __init__(self, records: queue.SimpleQueue[logging.LogRecord]) -> None:
        super().__init__(records)
        self._records = records

    def enqueue(self, record: logging.LogRecord) -> None:
        if self._records.qsize() < _MOST_QUEUED:
            self._records.put(record)


class ServerLog:
    """The log of a process; `close` gives the last lines a moment to be written."""

    def __init__(self, level: str, *, descriptor: int) -> None:
        """Takes over the root logger."""
        logging.raiseExceptions = False  # a handler that fails must not write to standard error itself
        target = DescriptorHandler(descriptor)
        target.setFormatter(logging.Formatter(_FORMAT))
        records: queue.SimpleQueue[logging.LogRecord] = queue.SimpleQueue()
        self._descriptor = descriptor
        self._listener = logging.handlers.QueueListener(records, target)
        self._listener.start()
        handler = _DroppingQueueHandler(records)
        handler.setFormatter(logging.Formatter("%(message)s"))  # the rest is added where it is written
        logging.basicConfig(level=level, handlers=[handler], force=True)
        # Third parties at INFO or DEBUG may log requests, and so prompts.
        for name in ("httpx", "httpcore", "urllib3", "asyncio", "botocore"):
            logging.getLogger(name).setLevel(logging.WARNING)

    def announce(self, lines: list[str]) -> None:
        """Write lines whatever the level is."""
        threading.Thread(
            target=write_line, args=(self._descriptor, "\n".join(lines)), name="announce", daemon=True
        ).start()

    def close(self) -> None:
        """Write what is queued, for a second at most."""
        stopping = threading.Thread(target=self._listener.stop, name="log-stop", daemon=True)
        stopping.start()
        stopping.join(_FLUSH_S)


def write_line(descriptor: int, text: str) -> None:
    """Write text and a line end; what the descriptor does not take is lost."""
    rest = text.encode("utf-8", "backslashreplace") + b"\n"
    try:
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    except OSError:
        return  # a full disk or a closed pipe: there is nowhere to say so
