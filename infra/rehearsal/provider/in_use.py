"""Which types a run needs schemas of: those that stand in the working directory.

Terraform starts a provider in the folder of the configuration, so every type that it will ask for stands in a file
there: the configuration, or a state that still holds what the configuration no longer does. Types of a state kept
elsewhere are named by the caller in EAGLE3KIT_STANDIN_TYPES (with commas between them). Invariant: every type of the
configuration is found; types too many do no harm.
"""

from __future__ import annotations

import re
from pathlib import Path

TYPES = "EAGLE3KIT_STANDIN_TYPES"
_FILES = ("*.tf", "*.tf.json", "*.tfstate", "*.tfstate.backup", "*.tfplan.json")
_WORD = re.compile(r"\baws_[a-z0-9_]+")


def types_in_use(folder: Path, named: str, known: frozenset[str]) -> frozenset[str]:
    """Types of the bindings that occur in a folder's files or are named; a word may be a resource and a data source."""
    words = set(_WORD.findall(named))
    for pattern in _FILES:
        for path in folder.glob(pattern):
            words |= set(_WORD.findall(path.read_text(encoding="utf-8", errors="replace")))
    return known & (frozenset(words) | {f"data.{word}" for word in words})
