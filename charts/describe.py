"""Writes the tables of values into the charts' READMEs from the comments of values.yaml: `python charts/describe.py`.

Knows no chart's values. A key is described by a comment `# -- text` right above it, which further comment lines go on
with. Invariant: every key is described, or is a mapping whose keys are.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

CHARTS = Path(__file__).resolve().parent
BEGIN, END = "<!-- values: made by `python charts/describe.py` -->", "<!-- end of values -->"

_LONGEST = 60


@dataclass(frozen=True, kw_only=True, slots=True)
class Value:
    """One row of a table."""

    path: str
    """Keys joined by dots."""
    default: Any
    """What the chart ships."""
    description: str
    """Text of the comment; empty where there is none."""
    is_section: bool
    """Whether it is a mapping whose keys have rows of their own."""


def chart_folders() -> list[Path]:
    """Folders of the charts, by name."""
    return sorted(path.parent for path in CHARTS.glob("*/Chart.yaml"))


def chart_values(text: str) -> list[Value]:
    """Every value of a values.yaml that has a comment, or should have one, in the file's order."""
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    return list(_values(root, text.splitlines(), "")) if isinstance(root, yaml.MappingNode) else []


def table(text: str) -> str:
    """The Markdown table of a values.yaml."""
    lines = ["| value | default | meaning |", "|---|---|---|"]
    for value in chart_values(text):
        if value.description:
            shown = "" if value.is_section else _shown(value.default)
            lines.append(f"| `{value.path}` | {shown} | {value.description.replace('|', chr(92) + '|')} |")
    return "\n".join(lines)


def described(readme: str, values: str) -> str:
    """A README with the table between its two marks made anew; ValueError where a mark is missing."""
    if readme.count(BEGIN) != 1 or readme.count(END) != 1:
        raise ValueError(f"a README must hold the line {BEGIN!r} and, below it, the line {END!r}, once each")
    head, _, rest = readme.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n\n{table(values)}\n\n{END}{tail}"


def _values(node: yaml.MappingNode, lines: list[str], prefix: str) -> Iterator[Value]:
    for key, value in node.value:
        path = f"{prefix}{key.value}"
        description = _description(lines, key.start_mark.line)
        inner = list(_values(value, lines, f"{path}.")) if isinstance(value, yaml.MappingNode) else []
        # Data, such as labels, is described as a whole.
        if description and not any(one.description for one in inner):
            inner = []
        default = yaml.SafeLoader("").construct_object(value, deep=True)
        if description or not inner:
            yield Value(path=path, default=default, description=description, is_section=bool(inner))
        yield from inner


def _description(lines: list[str], at: int) -> str:
    indent = len(lines[at]) - len(lines[at].lstrip())
    block: list[str] = []
    for line in reversed(lines[:at]):
        if not line.strip().startswith("#") or len(line) - len(line.lstrip()) != indent:
            break
        block.insert(0, line.strip().removeprefix("#").strip())
    starts = [index for index, line in enumerate(block) if line.startswith("-- ")]
    if not starts:
        return ""
    return " ".join([block[starts[-1]].removeprefix("-- "), *block[starts[-1] + 1 :]])


def _shown(default: Any) -> str:
    text = json.dumps(default)
    return f"`{text}`" if len(text) <= _LONGEST else "see values.yaml"


def main() -> None:
    """Write every chart's README."""
    for folder in chart_folders():
        readme = folder / "README.md"
        values = (folder / "values.yaml").read_text(encoding="utf-8")
        readme.write_text(described(readme.read_text(encoding="utf-8"), values), encoding="utf-8")
        sys.stderr.write(f"{readme.relative_to(CHARTS.parent)}\n")


if __name__ == "__main__":
    main()
