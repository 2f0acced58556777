"""API keys: who a request comes from.

Keys are kept as keyed hashes and compared in constant time, all of them for every request. Knows no routes but the
open ones. Invariant: behind the middleware, `request.state.tenant` is the name of a key's owner, or "anonymous" where
no keys are configured.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import secrets
from pathlib import Path

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from eagle3.errors import ConfigError
from eagle3.server.errors import UnauthorizedError

logger = logging.getLogger(__name__)

ANONYMOUS = "anonymous"
OPEN_PATHS = frozenset({"/health", "/ready", "/ping", "/metrics"})
_LEAST_KEY = 8


class ApiKeys:
    """The keys of one file: lines `name:key`, with `#` at the start of comments."""

    def __init__(self, path: Path) -> None:
        """ConfigError when the file cannot be read or a line is wrong."""
        self._path = path
        self._salt = secrets.token_bytes(32)
        self._owners = self._read()

    def __len__(self) -> int:
        return len(self._owners)

    def owner(self, key: bytes) -> str | None:
        """Name of a key's owner; None for an unknown key."""
        wanted = self._hash(key)
        found = None
        for known, name in self._owners:
            if hmac.compare_digest(known, wanted):
                found = name
        return found

    def reload(self) -> None:
        """Read the file again; the keys stay as they were when it is wrong, and the log says why."""
        try:
            self._owners = self._read()
        except ConfigError as error:
            logger.error("API keys not reloaded: %s", error)
        else:
            logger.info("%d API keys reloaded", len(self._owners))

    def _read(self) -> list[tuple[bytes, str]]:
        try:
            lines = self._path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"serving.api_keys_file {self._path} cannot be read: {error}") from error
        owners: list[tuple[bytes, str]] = []
        for number, line in enumerate(lines, start=1):
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            name, found, key = (part.strip() for part in line.partition(":"))
            # The line itself is not quoted: it may be a key.
            if not found or not name or len(key) < _LEAST_KEY:
                raise ConfigError(
                    f"{self._path}, line {number}: expected `name:key` with a key of at least {_LEAST_KEY} characters"
                )
            owners.append((self._hash(key.encode()), name))
        if not owners:
            raise ConfigError(
                f"{self._path} holds no keys; add a line `name:key`, or set serving.api_keys_file to null"
            )
        if len({known for known, _ in owners}) != len(owners):
            raise ConfigError(f"{self._path} holds the same key twice; give every owner a key of its own")
        return owners

    def _hash(self, key: bytes) -> bytes:
        return hashlib.blake2b(key, key=self._salt).digest()


class Authentication:
    """Middleware; what it raises is answered by the middleware around it."""

    def __init__(self, app: ASGIApp, *, keys: ApiKeys | None) -> None:
        self._app = app
        self._keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            tenant = ANONYMOUS
            if self._keys is not None and scope["path"] not in OPEN_PATHS:
                tenant = self._owner(self._keys, Headers(scope=scope))
            scope.setdefault("state", {})["tenant"] = tenant
        await self._app(scope, receive, send)

    def _owner(self, keys: ApiKeys, headers: Headers) -> str:
        scheme, _, key = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not key.strip():
            raise UnauthorizedError("no API key was given; send the header `Authorization: Bearer KEY`")
        owner = keys.owner(key.strip().encode("latin-1"))  # Starlette decodes headers so
        if owner is None:
            raise UnauthorizedError("the API key is unknown; check the header `Authorization: Bearer KEY`")
        return owner
