#!/opt/eagle3/bin/python
"""What an eagle3 image starts: SageMaker's `serve`, an `eagle3` command, or any other command.

Knows folders and names of variables, not the deployment config; uses the standard library alone. Invariant: it ends by
becoming the command (exec), so that signals and exit codes are the command's own.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

MODEL_FOLDER = Path("/opt/ml/model")
"""Where SageMaker puts a model's files, read-only."""

_PORT = "8080"
_BAD_INPUT, _NOT_EXECUTABLE, _NOT_FOUND = 2, 126, 127


class EntrypointError(Exception):
    """The container cannot start as asked; the message says what, got, allowed, remedy."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Command:
    """What to become."""

    arguments: tuple[str, ...]
    """The program first."""
    environment: Mapping[str, str]
    """All of it."""


def command(arguments: Sequence[str], environ: Mapping[str, str], *, model_folder: Path = MODEL_FOLDER) -> Command:
    """The command for a container's arguments; no argument means SageMaker's `serve`."""
    if not arguments or list(arguments) == ["serve"]:
        return Command(arguments=("eagle3", "serve"), environment=_sagemaker_environment(environ, model_folder))
    if arguments[0] == "serve" or arguments[0].startswith("-"):
        # Flags of `eagle3 serve` beside SageMaker's defaults would be two sources for one setting.
        raise EntrypointError(
            f"`serve` alone is SageMaker's command; got {' '.join(arguments)!r}; for flags of your own, run "
            "`eagle3 serve …`"
        )
    return Command(arguments=tuple(arguments), environment=dict(environ))


def _sagemaker_environment(environ: Mapping[str, str], model_folder: Path) -> dict[str, str]:
    """What the environment says, over SageMaker's address and the model that it mounted."""
    defaults = {
        "EAGLE3_SERVING__HOST": "0.0.0.0",  # noqa: S104 - a container's address is the platform's to guard
        "EAGLE3_SERVING__PORT": environ.get("SAGEMAKER_BIND_TO_PORT", _PORT),
    }
    if "EAGLE3_TARGET" not in environ:
        defaults |= _mounted_model(model_folder)
    return defaults | dict(environ)


def _mounted_model(folder: Path) -> dict[str, str]:
    """Target and draft in the mounted folder; nothing where it is empty, so that the default model serves."""
    try:
        names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
        if not names:
            return {}
        model = {}
        if target := _weights(folder / "target") or _weights(folder):
            model["EAGLE3_TARGET"] = target
        if (folder / "draft" / "config.json").is_file():
            model["EAGLE3_DRAFT"] = str(folder / "draft")
    except PermissionError as error:
        raise EntrypointError(
            f"user {os.getuid()} may not read {error.filename}; let everyone read the model's files"
        ) from error
    if "EAGLE3_TARGET" not in model:
        raise EntrypointError(
            f"{folder} holds no target; got {', '.join(names)}; allowed: target/ (and draft/), or the target's own "
            "files, each with config.json or one .gguf file; or set EAGLE3_TARGET"
        )
    return model


def _weights(folder: Path) -> str | None:
    """What to name as a model in that folder: the folder, or its one GGUF file; None where there is none."""
    if (folder / "config.json").is_file():
        return str(folder)
    files = sorted(folder.glob("*.gguf"))
    return str(files[0]) if len(files) == 1 else None


def main(arguments: Sequence[str] | None = None) -> int:
    """Become the command; returns an exit code only where that fails."""
    try:
        chosen = command(sys.argv[1:] if arguments is None else arguments, os.environ)
    except EntrypointError as error:
        print(f"eagle3-entrypoint: {error}", file=sys.stderr)
        return _BAD_INPUT
    program = chosen.arguments[0]
    try:
        os.execvpe(program, chosen.arguments, dict(chosen.environment))  # noqa: S606
    except FileNotFoundError:
        reason, code = "no such command; try `eagle3 --help`", _NOT_FOUND
    except OSError as error:
        reason, code = str(error.strerror), _NOT_EXECUTABLE
    print(f"eagle3-entrypoint: {program}: {reason}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
