"""The CDKTF app: settings in, stacks out. Reads no environment and no clock."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import date
from typing import Any

from eagle3.errors import ConfigError
from infra.framework import App
from infra.settings.root import Settings
from infra.stacks.bootstrap import BootstrapStack
from infra.stacks.large import LargeStack
from infra.stacks.sagemaker import MediumStack, SmallStack

STACKS: dict[str, Callable[[Any, Settings, date], object]] = {
    "bootstrap": BootstrapStack,
    "small": SmallStack,
    "medium": MediumStack,
    "large": LargeStack,
}


def build_app(
    settings: Settings, *, today: date, stacks: Collection[str] = tuple(STACKS), outdir: str | None = None
) -> Any:
    """An app with the stacks named; ConfigError names a stack that does not exist.

    `outdir` is where synthesis writes; null leaves it to the framework (cdktf.out, or what the command line says).
    """
    unknown = sorted(set(stacks) - set(STACKS))
    if unknown:
        raise ConfigError(f"no stack {', '.join(unknown)}; stacks are {', '.join(STACKS)}")
    app = App() if outdir is None else App(outdir=outdir)
    for name, build in STACKS.items():
        if name in stacks:
            build(app, settings, today)
    return app
