from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from eagle3.server.logs import ServerLog, write_line


@pytest.fixture(autouse=True)
def _root_logger_as_before() -> Iterator[None]:
    """The log takes over the root logger, which pytest needs back."""
    root = logging.getLogger()
    handlers, level, raising = root.handlers[:], root.level, logging.raiseExceptions
    yield
    root.handlers[:], root.level, logging.raiseExceptions = handlers, level, raising


def test_lines_reach_the_descriptor_from_the_level_on(tmp_path: Path) -> None:
    """WARNING is written, INFO is not; announcements are, whatever the level is."""
    with (tmp_path / "log").open("wb") as file:
        log = ServerLog("WARNING", descriptor=file.fileno())
        logging.getLogger("eagle3.x").info("quiet")
        logging.getLogger("eagle3.x").warning("loud %d", 1)
        log.announce(["one", "two"])
        time.sleep(0.1)
        log.close()
    text = (tmp_path / "log").read_text(encoding="utf-8")
    assert "WARNING eagle3.x: loud 1\n" in text
    assert "one\ntwo\n" in text
    assert "quiet" not in text


def test_a_pipe_that_nobody_reads_does_not_block() -> None:
    """Ten thousand long lines, an announcement and the end take no longer than the second that the end may take."""
    reading, writing = os.pipe()
    log = ServerLog("WARNING", descriptor=writing)
    started_s = time.monotonic()
    for _ in range(10_000):
        logging.getLogger("eagle3.x").warning("x" * 1000)
    log.announce(["y"])
    log.close()
    assert time.monotonic() - started_s < 4.0
    os.close(reading)  # the thread's write ends with an error, which is lost as well


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_no_error() -> None:
    """The line is lost and nothing else."""
    with Path("/dev/full").open("ab", buffering=0) as full:
        write_line(full.fileno(), "text")


def test_any_text_can_be_written(tmp_path: Path) -> None:
    """Half surrogate pairs too, which have no bytes in UTF-8."""
    with (tmp_path / "log").open("wb") as file:
        write_line(file.fileno(), "a\ud800é")
    assert (tmp_path / "log").read_bytes() == b"a\\ud800\xc3\xa9\n"
