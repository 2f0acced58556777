"""One run of a program that serves a model over HTTP on the loopback: started, asked, stopped.

Knows no dialect of requests. Invariant: a stream of events ends with its last event or with an exception, also
when the process dies and when something else keeps its connections open.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any

import httpx

from eagle3.engine.process_child import ProcessChild
from eagle3.errors import ConfigError, Eagle3Error, EngineUnavailableError, InvalidInputError

_POLL_S = 0.5
_PERMANENT = re.compile(r"No module named|unrecognized arguments|invalid choice|the following arguments are required")
_TIMEOUTS = httpx.Timeout(None, connect=5.0, write=30.0)  # an answer may take its time; deadlines are the server's


class UpstreamChild:
    """A `Child` of the supervisor."""

    def __init__(self, process: ProcessChild, *, url: str, name: str, probe: tuple[str, Mapping[str, Any]]) -> None:
        self._process = process
        self._name = name
        self._probe = probe
        self._ready = False
        # No proxies: the environment's are not for the loopback.
        self._client = httpx.AsyncClient(
            base_url=url, timeout=_TIMEOUTS, trust_env=False, limits=httpx.Limits(max_connections=None)
        )

    async def wait_ready(self) -> None:
        """Return when it is healthy and has answered a first request."""
        while not await self._healthy():
            await asyncio.sleep(_POLL_S)
        path, body = self._probe
        try:
            async with aclosing(self.events(path, body)) as events:
                async for _ in events:
                    pass
        except InvalidInputError as error:
            raise ConfigError(f"{self._name} refuses a plain request: {error}") from error
        self._ready = True

    async def wait_exit(self) -> str:
        """Why it ended; ConfigError when it refused its command line."""
        reason = await self._process.wait_exit()
        if not self._ready and (said := next(filter(_PERMANENT.search, self._process.tail), None)):
            raise ConfigError(f"{self._name} does not start: {said[:500]}")
        return f"{self._name}: {reason}"

    async def stop(self) -> None:
        """Close the connections, which cancels their requests, and end the process."""
        await self._client.aclose()
        await self._process.stop()

    async def events(self, path: str, body: Mapping[str, Any]) -> AsyncGenerator[dict[str, Any], None]:
        """Post a request and yield its server-sent events up to `[DONE]`; closing it closes the connection."""
        ended = asyncio.ensure_future(self._process.wait_exit())
        try:
            async with self._client.stream("POST", path, json=body) as response:
                if response.status_code != httpx.codes.OK:
                    raise self._refusal(response.status_code, await response.aread())
                lines = response.aiter_lines()
                while (line := await self._next(lines, ended)) is not None:
                    if not line.startswith("data:"):
                        continue
                    data = line.removeprefix("data:").strip()
                    if data == "[DONE]":
                        return
                    event = json.loads(data)
                    if "error" in event:
                        raise self._refusal(_code_of(event["error"]), data.encode())
                    yield event
        except (httpx.HTTPError, httpx.StreamError, RuntimeError) as error:  # RuntimeError: the client was closed
            raise EngineUnavailableError(f"{self._name} broke off: {str(error) or type(error).__name__}") from error
        except ValueError as error:
            raise EngineUnavailableError(f"{self._name} sent something that is no JSON: {error}") from error
        finally:
            ended.cancel()
        raise EngineUnavailableError(f"{self._name} broke off in the middle of an answer")

    async def metrics(self) -> str | None:
        """Its Prometheus page; None when it does not answer."""
        return await self._get("/metrics")

    async def version(self) -> str | None:
        """Its release, where it tells."""
        page = await self._get("/version")
        try:
            return str(json.loads(page)["version"]) if page is not None else None
        except (ValueError, KeyError, TypeError):
            return None

    async def _healthy(self) -> bool:
        return await self._get("/health") is not None

    async def _get(self, path: str) -> str | None:
        try:
            response = await self._client.get(path, timeout=5.0)
        except httpx.HTTPError:
            return None
        return response.text if response.status_code == httpx.codes.OK else None

    async def _next(self, lines: AsyncIterator[str], ended: asyncio.Future[str]) -> str | None:
        following: asyncio.Future[str | None] = asyncio.ensure_future(_following(lines))
        try:
            waiting: set[asyncio.Future[Any]] = {following, ended}
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if following.done():
                return following.result()
            raise EngineUnavailableError(f"{self._name} ended: {ended.result()}")
        finally:
            if not following.done():
                following.cancel()
                await asyncio.gather(following, return_exceptions=True)

    def _refusal(self, status: int, body: bytes) -> Eagle3Error:
        said = _message(body)
        if status in (400, 404, 413, 422):
            return InvalidInputError(f"{self._name} cannot serve this request: {said}")
        return EngineUnavailableError(f"{self._name} failed with status {status}: {said}")


def _code_of(error: object) -> int:
    code = error.get("code") if isinstance(error, dict) else None
    return code if isinstance(code, int) else 500


def _message(body: bytes) -> str:
    text = body.decode("utf-8", "replace")
    try:
        value = json.loads(text)
    except ValueError:
        return text[:500]
    inner = value.get("error", value) if isinstance(value, dict) else value
    return str(inner.get("message", inner) if isinstance(inner, dict) else inner)[:500]


async def _following(lines: AsyncIterator[str]) -> str | None:
    """The next line; None at the end."""
    return await anext(lines, None)
