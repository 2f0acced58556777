"""What pip is configured with on this machine, as build arguments and the folders that a build must see for them.

Knows pip's settings, not the images. Invariant: a local folder shows in the build below `/mnt/pip`, so that no path of
this machine gets into an image.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_VARIABLES = {
    "index-url": "PIP_INDEX_URL",
    "extra-index-url": "PIP_EXTRA_INDEX_URL",
    "find-links": "PIP_FIND_LINKS",
    "cert": "PIP_CERT",
}
_SECTIONS = ("global", "install", ":env:")
"""Later ones win."""

_MOUNTS = "/mnt/pip"
_FILE_URL = "file://"


@dataclass(frozen=True, kw_only=True, slots=True)
class PipSettings:
    """Settings of pip for a build."""

    arguments: dict[str, str]
    """Build arguments, such as PIP_INDEX_URL."""
    mounts: dict[str, str]
    """Folders of this machine that the arguments speak of, and where the build finds them."""

    @property
    def public(self) -> dict[str, str]:
        """The arguments that need no folder of this machine, for a builder that can mount none."""
        return {name: value for name, value in self.arguments.items() if _MOUNTS not in value}


def read_settings(lines: Iterable[str]) -> PipSettings:
    """From the lines of `pip config list`."""
    found: dict[tuple[str, str], str] = {}
    for line in lines:
        key, _, text = line.partition("=")
        section, _, name = key.rpartition(".")
        if section in _SECTIONS and name in _VARIABLES and text:
            found[section, name] = str(ast.literal_eval(text))
    settings = PipSettings(arguments={}, mounts={})
    for section in _SECTIONS:
        for name, variable in _VARIABLES.items():
            if words := found.get((section, name), "").split():
                settings.arguments[variable] = " ".join(_word(name, word, settings.mounts) for word in words)
    used = " ".join(settings.arguments.values())
    return PipSettings(
        arguments=settings.arguments,
        mounts={folder: place for folder, place in settings.mounts.items() if place in used},
    )


def _word(name: str, word: str, mounts: dict[str, str]) -> str:
    """The word as the build says it; what it needs is added to the mounts."""
    path = Path(word.removeprefix(_FILE_URL))
    if not path.is_absolute() or not path.exists():
        return word
    # An index on disk names files beside its folder; a certificate is one file of a folder.
    is_index, is_file = name in ("index-url", "extra-index-url"), path.is_file()
    folder = path.parent if is_index or is_file else path
    place = mounts.setdefault(str(folder), f"{_MOUNTS}/{len(mounts)}")
    inside = place if folder == path else f"{place}/{path.name}"
    return _FILE_URL + inside if word.startswith(_FILE_URL) else inside
