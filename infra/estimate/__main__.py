"""`python -m infra.estimate STACK`, run in a checkout."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime

from infra.estimate.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ, datetime.now(UTC).date()))
