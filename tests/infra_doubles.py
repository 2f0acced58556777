"""Synthesized stacks for tests: build in process, read as JSON, walk references instead of logical ids."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.framework import App, Stack, aws
from infra.site import Site

SITE = Site(
    name="eagle3-test-unit",
    region="us-east-1",
    partition="aws",
    account_id="123456789012",
    zones=("us-east-1a", "us-east-1b"),
)

_REFERENCE = re.compile(r"\$\{(?:data\.)?(\w+)\.([\w-]+)\.([\w.\[\]-]+)\}")


def listed(value: Any) -> list[Any]:
    """A value of a policy as a list: IAM's grammar takes one text for a list of one."""
    return [value] if isinstance(value, str) else list(value)


@dataclass(frozen=True, kw_only=True, slots=True)
class Resource:
    """One resource of a synthesized stack."""

    kind: str
    """Terraform type, such as "aws_kms_key"."""
    id: str
    """Logical id."""
    values: dict[str, Any]

    def __getitem__(self, key: str) -> Any:
        return self.values[key]

    def get(self, key: str, default: Any = None) -> Any:
        """A value, or the default where it is not set."""
        return self.values.get(key, default)

    def policy(self, key: str = "policy") -> list[dict[str, Any]]:
        """Statements of a policy that the resource holds as JSON text."""
        return json.loads(self.values[key])["Statement"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Synthesized:
    """The Terraform JSON of one stack."""

    document: dict[str, Any]

    def all(self, kind: str) -> list[Resource]:
        """Every resource of a type."""
        found = self.document.get("resource", {}).get(kind, {})
        return [Resource(kind=kind, id=name, values=values) for name, values in found.items()]

    def only(self, kind: str) -> Resource:
        """The one resource of a type."""
        [resource] = self.all(kind)
        return resource

    def kinds(self) -> set[str]:
        """Types of which there is at least one resource."""
        return set(self.document.get("resource", {}))

    def every(self) -> list[Resource]:
        """Every resource of the stack."""
        return [resource for kind in sorted(self.kinds()) for resource in self.all(kind)]

    def follow(self, text: str) -> Resource:
        """The resource that a text refers to; the text must hold exactly one reference."""
        [resource] = self.references(text)
        return resource

    def references(self, value: Any) -> list[Resource]:
        """Resources (not data sources) that a value refers to, in order, each once."""
        text = value if isinstance(value, str) else json.dumps(value)
        found: dict[tuple[str, str], Resource] = {}
        for match in _REFERENCE.finditer(text):
            kind, name = match.group(1), match.group(2)
            values = self.document.get("resource", {}).get(kind, {}).get(name)
            if values is not None:
                found[kind, name] = Resource(kind=kind, id=name, values=values)
        return list(found.values())


def synthesize(build: Callable[[Any], object], *, region: str = "us-east-1") -> Synthesized:
    """Run `build(stack)` in a fresh stack and return what it synthesizes to."""
    with tempfile.TemporaryDirectory() as folder:
        app = App(outdir=folder)
        stack = Stack(app, "unit")
        aws.AwsProvider(stack, "Aws", region=region)
        build(stack)
        app.synth()
        text = (Path(folder) / "stacks" / "unit" / "cdk.tf.json").read_text(encoding="utf-8")
    return Synthesized(document=json.loads(text))
