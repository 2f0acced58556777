"""Names that the configuration leaves to the provider: a prefix with a unique end.

Knows pairs of attributes such as `name` and `name_prefix` by the schema alone. Invariant: a name that the configuration
sets is left as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from infra.rehearsal.provider.schema import Block
from infra.rehearsal.provider.wire import is_unknown

_PREFIX = "_prefix"


def settled(block: Block, planned: Mapping[str, Any], token: Callable[[], str]) -> dict[str, Any]:
    """The planned state with unknown names made up from their prefixes."""
    state = dict(planned)
    for prefix in block.attributes:
        name = prefix.removesuffix(_PREFIX)
        if prefix == name or name not in block.attributes:
            continue
        if is_unknown(state.get(name)):
            given = state.get(prefix)
            state[name] = (given if isinstance(given, str) else "terraform-") + token()
        if is_unknown(state.get(prefix)):
            state[prefix] = None
    own = block.attributes.get("name")
    if own is not None and own.optional and is_unknown(state.get("name")):
        state["name"] = "terraform-" + token()
    return state
