"""Work that is given up when the client has gone.

Knows ASGI's `receive` and nothing of the work. Invariant: when the call returns or raises, neither the work nor the
watch for the client is still running.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.types import Receive

_Result = TypeVar("_Result")


class ClientGoneError(Exception):
    """The client closed its connection; nobody reads an answer any more."""


async def unless_gone(receive: Receive, work: Coroutine[Any, Any, _Result]) -> _Result:
    """Result of `work`; ClientGoneError once the client has gone, after `work` was cancelled.

    The request's body must have been read before.
    """
    working = asyncio.ensure_future(work)
    watching = asyncio.ensure_future(_gone(receive))
    try:
        await asyncio.wait((working, watching), return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        watching.result()
        raise ClientGoneError
    finally:
        for task in (working, watching):
            task.cancel()
        # Waits for what the work does on its way out; the outcome was taken above or nobody wants it.
        await asyncio.gather(working, watching, return_exceptions=True)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
