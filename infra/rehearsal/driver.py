"""One rehearsal: `cdktf deploy` and `cdktf destroy` of a stack with the real Terraform, against a local AWS.

Knows the order of things and what must hold, not how each is done. Invariant: whatever happens, no process of the
rehearsal is left, and no file of the user was written.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TextIO

from infra.rehearsal.failure import RehearsalError
from infra.rehearsal.leftovers import describe, leftovers
from infra.rehearsal.local_aws import LocalAws
from infra.rehearsal.process import Commands
from infra.rehearsal.progress import Progress
from infra.rehearsal.provider.report import read_report
from infra.rehearsal.provider_source import Choice, ProviderSource, choose_provider, from_mirror
from infra.rehearsal.report import RecordedOnly, Report
from infra.rehearsal.steps import Steps
from infra.rehearsal.synthesized import SynthesizedStack, read_stack
from infra.rehearsal.tools import Tools, find_tools
from infra.rehearsal.workplace import Workplace


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """What to rehearse, and how."""

    stack: str
    """One that the app knows."""
    project: Path
    """Checkout: the folder with cdktf.json."""
    provider: Choice = "auto"
    provider_mirror: Path | None = None
    """Folder with a real provider, in the layout of a filesystem mirror."""
    settings: Mapping[str, str]
    """EAGLE3KIT_* variables for the app."""
    keep: bool = False
    """Leave the folder of the rehearsal behind."""
    timeout_s: float = 1800.0
    """For all of it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Surroundings:
    """What the driver takes from outside."""

    environ: Mapping[str, str]
    progress: Progress
    start_aws: Callable[[TextIO, Path], AbstractContextManager[LocalAws]]
    install_stand_in: Callable[[Path, Path], object]
    """Puts the stand-in provider, run by a Python, into a mirror folder."""
    lacking: Callable[[str], str | None]
    """Why the local AWS cannot make a type of resource; None if it can."""


def rehearse(request: Request, around: Surroundings) -> Report:
    """Rehearse a stack; RehearsalError names the phase and the resource, and where the log is."""
    tools = find_tools(request.project, around.environ)
    folder = Path(tempfile.mkdtemp(prefix=f"eagle3-rehearsal-{request.stack}-"))
    place = Workplace(folder=folder)
    kept = request.keep
    try:
        place.prepare()
        with place.log.open("w", encoding="utf-8") as log, around.start_aws(log, request.project) as cloud:
            return _run(request, around, tools, place, log, cloud)
    except RehearsalError as error:
        where = place.log if kept else _saved(place.log, folder.with_suffix(".log"))
        raise RehearsalError(f"{error}; log: {where}", resource=error.resource) from error
    except KeyboardInterrupt:
        kept = False
        raise
    finally:
        if not kept:
            shutil.rmtree(folder, ignore_errors=True)


def _run(
    request: Request, around: Surroundings, tools: Tools, place: Workplace, log: TextIO, cloud: LocalAws
) -> Report:
    progress = around.progress
    commands = Commands(log=log, deadline_s=time.monotonic() + request.timeout_s, on_wait=progress.tick)
    environment = place.environment(around.environ, tools, stack=request.stack, settings=request.settings)
    steps = Steps(
        stack=request.stack,
        project=request.project,
        tools=tools,
        place=place,
        commands=commands,
        progress=progress,
        environment=environment,
    )
    with progress.phase("synthesize"):
        steps.synthesize()
        stack = read_stack(place.stack(request.stack))
    with progress.phase("provider"):
        provider = _provider(request, around, stack, tools, place, commands)
        place.use_mirror(provider.mirror)
        stack.make_local(place.state, provider.version)
        before = cloud.inventory(stack.regions)
    progress.say(f"provider: {provider}")
    steps = replace(steps, environment=environment | place.aws_environment(cloud.url, stack.regions[0]))
    with progress.phase("deploy"):
        applied = steps.deploy()
    with progress.phase("validate"):
        steps.validate()
    with progress.phase("graph"):
        steps.check_graph()
    with progress.phase("plan again"):
        steps.plan_again()
        types = steps.types()
    with progress.phase("destroy"):
        destroyed = steps.destroy()
        _check_counts(stack.resources, applied.created, destroyed)
    with progress.phase("leftovers"):
        left = leftovers(before, cloud.inventory(stack.regions))
        if left:
            log.write("".join(f"left: {item} ({item.region}, {item.key})\n" for item in left))
            raise RehearsalError(f"after destroy the local AWS still holds {describe(left)}", resource=str(left[0]))
    return Report(
        stack=request.stack,
        provider=str(provider),
        terraform_version=tools.terraform_version,
        created=applied.created,
        changed=applied.changed,
        destroyed=destroyed,
        types=types,
        recorded=_recorded(place.report),
        seconds=progress.seconds,
        kept=place.folder if request.keep else None,
    )


def _provider(
    request: Request,
    around: Surroundings,
    stack: SynthesizedStack,
    tools: Tools,
    place: Workplace,
    commands: Commands,
) -> ProviderSource:
    if request.provider_mirror is not None:
        return from_mirror(request.provider_mirror, stack.provider_version, tools.platform)
    return choose_provider(
        request.provider,
        stack.provider_version,
        lacking={kind: reason for kind in stack.types if (reason := around.lacking(kind)) is not None},
        tools=tools,
        place=place,
        commands=commands,
        environ=around.environ,
        install_stand_in=around.install_stand_in,
    )


def _check_counts(declared: int, created: int, destroyed: int) -> None:
    """`count` and `for_each` may make more of a declaration than one; nothing may be made and not destroyed."""
    if created < declared or destroyed != created:
        raise RehearsalError(f"the stack declares {declared} resources, {created} were created, {destroyed} destroyed")


def _recorded(report: Path) -> tuple[RecordedOnly, ...]:
    """What the stand-in provider made in Terraform's state only; the real provider writes no report."""
    return tuple(
        RecordedOnly(type=entry.type, id=entry.id, reason=entry.reason)
        for entry in read_report(report)
        if entry.action == "create" and entry.where == "state"
    )


def _saved(log: Path, to: Path) -> Path:
    """The log, moved out of a folder that goes."""
    return Path(shutil.move(log, to)) if log.exists() else to
