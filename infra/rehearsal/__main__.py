"""`python -m infra.rehearsal STACK`, run in a checkout."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from infra.rehearsal.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ, Path.cwd()))
