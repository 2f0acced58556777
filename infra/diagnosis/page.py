"""A runbook's page: its text with the stack's names filled in, and its table of causes.

Knows no alarm by name. Invariant: a page's causes are the rows below its heading "Causes": the cause, what it looks
like, what to do then.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path("docs") / "runbooks"
_ROW = re.compile(r"^\|(?P<cause>[^|]+)\|[^|]+\|(?P<then>[^|]+)\|$", re.MULTILINE)
_NAMES = re.compile(r"\$\{?(?P<name>SITE|DIMENSION)(?::0:(?P<length>\d+))?\}?(?![A-Za-z0-9_])")


@dataclass(frozen=True, kw_only=True, slots=True)
class Page:
    """One runbook."""

    name: str
    text: str
    """Markdown."""

    @staticmethod
    def read(project: Path, name: str) -> Page:
        """The page of an alarm in a checkout."""
        return Page(name=name, text=(project / FOLDER / f"{name}.md").read_text(encoding="utf-8"))

    def steps(self) -> dict[str, str]:
        """What to do by cause, links as plain words."""
        section = self.text.partition("\n## Causes\n")[2].partition("\n## ")[0]
        rows = [(found["cause"].strip(), found["then"].strip()) for found in _ROW.finditer(section)]
        return {cause: _plain(then) for cause, then in rows if cause != "cause" and not set(cause) <= {"-"}}

    def filled(self, site: str, *, cluster: bool) -> str:
        """The text with SITE and DIMENSION replaced by a stack's."""
        return filled(self.text, site, cluster=cluster)


def filled(text: str, site: str, *, cluster: bool) -> str:
    """A text with `$SITE`, `${SITE:0:N}` and `$DIMENSION` replaced as a shell would."""
    dimension = f"Name=ClusterName,Value={site}-cluster" if cluster else f"Name=EndpointName,Value={site}-endpoint"

    def value(found: re.Match[str]) -> str:
        whole = site if found["name"] == "SITE" else dimension
        return whole if found["length"] is None else whole[: int(found["length"])]

    return _NAMES.sub(value, text)


def _plain(text: str) -> str:
    return re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", text)
