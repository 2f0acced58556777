"""Which AWS provider a rehearsal uses: the real one, or the stand-in of this project.

Terraform itself answers whether the real one can be had, with the user's own settings for mirrors, caches and
proxies. Invariant: what is chosen ends up as a folder that Terraform can take as a mirror of providers.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from eagle3.errors import ConfigError
from infra.rehearsal.failure import RehearsalError, failed
from infra.rehearsal.process import Commands
from infra.rehearsal.tools import Tools
from infra.rehearsal.workplace import Workplace

Choice = Literal["auto", "real", "stand-in"]

ADDRESS = "registry.terraform.io/hashicorp/aws"
"""Terraform's full name of the provider, and its place in a mirror."""

# Until then Terraform must have begun to install the provider; a download itself may take as long as it likes.
_REACHABLE_S = 8.0
_BEGUN = re.compile(r"- (Installing|Using|Installed) ")


@dataclass(frozen=True, kw_only=True, slots=True)
class ProviderSource:
    """The provider of one rehearsal."""

    kind: Literal["real", "stand-in"]
    version: str
    mirror: Path
    """Folder in the layout of a filesystem mirror."""
    note: str | None = None
    """Why it is this one, where that is not what was asked for."""

    def __str__(self) -> str:
        name = "hashicorp/aws" if self.kind == "real" else "stand-in for hashicorp/aws"
        return f"{name} {self.version}" + (f" ({self.note})" if self.note else "")


def from_mirror(mirror: Path, wanted: str, platform: str) -> ProviderSource:
    """A real provider that lies in a folder; ConfigError if there is none for this machine."""
    found = _versions(mirror, platform)
    if not found:
        raise ConfigError(
            f"--provider-mirror: no provider for {platform} below {mirror / ADDRESS}; the folder's layout is that of "
            f"`terraform providers mirror`"
        )
    if wanted in found:
        return ProviderSource(kind="real", version=wanted, mirror=mirror)
    version = max(found, key=lambda text: [int(number) for number in re.findall(r"\d+", text)])
    note = f"the stack pins {wanted}, the mirror has {', '.join(sorted(found))}: rehearsed with {version}"
    return ProviderSource(kind="real", version=version, mirror=mirror, note=note)


def choose_provider(
    choice: Choice,
    wanted: str,
    *,
    lacking: Mapping[str, str],
    tools: Tools,
    place: Workplace,
    commands: Commands,
    environ: Mapping[str, str],
    install_stand_in: Callable[[Path, Path], object],
) -> ProviderSource:
    """The real provider if it was asked for, or can be had and can work; else the stand-in.

    `lacking` are types of the stack that the local AWS cannot make: the real provider would fail at them, where the
    stand-in only records them.
    """
    if choice == "stand-in":
        return _stand_in(wanted, place, tools.platform, install_stand_in, None)
    if choice == "auto" and lacking:
        note = f"the real provider would fail at {', '.join(sorted(lacking))}"
        return _stand_in(wanted, place, tools.platform, install_stand_in, note)
    try:
        return _downloaded(wanted, tools=tools, place=place, commands=commands, environ=environ)
    except RehearsalError as error:
        if choice == "real":
            raise RehearsalError(f"the real provider cannot be had: {error}; try --provider stand-in") from error
    note = f"hashicorp/aws {wanted} cannot be downloaded here"
    return _stand_in(wanted, place, tools.platform, install_stand_in, note)


def _stand_in(
    wanted: str, place: Workplace, platform: str, install: Callable[[Path, Path], object], note: str | None
) -> ProviderSource:
    mirror = place.folder / "provider"
    install(mirror, Path(sys.executable))
    [version] = _versions(mirror, platform)
    if version != wanted:
        note = "; ".join(text for text in (note, f"the stack pins {wanted}, the bindings know {version}") if text)
    return ProviderSource(kind="stand-in", version=version, mirror=mirror, note=note)


def _downloaded(
    wanted: str, *, tools: Tools, place: Workplace, commands: Commands, environ: Mapping[str, str]
) -> ProviderSource:
    """`terraform init` of nothing but the provider; where it puts it is laid out like a mirror."""
    folder = place.folder / "download"
    folder.mkdir()
    requirement = {"terraform": {"required_providers": {"aws": {"source": "hashicorp/aws", "version": wanted}}}}
    (folder / "main.tf.json").write_text(json.dumps(requirement), encoding="utf-8")

    def patience(lines: list[str]) -> float | None:
        return None if any(_BEGUN.search(line) for line in lines) else _REACHABLE_S

    done = commands.run(
        [str(tools.terraform), "init", "-no-color", "-input=false", "-backend=false"],
        folder=folder,
        environment={**environ, "CHECKPOINT_DISABLE": "1", "TF_PLUGIN_CACHE_MAY_BREAK_DEPENDENCY_LOCK_FILE": "1"},
        patience=patience,
    )
    if done.exit_code:
        raise failed("terraform init", done.lines, exit_code=done.exit_code)
    return from_mirror(folder / ".terraform" / "providers", wanted, tools.platform)


def _versions(mirror: Path, platform: str) -> set[str]:
    """Versions in a mirror for a machine, unpacked or packed."""
    folder = mirror / ADDRESS
    unpacked = {path.parent.name for path in folder.glob(f"*/{platform}")}
    packed = {path.name.split("_")[1] for path in folder.glob(f"terraform-provider-aws_*_{platform}.zip")}
    return unpacked | packed
