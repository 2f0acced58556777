"""The commands of a rehearsal, each with what must come out of it.

Knows the cdktf command line and Terraform, no AWS and no provider. Invariant: a step that returns has proven its
claim; anything else is a RehearsalError that names the resource.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eagle3.errors import ConfigError
from infra.rehearsal.failure import RehearsalError, failed, plain, refusal
from infra.rehearsal.graph import find_cycle
from infra.rehearsal.process import Commands, Finished
from infra.rehearsal.progress import Progress
from infra.rehearsal.tools import Tools
from infra.rehearsal.workplace import Workplace

_PLANNED = re.compile(r"Plan: (\d+) to add, \d+ to change, (\d+) to destroy")
_DONE = re.compile(r": (Creation|Destruction) complete after ")
_APPLIED = re.compile(r"Apply complete! Resources: (\d+) added, (\d+) changed, (\d+) destroyed")
_DESTROYED = re.compile(r"Destroy complete! Resources: (\d+) destroyed")
_SHOWN = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class Applied:
    """What `cdktf deploy` says that it did."""

    created: int
    changed: int
    destroyed: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Steps:
    """Runs the steps for one stack."""

    stack: str
    project: Path
    tools: Tools
    place: Workplace
    commands: Commands
    progress: Progress
    environment: Mapping[str, str]

    def synthesize(self) -> None:
        """`cdktf synth` of this stack only, into the rehearsal's folder; ConfigError if the settings are refused."""
        done = self._cdktf("synth")
        if done.exit_code and (reason := refusal(done.lines)) is not None:
            raise ConfigError(reason)
        if done.exit_code:
            raise failed("cdktf synth", done.lines, exit_code=done.exit_code)
        if not (self.place.stack(self.stack) / "cdk.tf.json").is_file():
            raise RehearsalError(f"cdktf synth wrote no stack {self.stack}; the app of cdktf.json must know it")

    def deploy(self) -> Applied:
        """`cdktf deploy` of what was synthesized."""
        done = self._cdktf("deploy", self.stack, "--auto-approve", "--skip-synth", "--skip-provider-lock", "--no-color")
        found = _last(_APPLIED, done.lines)
        if done.exit_code or found is None:
            raise failed(f"cdktf deploy {self.stack}", done.lines, exit_code=done.exit_code)
        created, changed, destroyed = (int(number) for number in found.groups())
        return Applied(created=created, changed=changed, destroyed=destroyed)

    def validate(self) -> None:
        """`terraform validate` finds nothing."""
        self._terraform("validate", "-no-color")

    def check_graph(self) -> None:
        """The graph of the plan has no cycle."""
        cycle = find_cycle(self._terraform("graph", "-type=plan", log_output=False).lines)
        if cycle:
            raise RehearsalError(f"the graph has a cycle: {' -> '.join(cycle)}", resource=cycle[0])

    def plan_again(self) -> None:
        """A second plan is empty."""
        saved = str(self.place.folder / "second.tfplan")
        done = self._terraform(
            "plan", "-no-color", "-input=false", "-detailed-exitcode", f"-out={saved}", allowed=(0, 2)
        )
        if done.exit_code == 2:
            changes = _changes(self._json("show", "-json", saved))
            more = f" and {len(changes) - _SHOWN} more" if len(changes) > _SHOWN else ""
            raise RehearsalError(
                f"a second plan is not empty: {'; '.join(list(changes.values())[:_SHOWN])}{more}",
                resource=next(iter(changes), None),
            )

    def types(self) -> dict[str, int]:
        """Resource type to number, as Terraform's state has them."""
        state = self._json("show", "-json")
        resources = state.get("values", {}).get("root_module", {}).get("resources", [])
        return dict(Counter(entry["type"] for entry in resources if entry["mode"] == "managed"))

    def destroy(self) -> int:
        """`cdktf destroy`; how many resources went."""
        done = self._cdktf("destroy", self.stack, "--auto-approve", "--skip-synth", "--no-color")
        found = _last(_DESTROYED, done.lines)
        if done.exit_code or found is None:
            raise failed(f"cdktf destroy {self.stack}", done.lines, exit_code=done.exit_code)
        return int(found[1])

    def _cdktf(self, *arguments: str) -> Finished:
        done = self.commands.run(
            [str(self.tools.cdktf), *arguments, "--output", str(self.place.synthesized)],
            folder=self.project,
            environment=self.environment,
            on_line=self._watch,
        )
        # Some lines begin with the stack's name, where others are indented.
        lines = [plain(line).removeprefix(f"{self.stack}  ") for line in done.lines]
        return Finished(exit_code=done.exit_code, lines=lines)

    def _terraform(self, *arguments: str, allowed: Sequence[int] = (0,), log_output: bool = True) -> Finished:
        done = self.commands.run(
            [str(self.tools.terraform), *arguments],
            folder=self.place.stack(self.stack),
            environment=self.environment,
            log_output=log_output,
        )
        if done.exit_code not in allowed:
            raise failed(f"terraform {arguments[0]}", done.lines, exit_code=done.exit_code)
        return done

    def _json(self, *arguments: str) -> dict[str, Any]:
        lines = self._terraform(*arguments, log_output=False).lines
        value: dict[str, Any] = json.loads(next((line for line in lines if line.startswith("{")), "{}"))
        return value

    def _watch(self, line: str) -> None:
        if (planned := _PLANNED.search(line)) is not None:
            self.progress.expect(int(planned[1]) + int(planned[2]))
        elif _DONE.search(line):
            self.progress.advance()


def _last(pattern: re.Pattern[str], lines: list[str]) -> re.Match[str] | None:
    return next((found for line in reversed(lines) if (found := pattern.search(plain(line))) is not None), None)


def _changes(plan: dict[str, Any]) -> dict[str, str]:
    """Address to what a plan would do to it, with the attributes that differ."""
    found: dict[str, str] = {}
    for entry in plan.get("resource_changes", []):
        change = entry["change"]
        if change["actions"] in (["no-op"], ["read"]):
            continue
        before, after = change.get("before") or {}, change.get("after") or {}
        unknown = change.get("after_unknown") or {}
        differing = sorted(
            name for name in {*before, *after} if before.get(name) != after.get(name) or unknown.get(name)
        )
        found[entry["address"]] = f"{entry['address']} {'/'.join(change['actions'])} ({', '.join(differing)})"
    for name, change in plan.get("output_changes", {}).items():
        if change["actions"] != ["no-op"]:
            found[f"output.{name}"] = f"output.{name} {'/'.join(change['actions'])}"
    return found
