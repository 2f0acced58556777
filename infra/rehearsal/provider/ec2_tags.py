"""Tags of EC2's resources, which are given when a resource is made under the word that EC2 has for its kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from infra.rehearsal.provider.adapter import call
from infra.rehearsal.provider.templates import State


def tagged(kind: str) -> Callable[[State], Any]:
    """`TagSpecifications` of a request that makes a resource of that kind, such as "vpc"."""

    def specifications(state: State) -> Any:
        tags = state.get("tags_all")
        return [{"ResourceType": kind, "Tags": tags}] if tags else None

    return specifications


RETAG = call("create_tags", Resources=["{id}"], Tags="{tags_all}", when=["tags_all"])
"""The step of an update that sets the tags anew; one that is set no more stays until the resource goes."""
