"""What a run of the runtime is told: one schema for files, environment and flags. Unknown keys are errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from eagle3.config.speculation import Speculation
from eagle3.errors import ConfigError

EMBEDDED = "embedded"


class RuntimeConfig(BaseModel):
    """Model, draft and speculation of one process."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    target: str = Field(default=EMBEDDED, description="model directory or .gguf file; 'embedded' for the default")
    draft: str | None = Field(
        default=EMBEDDED, description="draft directory; 'embedded' for the default, null for plain decoding"
    )
    dtype: Literal["float32", "bfloat16", "float16"] = Field(default="float32", description="dtype of the weights")
    device: str = Field(default="cpu", description="torch device, such as cpu or cuda")
    threads: int | None = Field(default=None, ge=1, description="CPU threads; null takes torch's choice")
    speculation: Speculation = Field(default_factory=Speculation, description="shape of the draft tree")


def load_config(path: Path) -> RuntimeConfig:
    """Read a YAML file; ConfigError names the file, the key, what was got and what is allowed."""
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read config file {path}: {error.strerror}") from error
    except (yaml.YAMLError, ValueError) as error:  # ValueError: bytes that are no UTF-8, dates that do not exist
        raise ConfigError(f"{path} is not valid YAML: {error}") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{path} must hold a mapping of settings; got {type(values).__name__}")
    return parse_config(values, source=str(path))


def parse_config(values: dict[str, Any], *, source: str) -> RuntimeConfig:
    """Validate settings; ConfigError names the first bad key."""
    try:
        return RuntimeConfig.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(str(part) for part in first["loc"])
        allowed = ""
        if first["type"] == "extra_forbidden":
            model = RuntimeConfig if len(first["loc"]) == 1 else Speculation
            allowed = f"; allowed keys: {', '.join(model.model_fields)}"
        raise ConfigError(f"{source}: {key}: {first['msg']}; got {first['input']!r}{allowed}") from error
