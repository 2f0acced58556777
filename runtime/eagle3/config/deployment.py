"""The one deployment config: schema of files, environment (`EAGLE3_*`) and flags. Unknown keys are errors.

Container environment, Helm values, SageMaker environment and the arguments of other engines are made from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from eagle3.config.embedded import EMBEDDED
from eagle3.config.engine import EngineSettings
from eagle3.config.limits import Limits
from eagle3.config.serving import MetricsSettings, Serving
from eagle3.config.speculation import Drafter, Speculation
from eagle3.config.validation import first_error
from eagle3.errors import ConfigError


class DeploymentConfig(BaseModel):
    """Model, draft, speculation, engine, limits, serving and metrics of one deployment."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    target: str = Field(default=EMBEDDED, description="model directory or .gguf file; 'embedded' for the default")
    draft: str | None = Field(
        default=EMBEDDED,
        description="draft directory; 'embedded' for the default, null for plain decoding unless suffix alone guesses",
    )
    dtype: Literal["float32", "bfloat16", "float16"] = Field(default="float32", description="dtype of the weights")
    quantize: Literal["int8"] | None = Field(
        default=None,
        description="int8: 8-bit weights and activations of target and draft, on CPUs with VNNI; null: as they are",
    )
    device: str = Field(default="cpu", description="torch device, such as cpu or cuda")
    threads: int | None = Field(default=None, ge=1, description="CPU threads; null takes torch's choice")
    speculation: Speculation = Field(default_factory=Speculation, description="shape of the draft tree")
    engine: EngineSettings = Field(default_factory=EngineSettings, description="what generates")
    limits: Limits = Field(default_factory=Limits, description="what the server takes on")
    serving: Serving = Field(default_factory=Serving, description="address, access and logs of the server")
    metrics: MetricsSettings = Field(default_factory=MetricsSettings, description="what is measured and where it goes")

    @model_validator(mode="after")
    def _check_quantize(self) -> DeploymentConfig:
        if self.quantize is not None and (self.dtype != "float32" or self.device != "cpu"):
            raise ValueError(
                f"quantize: {self.quantize} needs dtype float32 and device cpu; got {self.dtype} and {self.device}"
            )
        return self

    @property
    def drafters(self) -> tuple[Drafter, ...]:
        """Who guesses; nobody decodes plainly."""
        return self.speculation.working_drafters(has_draft=self.draft is not None)

    @property
    def draft_in_use(self) -> str | None:
        """The draft, unless the drafters do without it."""
        return self.draft if "eagle3" in self.drafters else None

    def without_speculation(self) -> DeploymentConfig:
        """The same, decoding plainly."""
        needing_a_draft = self.speculation.model_copy(update={"drafters": ("eagle3",)})
        return self.model_copy(update={"draft": None, "speculation": needing_a_draft})


def load_config(path: Path) -> DeploymentConfig:
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


def parse_config(
    values: dict[str, Any], *, source: str, names: Mapping[str, str] = MappingProxyType({})
) -> DeploymentConfig:
    """Validate settings; ConfigError names the first bad key.

    `names` says what keys are called in that source where it has names of its own: {"threads": "--threads"}.
    """
    try:
        return DeploymentConfig.model_validate(values)
    except ValidationError as error:
        raise ConfigError(first_error(error, DeploymentConfig, source=source, names=names)) from error
