"""Trains a draft on stored target features: AdamW, warm-up and cosine, checkpoints that resume exactly.

Everything random depends on (seed, epoch) or (seed, step) alone, so a run that was killed and resumed gives
the weights of a run that was not. Knows no target model.
"""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from eagle3.errors import InvalidInputError, NumericalError
from eagle3.models.draft import Draft
from eagle3.train.append_log import drop_cut_line
from eagle3.train.batches import Batch, batches
from eagle3.train.features import FeatureRow
from eagle3.train.settings import TrainSettings
from eagle3.train.ttt import accepted_lengths, training_time_test, weighted_loss

_CHECKPOINT = "checkpoint.pt"
_LOG = "training.jsonl"
_NOISE_SAMPLE_ROWS = 32


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """One line of the training log."""

    step: int
    """Optimiser steps done."""
    ttt_steps: int
    """Training-time-test steps in use."""
    loss: float
    """Training loss of step 0 (mean since the line before), nats."""
    first_accuracy: float
    """Share of positions whose first draft token was the target's choice (mean since the line before)."""
    held_out_tau: float | None
    """Tau of a chain on held-out rows, where it was measured."""
    held_out_accuracy: tuple[float, ...] | None
    """Share of held-out chains right up to and including each step."""
    learning_rate: float
    """Learning rate of the last step."""
    elapsed_s: float
    """Seconds of training, resumed runs added up."""


class Trainer:
    """One training run; `run` may be called again after a kill with the same settings."""

    def __init__(
        self,
        draft: Draft,
        inverse_V: Tensor,
        train_rows: Sequence[FeatureRow],
        held_out_rows: Sequence[FeatureRow],
        settings: TrainSettings,
    ) -> None:
        if not train_rows:
            raise InvalidInputError("no training rows; build data first with `eagle3 data build`")
        self.draft = draft
        self.settings = settings
        self._inverse_V = inverse_V
        self._train_rows = train_rows
        self._held_out_rows = held_out_rows
        decayed = [p for p in draft.parameters() if p.requires_grad and p.dim() > 1]
        plain = [p for p in draft.parameters() if p.requires_grad and p.dim() <= 1]
        self._optimiser = torch.optim.AdamW(
            [{"params": decayed, "weight_decay": settings.weight_decay}, {"params": plain, "weight_decay": 0.0}],
            lr=settings.learning_rate,
            betas=settings.betas,
        )
        # Massive activations of first tokens would spoil a mean; the median of a sample of rows does not see them.
        sample = torch.cat([row.taps_SF for row in train_rows[:_NOISE_SAMPLE_ROWS]]).float()
        self._noise_scale_F = sample.abs().median(dim=0).values * settings.feature_noise
        self._step = 0
        self._epoch = 0
        self._batch_in_epoch = 0
        self._elapsed_s = 0.0

    def run(self, on_progress: Callable[[Progress], None], *, clock: Callable[[], float] = time.monotonic) -> None:
        """Train to the end of the last stage, resuming from the newest checkpoint if there is one."""
        settings = self.settings
        settings.output.mkdir(parents=True, exist_ok=True)
        self._resume()
        started = clock() - self._elapsed_s
        losses: list[float] = []
        started_chains, first_right = 0, 0
        stream = self._stream()
        while self._step < settings.total_steps:
            self._epoch, self._batch_in_epoch, batch = next(stream)
            self._batch_in_epoch += 1  # what a resumed run skips
            rate = self._set_rate()
            ttt_steps = settings.ttt_steps_at(self._step)
            loss, chains, accepted = self._train_step(batch, ttt_steps)
            losses.append(loss)
            started_chains += chains
            first_right += accepted[0]
            self._step += 1
            self._elapsed_s = clock() - started
            last = self._step == settings.total_steps
            if last or self._step % settings.checkpoint_every == 0:
                self._save()
            if last or self._step % settings.eval_every == 0 or self._step % 20 == 0:
                measure = last or self._step % settings.eval_every == 0
                tau, accuracy = self.held_out_tau() if measure and self._held_out_rows else (None, None)
                progress = Progress(
                    step=self._step,
                    ttt_steps=ttt_steps,
                    loss=sum(losses) / len(losses),
                    first_accuracy=first_right / max(started_chains, 1),
                    held_out_tau=tau,
                    held_out_accuracy=accuracy,
                    learning_rate=rate,
                    elapsed_s=round(self._elapsed_s, 1),
                )
                losses, started_chains, first_right = [], 0, 0
                with (settings.output / _LOG).open("a", encoding="utf-8") as log:
                    log.write(json.dumps(asdict(progress)) + "\n")
                on_progress(progress)

    @torch.no_grad()
    def held_out_tau(self) -> tuple[float, tuple[float, ...]]:
        """Tau of a greedy chain on the held-out rows, and the share of chains right up to each step."""
        self.draft.eval()
        settings = self.settings
        started, accepted = 0, [0] * settings.eval_ttt_steps
        for batch in batches(
            self._held_out_rows,
            self._inverse_V,
            positions_per_batch=settings.positions_per_batch,
            max_length=settings.max_length,
            rng=None,
        ):
            results = training_time_test(self.draft, batch, settings.eval_ttt_steps)
            chains, right = accepted_lengths(results)
            started += chains
            accepted = [total + new for total, new in zip(accepted, right, strict=True)]
        shares = tuple(round(total / max(started, 1), 4) for total in accepted)
        return round(1 + sum(accepted) / max(started, 1), 4), shares

    def _train_step(self, batch: Batch, ttt_steps: int) -> tuple[float, int, list[int]]:
        self.draft.train()
        noisy = replace(batch, taps_BSF=self._with_noise(batch.taps_BSF))
        with self._precision():
            results = training_time_test(self.draft, noisy, ttt_steps)
            loss = weighted_loss(results, self.settings.step_decay)
        if not math.isfinite(loss.item()):
            raise NumericalError(
                f"training loss became {loss.item()} at step {self._step}; train again into another --output "
                f"with a lower learning rate than {self.settings.learning_rate}"
            )
        self._optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.draft.parameters(), self.settings.clip_norm)
        self._optimiser.step()
        chains, accepted = accepted_lengths(results)
        return results[0].loss.item(), chains, accepted

    def _with_noise(self, taps_BSF: Tensor) -> Tensor:
        taps = taps_BSF.float()
        if self.settings.feature_noise == 0:
            return taps
        generator = torch.Generator().manual_seed(self.settings.seed * 1_000_003 + self._step)
        return taps + torch.randn(taps.shape, generator=generator) * self._noise_scale_F

    def _precision(self) -> torch.autocast:
        return torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.settings.bf16)

    def _set_rate(self) -> float:
        settings = self.settings
        warm = min(1.0, (self._step + 1) / max(settings.warmup_steps, 1))
        share = self._step / max(settings.total_steps - 1, 1)
        cosine = settings.final_rate + (1 - settings.final_rate) * 0.5 * (1 + math.cos(math.pi * share))
        rate = settings.learning_rate * warm * cosine
        for group in self._optimiser.param_groups:
            group["lr"] = rate
        return rate

    def _stream(self) -> Iterator[tuple[int, int, Batch]]:
        """Batches for ever, from the epoch and batch that a checkpoint stopped at."""
        epoch, skip = self._epoch, self._batch_in_epoch
        while True:
            rng = random.Random(f"{self.settings.seed}/{epoch}")
            for index, batch in enumerate(
                batches(
                    self._train_rows,
                    self._inverse_V,
                    positions_per_batch=self.settings.positions_per_batch,
                    max_length=self.settings.max_length,
                    rng=rng,
                )
            ):
                if index >= skip:
                    yield epoch, index, batch
            epoch, skip = epoch + 1, 0

    def _save(self) -> None:
        path = self.settings.output / _CHECKPOINT
        partial = path.with_suffix(".partial")
        torch.save(
            {
                "draft": {name: p.detach() for name, p in self.draft.named_parameters()},
                "optimiser": self._optimiser.state_dict(),
                "step": self._step,
                "epoch": self._epoch,
                "batch_in_epoch": self._batch_in_epoch,
                "elapsed_s": self._elapsed_s,
            },
            partial,
        )
        partial.replace(path)

    def _resume(self) -> None:
        drop_cut_line(self.settings.output / _LOG)
        path = self.settings.output / _CHECKPOINT
        if not path.is_file():
            return
        state = torch.load(path, weights_only=True)
        self.draft.load_state_dict(state["draft"], strict=False)
        self._optimiser.load_state_dict(state["optimiser"])
        self._step, self._epoch = state["step"], state["epoch"]
        self._batch_in_epoch, self._elapsed_s = state["batch_in_epoch"], state["elapsed_s"]


def read_log(output: Path) -> list[Progress]:
    """The training log of an output folder, oldest line first; of lines that a resumed run wrote again, the newest."""
    lines = (output / _LOG).read_text(encoding="utf-8").splitlines()
    by_step = {values["step"]: Progress(**values) for values in map(json.loads, lines)}
    return [by_step[step] for step in sorted(by_step)]
