"""The model that a request names. Knows one name. Invariant: only the served model is answered for."""

from __future__ import annotations

from eagle3.server.errors import ModelNotFoundError
from eagle3.server.gateway import Gateway
from eagle3.server.refusals import RequestRefusedError


def check_model(gateway: Gateway, name: str | None, *, required: bool = True) -> None:
    """Refuse another model's name, and none where one is required."""
    if name is None and required:
        raise RequestRefusedError(f"model is required; this server serves {gateway.model_name!r}", param="model")
    if name not in (None, gateway.model_name):
        raise ModelNotFoundError(f"model {name[:100]!a} is not served here; use {gateway.model_name!r}")
