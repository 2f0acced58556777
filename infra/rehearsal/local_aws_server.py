"""The process of the local AWS: `moto` on a free loopback port, and answers about what it holds.

Started by `local_aws.py`. Says one JSON line `{"url": …}` when it listens. A line on stdin names regions, such as
`["us-east-1"]`, and is answered by one line, the inventory. Ends when stdin does, so it never outlives its parent.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import sys
from typing import Any

from infra.rehearsal.inventory import items
from infra.rehearsal.moto_gaps import close_gaps

_GLOBAL = "aws"
_ACCOUNT = "123456789012"


def main() -> int:
    """Serve until stdin ends."""
    # Managed policies can be attached only if they are there.
    os.environ["MOTO_IAM_LOAD_MANAGED_POLICIES"] = "true"
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    backends = importlib.import_module("moto.backends")
    server = importlib.import_module("moto.server").ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    close_gaps()
    _touch(backends, [_GLOBAL, "us-east-1"])
    server.start()
    host, port = server.get_host_and_port()
    _say({"url": f"http://{host}:{port}"})
    for line in sys.stdin:
        regions = json.loads(line)
        _say(list(items(_touch(backends, [_GLOBAL, *regions]))))
    server.stop()
    return 0


def _touch(backends: Any, regions: list[str]) -> dict[str, dict[str, Any]]:
    """Every backend of these regions. A new one makes its defaults (a VPC, an event bus), so none may come later."""
    found: dict[str, dict[str, Any]] = {}
    for service in backends.list_of_moto_modules():
        try:
            account = backends.get_backend(service)[_ACCOUNT]
        except (AttributeError, KeyError):
            continue  # not a service: helpers of moto live beside the services
        found[service] = {region: account[region] for region in dict.fromkeys(regions) if region in account}
    return found


def _say(value: Any) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
