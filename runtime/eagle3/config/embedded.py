"""The name by which files, variables and flags ask for the shipped target and draft. Needs no library to import."""

from __future__ import annotations

EMBEDDED = "embedded"
