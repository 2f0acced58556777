"""Messages of `application/vnd.amazon.eventstream`, the framing of streamed answers of AWS.

A message is: its length and the length of its headers (4 bytes each), a checksum of those, headers, payload, and a
checksum of all of it. Knows no HTTP. Invariant: every message is complete and its checksums are right.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping

CONTENT_TYPE = "application/vnd.amazon.eventstream"
_STRING = 7  # type of a header's value
# The protocol allows 16 MiB; clients cope better with pieces.
_MAX_PAYLOAD = 256 * 1024


def payload_parts(payload: bytes) -> bytes:
    """SageMaker's PayloadPart events for some bytes of a model's answer; one, unless there are very many bytes."""
    headers = {":event-type": "PayloadPart", ":content-type": "application/octet-stream", ":message-type": "event"}
    pieces = range(0, max(len(payload), 1), _MAX_PAYLOAD)
    return b"".join(message(headers, payload[start : start + _MAX_PAYLOAD]) for start in pieces)


def message(headers: Mapping[str, str], payload: bytes) -> bytes:
    """One message with string headers."""
    head = b"".join(_header(name.encode(), value.encode()) for name, value in headers.items())
    # 16: two lengths and two checksums of 4 bytes.
    prelude = struct.pack("!II", len(head) + len(payload) + 16, len(head))
    body = prelude + struct.pack("!I", zlib.crc32(prelude)) + head + payload
    return body + struct.pack("!I", zlib.crc32(body))


def _header(name: bytes, value: bytes) -> bytes:
    return struct.pack("!B", len(name)) + name + struct.pack("!BH", _STRING, len(value)) + value
