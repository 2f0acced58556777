"""`python -m infra.diagnosis list|show|diagnose`, run in a checkout."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from infra.diagnosis.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ, Path.cwd()))
