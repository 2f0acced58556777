"""A local AWS over HTTP for tests of the whole command: spot instances taken back, and calls that are throttled.

moto in this process, behind a door of our own that refuses calls as AWS refuses them. Knows no diagnosis. Invariant:
what a test left in moto is gone when its context ends.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

import boto3
import httpx
from moto.ec2.models import ec2_backends
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

ACCOUNT, REGION = "123456789012", "us-east-1"
ENVIRONMENT = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_REGION": REGION,
               "AWS_DEFAULT_REGION": REGION}  # fmt: skip
_SERVICE = re.compile(r"Credential=[^/]+/\d+/[^/]+/([a-z0-9-]+)/aws4_request")
_THROTTLED = (
    b'<?xml version="1.0" encoding="UTF-8"?><Response><Errors><Error><Code>RequestLimitExceeded</Code><Message>'
    b"Request limit exceeded.</Message></Error></Errors><RequestID>00000000-0000-4000-8000-000000000000</RequestID>"
    b"</Response>"
)

# moto keeps no times of spot requests and writes this one; what has happened here has happened just now.
_NO_TIME = b"2015-01-01T00:00:00.000Z"


class Door:
    """moto as a WSGI application, with calls of one service refused as throttled."""

    def __init__(self) -> None:
        self._moto = DomainDispatcherApplication(create_backend_app)
        self._lock = threading.Lock()
        self.throttled: dict[str, int] = {}
        """How many calls of a service are still to be refused."""
        self.refused = 0

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        found = _SERVICE.search(environ.get("HTTP_AUTHORIZATION", ""))
        service = "" if found is None else found[1]
        with self._lock:
            refuses = self.throttled.get(service, 0) > 0
            if refuses:
                self.throttled[service] -= 1
                self.refused += 1
        if not refuses:
            now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z").encode()
            return [part.replace(_NO_TIME, now) for part in self._moto(environ, start_response)]
        environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        start_response("503 Service Unavailable", [("Content-Type", "text/xml")])
        return [_THROTTLED]


class LocalAws:
    """A running one."""

    def __init__(self, door: Door, url: str) -> None:
        self.door = door
        self.url = url

    def client(self, service: str) -> Any:
        """A client of it."""
        secrets = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing"}
        return boto3.client(service, endpoint_url=self.url, region_name=REGION, **secrets)

    def take_spot_back(self, count: int, *, cluster: str | None, code: str = "instance-terminated-no-capacity") -> None:
        """Start spot instances, of a cluster or of nobody's, and end them as AWS does."""
        ec2 = self.client("ec2")
        image = ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
        launch = {"ImageId": image, "InstanceType": "p4d.24xlarge"}
        made = ec2.request_spot_instances(InstanceCount=count, SpotPrice="33", LaunchSpecification=launch)
        requests = ec2_backends[ACCOUNT][REGION].spot_instance_requests
        for one in made["SpotInstanceRequests"]:
            if cluster is not None:
                tag = {"Key": f"kubernetes.io/cluster/{cluster}", "Value": "owned"}
                ec2.create_tags(Resources=[one["InstanceId"]], Tags=[tag])
            # No call of AWS does this: AWS itself does.
            requests[one["SpotInstanceRequestId"]]._status_code = code


@contextlib.contextmanager
def local_aws() -> Iterator[LocalAws]:
    """A local AWS that is not left behind."""
    door = Door()
    server = make_server("127.0.0.1", 0, door, threaded=True)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield LocalAws(door, url)
    finally:
        httpx.post(f"{url}/moto-api/reset", timeout=30.0)
        server.shutdown()
        server.server_close()
        thread.join()
