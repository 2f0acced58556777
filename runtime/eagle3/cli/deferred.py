"""A function by its name, imported when it is first called: parsers name what runs a command without loading it.

Knows no commands. Invariant: making one imports nothing; calling it is calling the function that it names.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module


@dataclass(frozen=True, slots=True)
class Deferred:
    """What runs a command, as in `parser.set_defaults(run=Deferred("eagle3.cli.run.generate:run"))`."""

    name: str
    """`module:function`; the function takes the parsed arguments and gives the exit code."""

    def load(self) -> Callable[[argparse.Namespace], int]:
        """The function itself; its module is imported here."""
        module, _, function = self.name.partition(":")
        loaded: Callable[[argparse.Namespace], int] = getattr(import_module(module), function)
        return loaded

    def __call__(self, args: argparse.Namespace) -> int:
        return self.load()(args)
