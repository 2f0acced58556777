"""docs/settings.md is what the schema says."""

from __future__ import annotations

from pathlib import Path

from infra.settings.describe import lines

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"


def test_page_is_made_from_the_schema():
    """The page names every setting and its default; `python -m infra.settings.describe > docs/settings.md`."""
    assert PAGE.read_text(encoding="utf-8") == "\n".join(lines()) + "\n"


def test_every_setting_is_described():
    """No row of the page lacks a meaning."""
    rows = [line for line in lines() if line.startswith("| `")]
    assert len(rows) > 100
    assert not [row for row in rows if row.endswith(("| None |", "|  |"))]
