"""Modules without values, to be filled from a file.

Invariant: nothing is computed for parameters that the file replaces, and nothing runs on the meta device: its random
values and ranges would import torch's compiler, which takes longer than everything else that a loader does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

Made = TypeVar("Made", bound=nn.Module)


class _Unfilled(TorchFunctionMode):
    """Memory that is to be filled is not taken, and the functions of `torch.nn.init` leave their tensor as it is."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        given = dict(kwargs or {})
        if getattr(func, "__module__", None) == nn.init.__name__:
            return given["tensor"] if "tensor" in given else args[0]
        if func is torch.empty:
            given["device"] = "meta"
        return func(*args, **given)


def unfilled(make: Callable[[], Made]) -> Made:
    """What `make` makes: its parameters on the meta device and without values, its buffers computed."""
    with _Unfilled():
        return make()
