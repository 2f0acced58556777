#!/opt/eagle3/bin/python
"""What Docker asks a container's health with: exit code 0 while the server's process answers /health, else 1.

Knows the server's port from the environment alone; a port set in a config file or by a flag it does not see.
"""

from __future__ import annotations

import os
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping

_TIMEOUT_S = 4.0


def health_url(environ: Mapping[str, str]) -> str:
    """Address of /health."""
    port = environ.get("EAGLE3_SERVING__PORT") or environ.get("SAGEMAKER_BIND_TO_PORT") or "8080"
    return f"http://127.0.0.1:{port}/health"


def main() -> int:
    """Ask once; what is wrong goes to stderr, where `docker inspect` shows it."""
    url = health_url(os.environ)
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT_S):  # noqa: S310 - always http, always this container
            return 0
    except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
        print(f"{url}: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
