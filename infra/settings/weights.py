"""Where a container finds weights that are named by folders below a prefix. Knows no bucket and no container."""

from __future__ import annotations

from eagle3.config.embedded import EMBEDDED
from eagle3.errors import ConfigError


def mounted(value: str, key: str, *, folder: str, source: str, prefix: str) -> str:
    """Path in the container of the folder `value` below the weights' prefix, which is mounted at `folder`.

    `key` is target or draft; `source` and `prefix` are the settings that messages name.
    """
    if value == EMBEDDED:
        raise ConfigError(
            f"{source}: deployment.{key} must name the folder below {prefix} that "
            f"holds the {key} ('.' is the prefix itself); got {EMBEDDED!r}"
            + ("; null serves without a draft" if key == "draft" else "")
        )
    path = value.removeprefix(folder).removeprefix("/") if value.startswith(f"{folder}/") else value
    if path.startswith("/") or ".." in path.split("/"):
        raise ConfigError(
            f"{source}: deployment.{key} must lie below {prefix}, which is "
            f"{folder} in the container; got {value!r}; give a folder such as {key!r}"
        )
    return folder if path in ("", ".") else f"{folder}/{path.rstrip('/')}"
