"""Reading calls of AWS, each with bounded time, and the reason in one line where one does not succeed.

Knows no alarm. Invariant: an operation whose name does not begin with a reading verb is never called; a service whose
address does not answer is asked once.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
    HTTPClientError,
    NoCredentialsError,
    PartialCredentialsError,
    ReadTimeoutError,
)

READING = ("describe_", "get_", "list_", "lookup_", "filter_", "batch_get_")
# Runs a query of CloudWatch Logs Insights, which IAM counts among the reading actions: groups of the class Infrequent
# Access, as those of builds are, can be read in no other way.
READING_TOO = frozenset({("logs", "start_query")})

_CONNECT_S, _READ_S = 4, 15
_UNREACHABLE = (EndpointConnectionError, ConnectTimeoutError, ReadTimeoutError, ConnectionClosedError, HTTPClientError)
_DENIED = re.compile(r"AccessDenied|Unauthorized|AuthorizationError|NotAuthorized", re.IGNORECASE)
_THROTTLED = re.compile(r"Throttl|TooManyRequests|RequestLimitExceeded|LimitExceededException|SlowDown", re.IGNORECASE)
_CREDENTIALS = re.compile(r"ExpiredToken|InvalidClientTokenId|UnrecognizedClient|SignatureDoesNotMatch|AuthFailure")
_ACTION = re.compile(r"not authorized to perform:? (?P<action>[a-z0-9-]+:[A-Za-z0-9]+)")


class UnreadableError(Exception):
    """One call that brought nothing; the text is the reason, in one line."""


@dataclass(slots=True)
class AwsReader:
    """Reads one account in one region. Used by several threads at once."""

    session: Any
    """A `boto3.Session`."""
    region: str
    deadline_s: float = 120.0
    """Seconds from now after which no new call is made."""
    attempts: int = 4
    """Of one call, the first included, before it is given up."""
    clock: Callable[[], float] = time.monotonic
    called: list[tuple[str, str]] = field(default_factory=list)
    """Every operation that was asked for: service and name."""
    _clients: dict[tuple[str, str], Any] = field(default_factory=dict)
    _silent: dict[tuple[str, str], str] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _end: float = 0.0

    def __post_init__(self) -> None:
        self._end = self.clock() + self.deadline_s

    def read(self, service: str, operation: str, *, in_region: str | None = None, **parameters: Any) -> dict[str, Any]:
        """The answer of one call; UnreadableError with the reason, ClientError where the thing asked for is not there.

        Which codes of ClientError mean "not there" is the caller's to know; those of permissions, throttling and
        credentials never come through.
        """
        assert operation.startswith(READING) or (service, operation) in READING_TOO, f"{operation} does not only read"
        where = (service, in_region or self.region)
        if where in self._silent:
            raise UnreadableError(self._silent[where])
        if self.clock() > self._end:
            raise UnreadableError(f"no time left: {self.deadline_s:g} s are over")
        self.called.append((service, operation))
        try:
            answer: dict[str, Any] = getattr(self._client(*where), operation)(**parameters)
        except ClientError as error:
            reason = _refusal(error, service, operation, self.attempts)
            if reason is None:
                raise
            raise UnreadableError(reason) from error
        except (NoCredentialsError, PartialCredentialsError) as error:
            raise UnreadableError(f"no credentials for {service}") from error
        except _UNREACHABLE as error:
            self._silent[where] = f"{service} in {where[1]} does not answer ({type(error).__name__})"
            raise UnreadableError(self._silent[where]) from error
        except BotoCoreError as error:
            raise UnreadableError(" ".join(str(error).split())) from error
        return answer

    def _client(self, service: str, region: str) -> Any:
        with self._lock:  # a session makes clients for one thread at a time
            if (service, region) not in self._clients:
                config = Config(
                    retries={"mode": "standard", "total_max_attempts": self.attempts},
                    connect_timeout=_CONNECT_S,
                    read_timeout=_READ_S,
                    user_agent_extra="eagle3-runbook",
                )
                self._clients[service, region] = self.session.client(service, region_name=region, config=config)
            return self._clients[service, region]


def error_code(error: ClientError) -> str:
    """The code of an error, such as "ResourceNotFoundException"."""
    return str(error.response.get("Error", {}).get("Code", ""))


def error_text(error: ClientError) -> str:
    """Its message, in one line."""
    return " ".join(str(error.response.get("Error", {}).get("Message", "")).split())


def _refusal(error: ClientError, service: str, operation: str, attempts: int) -> str | None:
    """Why a call was refused; None if the refusal is about what was asked for."""
    code, text = error_code(error), error_text(error)
    if _DENIED.search(code) or (code == "ValidationException" and "is not authorized" in text):
        named = _ACTION.search(text)
        action = named["action"] if named else f"{service}:{''.join(word.title() for word in operation.split('_'))}"
        return f"missing permission {action} ({code})"
    if _CREDENTIALS.search(code):
        return f"credentials refused ({code}); renew them"
    if _THROTTLED.search(code):
        return f"throttled, {attempts} attempts ({code})"
    if error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0) >= 500:
        return f"{service} failed, {attempts} attempts ({code})"
    return None
