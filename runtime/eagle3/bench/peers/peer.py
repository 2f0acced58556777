"""What `bench peers` can measure: a system with the Python that runs it, and what was left out for which reason.

Knows no results. Invariant: every name that a user can ask for is a peer or has a reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SYSTEMS = Path(__file__).with_name("systems")


@dataclass(frozen=True, kw_only=True, slots=True)
class Peer:
    """One system, ready to be measured."""

    name: str
    file: str
    """Of `systems/`, without suffix."""
    python: Path
    """Interpreter that has what the file imports."""
    settings: Mapping[str, Any]
    """For `open_system`; values that JSON can hold."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Set over the environment of this process."""
    samples: bool = True
    """Whether it can be asked at a temperature above 0."""
    same_as: str | None = None
    """The system whose text it must give exactly at temperature 0; None where numbers may differ."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """Who is measured, in the order of the turns, and who is not."""

    peers: tuple[Peer, ...]
    left_out: Mapping[str, str]
    """Reason by name."""
