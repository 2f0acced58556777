"""Servers and AWS answers for `eagle3 ask`: bytes written by hand on a real socket, and botocore's clients that get
theirs without a network.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import boto3
from botocore.awsrequest import AWSResponse
from botocore.config import Config

from eagle3.ops.ask.endpoint_clients import EndpointClients
from eagle3.server.aws_event_stream import message, payload_parts

TEXTS = ("Mercury", ", Venus", " and Mars.")
USAGE = {"prompt_tokens": 7, "completion_tokens": 6, "total_tokens": 13}


def chunk(text: str | None = None, *, finish: str | None = None, usage: Any = None) -> dict[str, Any]:
    """One chunk of a stream of chat completions."""
    choices = [{"index": 0, "delta": {} if text is None else {"content": text}, "finish_reason": finish}]
    return {
        "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "tiny",
        "choices": [] if usage else choices, "usage": usage,
    }  # fmt: skip


def whole(text: str) -> dict[str, Any]:
    """A whole chat completion."""
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return {
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "tiny", "choices": [choice],
        "usage": USAGE,
    }  # fmt: skip


def event(value: Any) -> bytes:
    """A server-sent event."""
    return b"data: " + (value if isinstance(value, bytes) else json.dumps(value).encode()) + b"\n\n"


CHUNKS = [*(chunk(text) for text in TEXTS), chunk(finish="stop"), chunk(usage=USAGE)]
STREAM = b"".join(event(item) for item in CHUNKS) + event(b"[DONE]")


class HandWrittenServer:
    """Answers POSTs with `parts`; remembers requests. With `cut` the connection ends in the middle of the body."""

    def __init__(self, parts: Iterable[bytes], *, status: int = 200, cut: bool = False, **headers: str) -> None:
        self.requests: list[dict[str, Any]] = []
        self.models = ["tiny"]
        self.models_body: bytes | None = None
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                listed = {"object": "list", "data": [{"id": name, "object": "model"} for name in outer.models]}
                body = outer.models_body or json.dumps(listed).encode()
                self.send_response(200)
                self.send_header("content-type", "text/html" if outer.models_body else "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                headers_seen = {name.lower(): value for name, value in self.headers.items()}
                outer.requests.append({"path": self.path, "headers": headers_seen, "body": json.loads(body)})
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name.replace("_", "-"), value)
                self.send_header("transfer-encoding", "chunked")
                self.end_headers()
                with contextlib.suppress(ConnectionError):
                    for part in parts:
                        self.wfile.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")
                        self.wfile.flush()
                    if not cut:
                        self.wfile.write(b"0\r\n\r\n")
                self.close_connection = True

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> HandWrittenServer:
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Raw:
    """The part of urllib3's response that botocore reads."""

    def __init__(self, parts: Sequence[bytes], fails: Exception | None) -> None:
        self._parts, self._fails = parts, fails
        self.closed = False

    def stream(self, *args: Any, **options: Any) -> Iterator[bytes]:
        yield from self._parts
        if self._fails is not None:
            raise self._fails

    def read(self, amount: int | None = None) -> bytes:
        parts, self._parts = self._parts, ()
        return b"".join(parts)

    def close(self) -> None:
        self.closed = True


class Runtime:
    """What SageMaker's runtime sends back: real bytes of the wire, read by the real client."""

    def __init__(
        self, parts: Sequence[bytes] = (), *, status: int = 200, fails: Exception | None = None, **headers: str
    ) -> None:
        self.raw = _Raw(parts, fails)
        self.requests: list[Any] = []
        self._status = status
        self._headers = {name.replace("_", "-"): value for name, value in headers.items()}
        self.clients = EndpointClients(runtime=_client("sagemaker-runtime"), control=_client("sagemaker"), region="r-1")
        self.clients.runtime.meta.events.register_first("before-send", self._answer)

    def _answer(self, request: Any, **_: Any) -> AWSResponse:
        self.requests.append(request)
        return AWSResponse(request.url, self._status, self._headers, self.raw)


def _client(service: str) -> Any:
    return boto3.client(
        service,
        region_name="us-east-1",
        aws_access_key_id="unused",
        aws_secret_access_key="unused",
        config=Config(retries={"total_max_attempts": 1}),
    )


def framed(parts: Sequence[bytes]) -> list[bytes]:
    """The parts as PayloadPart events."""
    return [payload_parts(part) for part in parts]


def stream_fault(kind: str, **fields: str) -> bytes:
    """An exception event, as it comes within a stream."""
    headers = {":exception-type": kind, ":content-type": "application/json", ":message-type": "exception"}
    return message(headers, json.dumps(fields).encode())


def streaming_runtime(parts: Sequence[bytes], *, fails: Exception | None = None, **headers: str) -> Runtime:
    """A runtime that streams events already framed."""
    kind: dict[str, Any] = {"X_Amzn_SageMaker_Content_Type": "text/event-stream"} | headers
    return Runtime(parts, fails=fails, Content_Type="application/vnd.amazon.eventstream", **kind)


def refusing_runtime(status: int, kind: str, body: dict[str, Any]) -> Runtime:
    """A runtime that refuses the call."""
    return Runtime([json.dumps(body).encode()], status=status, x_amzn_ErrorType=kind, Content_Type="application/json")
