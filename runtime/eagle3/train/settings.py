"""What a training run can be told; read once by the entry point."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from eagle3.errors import ConfigError


class Stage(BaseModel):
    """A stretch of training with one number of training-time-test steps."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    optimiser_steps: int = Field(ge=1, description="optimiser steps in this stage")
    ttt_steps: int = Field(ge=1, le=16, description="training-time-test steps in this stage")


class TrainSettings(BaseModel):
    """Settings of `eagle3 train`; the defaults made the shipped draft."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    data: Path = Field(description="folder made by `eagle3 data build`")
    output: Path = Field(description="folder for checkpoints, the exported draft and the loss plot")
    stages: tuple[Stage, ...] = Field(min_length=1, description="stages in order")
    draft_vocab_size: int = Field(default=8192, ge=1, description="tokens that the draft can propose")
    held_out: int = Field(default=100, ge=1, description="rows kept out of training, to measure tau on")
    learning_rate: float = Field(default=1e-3, gt=0, description="peak learning rate of AdamW")
    warmup_steps: int = Field(default=100, ge=0, description="linear warm-up, optimiser steps")
    final_rate: float = Field(default=0.02, ge=0, le=1, description="learning rate at the end, as a share of the peak")
    weight_decay: float = Field(default=0.01, ge=0, description="AdamW weight decay")
    betas: tuple[float, float] = Field(default=(0.9, 0.95), description="AdamW betas")
    clip_norm: float = Field(default=0.5, gt=0, description="gradient norm that steps are clipped to")
    step_decay: float = Field(default=0.8, gt=0, le=1, description="loss weight of step s is step_decay ** s")
    feature_noise: float = Field(
        default=0.05, ge=0, description="noise on features, as a share of each feature's root mean square"
    )
    positions_per_batch: int = Field(default=2048, ge=16, description="padded positions in a batch")
    max_length: int = Field(default=2048, ge=8, description="longest row in tokens; the rest is cut")
    eval_ttt_steps: int = Field(default=4, ge=1, le=16, description="chain length of the held-out tau")
    eval_every: int = Field(default=200, ge=1, description="optimiser steps between held-out evaluations")
    checkpoint_every: int = Field(default=100, ge=1, description="optimiser steps between checkpoints")
    bf16: bool = Field(default=True, description="bfloat16 matrix products (weights and optimiser stay float32)")
    seed: int = Field(default=0, ge=0, lt=2**32, description="seed of shuffling and noise")

    @property
    def total_steps(self) -> int:
        """Optimiser steps of all stages together."""
        return sum(stage.optimiser_steps for stage in self.stages)

    def ttt_steps_at(self, step: int) -> int:
        """Training-time-test steps at optimiser step `step`, counted from 0."""
        for stage in self.stages:
            if step < stage.optimiser_steps:
                return stage.ttt_steps
            step -= stage.optimiser_steps
        return self.stages[-1].ttt_steps


def check_same_settings(path: Path, settings: BaseModel) -> None:
    """ConfigError when `path` holds other settings than these: its folder belongs to another run."""
    if path.is_file() and path.read_text(encoding="utf-8") != settings.model_dump_json(indent=1):
        raise ConfigError(f"{path.parent} was begun with other settings (see {path}); choose a new --output")
