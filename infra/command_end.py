"""How a command of the infrastructure ends: its text on stdout, or one line on stderr and the error's exit code.

Knows no command. The command line `eagle3` ends the same way; these run as processes of their own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from eagle3.errors import Eagle3Error


def finish(make_text: Callable[[], str]) -> int:
    """Print what `make_text` gives and return 0, or say why there is none and return the exit code; 130 on Ctrl-C."""
    try:
        text = make_text()
    except Eagle3Error as error:
        sys.stderr.write(f"eagle3: {' '.join(str(error).split())}\n")
        return error.exit_code
    except KeyboardInterrupt:
        sys.stderr.write("eagle3: interrupted\n")
        return 130
    sys.stdout.write(text + "\n")
    return 0
