"""Files that a run appends lines to and that a kill may cut in mid-line. Knows nothing of what the lines hold."""

from __future__ import annotations

from pathlib import Path


def drop_cut_line(path: Path) -> None:
    """Cut off a last line without its end, so that the next line is not joined to it; whole lines stay untouched."""
    if path.is_file():
        with path.open("r+b") as file:
            file.truncate(file.read().rfind(b"\n") + 1)
