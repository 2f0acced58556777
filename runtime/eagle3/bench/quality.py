"""How far a quantised target is from the float32 one on real text, teacher-forced: every position sees the true text.

Knows no files, tokenizers or caches. Invariant: both targets read the same tokens, and the same positions are counted.
S tokens of a text, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from eagle3.models.attention import causal_attend
from eagle3.models.target import Target


@dataclass(frozen=True, kw_only=True, slots=True)
class Text:
    """One text as tokens."""

    token_ids: tuple[int, ...]
    begin: int = 1
    """First token that is counted; what is before it (the opening of a template) is context. At least 1."""


@dataclass(slots=True)
class Quality:
    """Sums over positions; what is printed is divided when it is read."""

    texts: int = 0
    positions: int = 0
    """Tokens that both targets were asked for."""
    nats: float = 0.0
    """Surprise of the float32 target at the true tokens."""
    quantized_nats: float = 0.0
    agreed: int = 0
    """Positions at which both would choose the same token at temperature 0."""
    divergence_nats: float = 0.0
    """Kullback-Leibler divergence of the quantised law from the float32 one."""

    @property
    def perplexity(self) -> float:
        """Of the float32 target; 1 is certainty."""
        return math.exp(self.nats / self.positions)

    @property
    def quantized_perplexity(self) -> float:
        """Of the quantised target."""
        return math.exp(self.quantized_nats / self.positions)

    @property
    def agreement(self) -> float:
        """Share of positions at which both would choose the same token."""
        return self.agreed / self.positions

    @property
    def mean_divergence_nats(self) -> float:
        """Kullback-Leibler divergence of a position, on average."""
        return self.divergence_nats / self.positions

    def add(self, logits_SV: Tensor, quantized_SV: Tensor, following_S: Tensor) -> None:
        """Count positions: both targets' logits there, and the tokens that follow."""
        log_probs_SV = logits_SV.double().log_softmax(dim=-1)
        quantized_log_probs_SV = quantized_SV.double().log_softmax(dim=-1)
        true = following_S[:, None]
        self.texts += 1
        self.positions += len(following_S)
        self.nats -= float(log_probs_SV.gather(1, true).sum())
        self.quantized_nats -= float(quantized_log_probs_SV.gather(1, true).sum())
        self.agreed += int((logits_SV.argmax(dim=-1) == quantized_SV.argmax(dim=-1)).sum())
        self.divergence_nats += float((log_probs_SV.exp() * (log_probs_SV - quantized_log_probs_SV)).sum())


def measure_quality(
    target: Target, quantized: Target, texts: Sequence[Text], *, on_text: Callable[[Quality], None]
) -> Quality:
    """Compare both on every text; `on_text` sees the sums after each."""
    result = Quality()
    for text in texts:
        assert 1 <= text.begin < len(text.token_ids), "a counted token has one before it"
        following_S = torch.tensor(text.token_ids[text.begin :], device=target.device)
        result.add(_logits(target, text), _logits(quantized, text), following_S)
        on_text(result)
    return result


@torch.inference_mode()
def _logits(target: Target, text: Text) -> Tensor:
    """Logits [S, V] from which the counted tokens would be chosen."""
    ids_BS = torch.tensor([text.token_ids[:-1]], device=target.device)
    positions_BS = torch.arange(ids_BS.shape[1], device=target.device)[None]
    output = target(ids_BS, positions_BS, causal_attend)
    return target.logits(output.hidden_BSH[0, text.begin - 1 :])


def quality_json(result: Quality) -> dict[str, Any]:
    """The measurement as a JSON object."""
    return {
        "texts": result.texts,
        "positions": result.positions,
        "perplexity": round(result.perplexity, 4),
        "quantized_perplexity": round(result.quantized_perplexity, 4),
        "agreement": round(result.agreement, 5),
        "divergence_nats": round(result.mean_divergence_nats, 6),
    }


def quality_table(result: Quality, quantize: str) -> str:
    """Plain text table."""
    change = result.quantized_perplexity / result.perplexity - 1
    rows = [
        ("texts", f"{result.texts}"),
        ("positions", f"{result.positions}"),
        ("perplexity, float32", f"{result.perplexity:.3f}"),
        (f"perplexity, {quantize}", f"{result.quantized_perplexity:.3f} ({change:+.2%})"),
        ("same most probable token", f"{result.agreement:.2%}"),
        ("mean KL divergence", f"{result.mean_divergence_nats:.5f} nats"),
    ]
    return "\n".join(f"  {name:<26}{value}" for name, value in rows)
