"""What may be the tag of an image."""

from __future__ import annotations


def exact_tag(value: str) -> str:
    """The tag, unless it is the one that moves; ValueError says what to do."""
    if value == "latest":
        raise ValueError("must name one image; `latest` moves, and the registry's tags do not; give a version")
    return value
