"""Entry point of the app, run by the cdktf command line: `python -m infra`.

Reads `EAGLE3KIT_ENVIRONMENT` (default dev), `EAGLE3KIT_SET` (overrides), `EAGLE3KIT_STACKS` (comma-separated; all by
default) and, in `infra/framework.py`, `EAGLE3KIT_FRAMEWORK`. Bad settings end with one line and exit code 2.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from datetime import UTC, datetime

from eagle3.errors import Eagle3Error


def main(environ: Mapping[str, str]) -> int:
    """Synthesize into the folder that the command line names (cdktf.out by default)."""
    try:
        # Imported here, so that a framework that is missing or misnamed ends with one line too.
        from infra.app import STACKS, build_app
        from infra.settings.load import load_settings

        settings = load_settings(environ.get("EAGLE3KIT_ENVIRONMENT", "dev"), environ.get("EAGLE3KIT_SET", ""))
        asked = [name.strip() for name in environ.get("EAGLE3KIT_STACKS", "").split(",") if name.strip()]
        build_app(settings, today=datetime.now(UTC).date(), stacks=asked or tuple(STACKS)).synth()
    except Eagle3Error as error:
        print(f"eagle3-kit: {' '.join(str(error).split())}", file=sys.stderr)  # noqa: T201
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(os.environ))
