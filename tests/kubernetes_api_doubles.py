"""A cluster's API for tests: an HTTP server that answers lists of recorded objects, and faults where asked to.

Speaks what the real API does of lists: envelopes without `kind` in their items, `limit` and `continue`, namespaces,
selectors, metadata alone where the client accepts only that, and Status objects for refusals. Knows no diagnosis.
Invariant: whatever is asked is kept in `asked`, so that a test can show that nothing but GET was.
"""

from __future__ import annotations

import contextlib
import json
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml

Object = dict[str, Any]
ARN = "arn:aws:eks:us-east-1:123456789012:cluster/"
_ABSENT = object()


@dataclass
class Fault:
    """How the API answers in place of a list."""

    status: int = 403
    headers: Mapping[str, str] = field(default_factory=dict)
    times: int | None = None
    """How often, before the list comes after all; None: always."""
    hangs: bool = False
    """Answers nothing until the server closes."""
    body: bytes | None = None
    """In place of a Status object."""


class KubernetesApi:
    """One running server."""

    def __init__(self, recorded: Mapping[str, Sequence[Object]], faults: Mapping[str, Fault], page: int) -> None:
        self.recorded = dict(recorded)
        """By kind in the plural with its group: "pods", "apps/deployments"."""
        self.faults = dict(faults)
        """By the same, and by it with a namespace: "pods@eagle3"."""
        self.page = page
        self.asked: list[tuple[str, str, str]] = []
        """Method, path with query, and the header Accept."""
        self.closing = threading.Event()
        double = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                double._answer(self)

            do_POST = do_PUT = do_PATCH = do_DELETE = do_GET

            def log_message(self, *_arguments: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the server; requests that hang end with it."""
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _answer(self, handler: BaseHTTPRequestHandler) -> None:
        accept = handler.headers.get("Accept", "")
        self.asked.append((handler.command, handler.path, accept))
        address = urlsplit(handler.path)
        plural, namespace = _kind(address.path)
        for key in (plural, f"{plural}@{namespace or '*'}"):
            fault = self.faults.get(key)
            if fault is not None and fault.times != 0:
                if fault.times is not None:
                    fault.times -= 1
                self._refuse(handler, fault, plural)
                return
        if plural not in self.recorded:
            _send(handler, 404, b"404 page not found\n", {"Content-Type": "text/plain"})
            return
        query = {name: values[0] for name, values in parse_qs(address.query).items()}
        found = [item for item in self.recorded[plural] if _fits(item, namespace, query)]
        start = int(query.get("continue", 0))
        end = start + min(self.page, int(query.get("limit", self.page)))
        metadata = {"resourceVersion": "482113"} | ({"continue": str(end)} if end < len(found) else {})
        items = found[start:end]
        if "PartialObjectMetadataList" in accept:
            items = [{"metadata": item["metadata"]} for item in items]
        _send(
            handler,
            200,
            json.dumps({"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": items}).encode(),
        )

    def _refuse(self, handler: BaseHTTPRequestHandler, fault: Fault, plural: str) -> None:
        if fault.hangs:
            self.closing.wait(30.0)
            handler.close_connection = True
            return
        user = "arn:aws:sts::123456789012:assumed-role/viewer/night"
        resource = plural.rpartition("/")[2]
        reasons = {401: "Unauthorized", 403: "Forbidden", 429: "TooManyRequests"}
        message = f'{resource} is forbidden: User "{user}" cannot list resource "{resource}" in API group ""'
        status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": fault.status}
        status |= {"reason": reasons.get(fault.status, "Unknown"), "message": f"{message} at the cluster scope"}
        _send(handler, fault.status, json.dumps(status).encode() if fault.body is None else fault.body, fault.headers)


def _kind(path: str) -> tuple[str, str | None]:
    match = re.fullmatch(r"/(?:api/v1|apis/([^/]+)/[^/]+)(?:/namespaces/([^/]+))?/([a-z]+)", path)
    assert match is not None, f"no list of the API: {path}"
    return (f"{match[1]}/{match[3]}" if match[1] else match[3]), match[2]


def _fits(item: Object, namespace: str | None, query: Mapping[str, str]) -> bool:
    if namespace is not None and item["metadata"].get("namespace") != namespace:
        return False
    labels = item["metadata"].get("labels") or {}
    wanted = [(labels, query.get("labelSelector")), (item, query.get("fieldSelector"))]
    return all(
        holder.get(key, _ABSENT) == value
        for holder, selector in wanted
        for key, _, value in (part.partition("=") for part in (selector or "").split(",") if part)
    )


def _send(handler: BaseHTTPRequestHandler, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
    handler.send_response(status)
    for name, value in ({"Content-Type": "application/json"} | dict(headers or {})).items():
        handler.send_header(name, value)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


@contextlib.contextmanager
def kubernetes_api(
    recorded: Mapping[str, Sequence[Object]], *, faults: Mapping[str, Fault] | None = None, page: int = 500
) -> Iterator[KubernetesApi]:
    """A server that is not left behind."""
    server = KubernetesApi(recorded, faults or {}, page)
    try:
        yield server
    finally:
        server.close()


def write_kubeconfig(path: Path, url: str, *, cluster: str = f"{ARN}eagle3-dev-large-cluster", **user: Any) -> Path:
    """A kubeconfig as `aws eks update-kubeconfig` writes it, with a token in place of the command that fetches one."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "preferences": {},
        "clusters": [{"name": cluster, "cluster": {"server": url}}],
        "users": [{"name": cluster, "user": user or {"token": "k8s-aws-v1.recorded"}}],
        "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": cluster}}],
        "current-context": cluster,
    }
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return path
