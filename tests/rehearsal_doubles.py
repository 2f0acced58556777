"""Doubles for rehearsals: a checkout with a scripted `cdktf`, a scripted `terraform`, a local AWS of plain items."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from infra.rehearsal.driver import Request, Surroundings
from infra.rehearsal.local_aws import Item
from infra.rehearsal.progress import Progress

DOCUMENT = {
    "provider": {
        "aws": [
            {"region": "eu-west-1", "profile": "mine", "allowed_account_ids": ["1"]},
            {"alias": "edge", "region": "us-east-1"},
        ]
    },
    "resource": {"aws_sqs_queue": {"Queue": {"name": "q"}}, "aws_sns_topic": {"Topic": {"name": "t"}}},
    "terraform": {
        "backend": {"s3": {"bucket": "theirs"}},
        "required_providers": {"aws": {"source": "aws", "version": "6.25.0"}},
    },
}
STATE = {
    "values": {
        "root_module": {
            "resources": [
                {"type": "aws_sqs_queue", "mode": "managed"},
                {"type": "aws_sns_topic", "mode": "managed"},
                {"type": "aws_caller_identity", "mode": "data"},
            ]
        }
    }
}
DEPLOYED = """small  Initializing the backend...
small  Plan: 2 to add, 0 to change, 0 to destroy.
small  aws_sqs_queue.Queue (Queue): Creation complete after 0s [id=q]
small  aws_sns_topic.Topic (Topic): Creation complete after 0s [id=t]
small  Apply complete! Resources: 2 added, 0 changed, 0 destroyed."""
DESTROYED = "small  Destroy complete! Resources: 2 destroyed."
# What Terraform prints for a resource that cannot be made, as the cdktf command line passes it on.
REFUSED = """small  Error: Could not create aws_sqs_queue

         with aws_sqs_queue.Queue (Queue),
         on cdk.tf.json line 57, in resource.aws_sqs_queue.Queue (Queue):
         57:       }

       ClientError: An error occurred (QueueNameExists) when calling the
small  CreateQueue operation: A queue already exists
small  Error: Could not create aws_sns_topic

         with aws_sns_topic.Topic (Topic),

0 Stacks deploying     1 Stack done     0 Stacks waiting
Invoking Terraform CLI failed with exit code 1"""
GRAPH = 'digraph {\n  "a" -> "b"\n  "b" -> "c"\n}'
EMPTY_PLAN: dict[str, Any] = {"resource_changes": []}
VERSION = json.dumps({"terraform_version": "1.11.4", "platform": "linux_amd64"})

# Answers by first argument, from a file; each call is written down with what matters of its environment.
_PROGRAM = """#!{python}
import json, os, sys, time
folder = {folder!r}
words = sys.argv[1:]
with open(os.path.join(folder, "calls.jsonl"), "a") as calls:
    prefixes = ("AWS_", "TF_", "EAGLE3KIT_", "CDKTF_", "CHECKPOINT", "HOME")
    kept = {{name: value for name, value in os.environ.items() if name.startswith(prefixes)}}
    calls.write(json.dumps({{"program": {name!r}, "words": words, "environment": kept, "pid": os.getpid()}}) + "\\n")
answers = json.load(open(os.path.join(folder, "answers.json")))
text, code, sleep_s = answers.get({name!r} + " " + words[0], ["", 0, 0])
if words[0] == "synth" and not code:
    stack = os.path.join(words[words.index("--output") + 1], "stacks", os.environ["EAGLE3KIT_STACKS"])
    os.makedirs(stack)
    json.dump(answers["document"], open(os.path.join(stack, "cdk.tf.json"), "w"))
if words[0] == "init":
    version = json.load(open("main.tf.json"))["terraform"]["required_providers"]["aws"]["version"]
    if not code:
        os.makedirs(os.path.join(".terraform/providers/registry.terraform.io/hashicorp/aws", version, "linux_amd64"))
if words[0] == "show" and words[-1].endswith("tfplan"):
    text = json.dumps(answers["plan"])
print(text, flush=True)
time.sleep(sleep_s)
sys.exit(code)
"""


@dataclass(kw_only=True)
class ScriptedCloud:
    """A local AWS that holds what the test says, before and after."""

    before: frozenset[Item] = frozenset()
    after: frozenset[Item] = frozenset()
    url: str = "http://127.0.0.1:4999"
    asked: list[tuple[str, ...]] = field(default_factory=list)
    stopped: bool = False

    def inventory(self, regions: Sequence[str]) -> frozenset[Item]:
        """First what is there at the start, then what is left."""
        self.asked.append(tuple(regions))
        return self.before if len(self.asked) == 1 else self.after

    @contextmanager
    def start(self, log: object, project: Path) -> Iterator[ScriptedCloud]:
        """The context of the process."""
        try:
            yield self
        finally:
            self.stopped = True


class Checkout:
    """A folder with cdktf.json and scripted programs that end well, unless told otherwise."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.programs = folder / "bin"
        self.cloud = ScriptedCloud()
        self.stream = io.StringIO()
        self.lacking: dict[str, str] = {}
        self.answers: dict[str, Any] = {
            "document": DOCUMENT,
            "plan": EMPTY_PLAN,
            "cdktf deploy": [DEPLOYED, 0, 0],
            "cdktf destroy": [DESTROYED, 0, 0],
            "terraform version": [VERSION, 0, 0],
            "terraform graph": [GRAPH, 0, 0],
            "terraform show": [json.dumps(STATE), 0, 0],
            "terraform init": ["could not connect to the registry", 1, 0],
            "node --version": ["v20.20.2", 0, 0],
        }
        (folder / "node_modules" / ".bin").mkdir(parents=True)
        self.programs.mkdir()
        (folder / "cdktf.json").write_text(json.dumps({"app": f"{sys.executable} -m app"}), encoding="utf-8")
        self._program(self.programs / "terraform")
        self._program(self.programs / "node")
        self._program(folder / "node_modules" / ".bin" / "cdktf")

    def answer(self, command: str, text: str, code: int = 0, sleep_s: float = 0) -> None:
        """What a command prints and exits with: `answer("terraform plan", "…", 2)`."""
        self.answers[command] = [text, code, sleep_s]

    @property
    def environ(self) -> dict[str, str]:
        """Of the user: with credentials, a profile and a home."""
        return {
            "PATH": f"{self.programs}:{os.environ['PATH']}",
            "HOME": "/home/somebody",
            "AWS_PROFILE": "mine",
            "AWS_ACCESS_KEY_ID": "secret",
            "EAGLE3KIT_ENVIRONMENT": "prod",
            "TF_CLI_CONFIG_FILE": "/home/somebody/mine.rc",
        }

    def write_answers(self) -> None:
        """Make the programs know their answers."""
        (self.folder / "answers.json").write_text(json.dumps(self.answers), encoding="utf-8")

    def calls(self) -> list[dict[str, Any]]:
        """Every command that was run, in order."""
        file = self.folder / "calls.jsonl"
        return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.exists() else []

    def commands(self) -> list[str]:
        """Program and first argument of each, without the questions for versions."""
        named = [f"{call['program']} {call['words'][0]}" for call in self.calls()]
        return [name for name in named if "version" not in name]

    def request(self, **changes: Any) -> Request:
        """A rehearsal of the stack small."""
        settings = {"EAGLE3KIT_SET": "state.backend=local"}
        return Request(**{"stack": "small", "project": self.folder, "settings": settings, **changes})

    def around(self) -> Surroundings:
        """What the driver takes from outside."""
        self.write_answers()
        return Surroundings(
            environ=self.environ,
            progress=Progress(self.stream),
            start_aws=self.cloud.start,
            install_stand_in=_install,
            lacking=self.lacking.get,
        )

    def _program(self, path: Path) -> None:
        path.write_text(
            _PROGRAM.format(python=sys.executable, folder=str(self.folder), name=path.name), encoding="utf-8"
        )
        path.chmod(0o755)


def _install(mirror: Path, python: Path) -> None:
    (mirror / "registry.terraform.io/hashicorp/aws/6.25.0/linux_amd64").mkdir(parents=True)
