"""A scripted OpenAI-compatible server on a real socket: `python bench_doubles.py PORT` or `serving(...)` in a test.

Standard library only, so that it starts at once.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(kw_only=True)
class Script:
    """How the server answers, and what it saw."""

    chunks: int = 4
    """Chunks of text in an answer."""
    tokens_per_chunk: int = 3
    first_s: float = 0.03
    """Before the first chunk."""
    gap_s: float = 0.01
    """Between chunks."""
    status: int = 200
    ending: str = "whole"
    """`whole`, `cut` (connection closed in the middle), `no usage`, `no done` or `error`."""
    bodies: list[dict] = field(default_factory=list)
    headers: list[dict] = field(default_factory=list)
    most_at_once: int = 0


class Server(ThreadingHTTPServer):
    """Carries the script."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address, script):
        super().__init__(address, Handler)
        self.script = script
        self.lock = threading.Lock()
        self.active = 0

    def handle_error(self, request, client_address):
        """Readers that go away are part of the game and no news for stderr."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    """Models, chat completions, streamed or not."""

    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, *arguments):
        pass

    def do_GET(self):
        self.whole({"object": "list", "data": [{"id": "scripted", "object": "model"}]})

    def do_POST(self):
        script = self.server.script
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            script.bodies.append(body)
            script.headers.append(dict(self.headers))
            self.server.active += 1
            script.most_at_once = max(script.most_at_once, self.server.active)
        try:
            if body.get("stream"):
                self.stream(script)
            else:
                self.whole({"choices": [{"message": {"content": "Hello."}}], "usage": {"completion_tokens": 2}})
        finally:
            with self.server.lock:
                self.server.active -= 1

    def whole(self, document):
        body = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def stream(self, script):
        if script.status != 200:
            self.send_response(script.status)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.event({"choices": [{"delta": {"role": "assistant", "content": ""}}]})
        time.sleep(script.first_s)
        for number in range(script.chunks):
            if number:
                time.sleep(script.gap_s)
            if number == 1 and script.ending == "cut":
                self.close_connection = True
                return
            if number == 1 and script.ending == "error":
                self.event({"error": {"message": "the engine crashed"}})
            self.event({"choices": [{"delta": {"content": "wörd " * script.tokens_per_chunk}}]})
        self.event({"choices": [{"delta": {}, "finish_reason": "stop"}]})
        if script.ending != "no usage":
            tokens = script.chunks * script.tokens_per_chunk
            self.event({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": tokens}})
        if script.ending != "no done":
            self.chunk(b"data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")

    def event(self, document):
        self.chunk(b"data: " + json.dumps(document, ensure_ascii=False).encode() + b"\n\n")

    def chunk(self, data):
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()


@contextmanager
def serving(**values) -> Iterator[tuple[str, Script]]:
    """A running server; gives its URL and its script."""
    script = Script(**values)
    with Server(("127.0.0.1", 0), script) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", script
        finally:
            server.shutdown()
            thread.join()


if __name__ == "__main__":
    Server(("127.0.0.1", int(sys.argv[1])), Script()).serve_forever()
