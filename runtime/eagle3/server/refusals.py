"""A refusal that names the field at fault, as the `param` of the API's error bodies.

Knows nothing of how an error is written into a response. Invariant: raised only before anything of the response was
sent, and its text quotes no prompt.
"""

from __future__ import annotations

from eagle3.errors import InvalidInputError


class RequestRefusedError(InvalidInputError):
    """A request that cannot be served for what it says in `param`."""

    def __init__(self, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param
