"""What the server's process and the native engine's process say to each other, and how it is framed.

One message is the length of its pickle (8 bytes, big-endian) and the pickle. Both ends are this package in this
version, over a socket in a folder that only this user can enter. Knows no models.
"""

from __future__ import annotations

import pickle
import struct
from dataclasses import dataclass

from eagle3.engine.batch import Event
from eagle3.engine.interface import EngineInfo, EngineSnapshot, GenerationRequest
from eagle3.errors import Eagle3Error

LENGTH = struct.Struct(">Q")


@dataclass(frozen=True, slots=True)
class Configure:
    """To the engine, first: the deployment config as JSON."""

    config: str


@dataclass(frozen=True, slots=True)
class Add:
    """To the engine: serve this."""

    request: GenerationRequest


@dataclass(frozen=True, slots=True)
class Abort:
    """To the engine: forget this request."""

    request_id: str


@dataclass(frozen=True, slots=True)
class Loaded:
    """From the engine: it answers."""

    info: EngineInfo


@dataclass(frozen=True, slots=True)
class NotLoaded:
    """From the engine, last: it cannot load what the config names."""

    error: Eagle3Error


@dataclass(frozen=True, slots=True)
class Progress:
    """From the engine: what happened since the last message; either may be missing."""

    events: list[Event]
    snapshot: EngineSnapshot | None


Command = Configure | Add | Abort
Report = Loaded | NotLoaded | Progress


def pack(message: Command | Report) -> bytes:
    """A message as it goes over the socket."""
    body = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    return LENGTH.pack(len(body)) + body


def unpack(body: bytes) -> Command | Report:
    """A message from what came after its length."""
    message: Command | Report = pickle.loads(body)  # noqa: S301 - from our own other process
    return message
