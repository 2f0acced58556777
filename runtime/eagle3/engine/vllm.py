"""vLLM as an engine: a supervised `vllm serve`, asked through its completions API with token ids both ways.

vLLM verifies chains, not trees; what else it cannot do is in `engine_arguments`. Its name for our `accepted` is
the same, without the bonus token. A release from 0.32 on is tested; older ones start without the options they lack.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eagle3.config.deployment import DeploymentConfig
from eagle3.config.engine_arguments import EngineCommand, vllm_command
from eagle3.engine.answer import TokenLogprobs
from eagle3.engine.ending import FinishReason
from eagle3.engine.interface import EngineSnapshot, GenerationRequest
from eagle3.engine.stats import DecodeStats
from eagle3.engine.upstream_dialect import Frame, FrameReader, stop_ids
from eagle3.engine.upstream_engine import MODEL_NAME, UpstreamEngine
from eagle3.engine.upstream_metrics import Samples
from eagle3.engine.upstream_models import UpstreamModels
from eagle3.errors import EngineUnavailableError, InvalidInputError
from eagle3.models.draft_keys import DraftFormat
from eagle3.sampling.seeds import derived_seed

_FINISH: dict[str, FinishReason] = {"stop": "stop", "length": "length"}


def vllm_engine(config: DeploymentConfig, *, export_folder: Path | None = None) -> UpstreamEngine:
    """The engine of a config whose `engine.name` is vllm."""
    return UpstreamEngine(config, VllmDialect(on_cpu=config.device == "cpu"), export_folder=export_folder)


class VllmDialect:
    """Implements `Dialect`.

    On CPUs vLLM (0.32.0) samples wrongly while it speculates: it hands each drafted token a temperature, top-k and
    top-p out of memory that nobody wrote, so texts are noise and some values kill it. Such requests are refused.
    """

    def __init__(self, *, on_cpu: bool = False) -> None:
        self._on_cpu = on_cpu

    name = "vllm"
    path = "/v1/completions"
    draft_format: DraftFormat = "original"
    install_hint = "install vLLM (pip install vllm) so that `vllm` is on the PATH"

    def command(
        self, config: DeploymentConfig, models: UpstreamModels, *, port: int, without: frozenset[str]
    ) -> EngineCommand:
        """`vllm serve` with everything that the config says."""
        return vllm_command(
            config,
            target=str(models.target),
            draft=None if models.draft is None else str(models.draft),
            port=port,
            model_name=MODEL_NAME,
            context_tokens=models.context_tokens,
            bytes_per_token=models.bytes_per_token,
            without=without,
        )

    def body(self, request: GenerationRequest, models: UpstreamModels, *, max_tokens: int) -> dict[str, Any]:
        """A completion request; every parameter is said, so that no generation config of the model slips in."""
        params = request.params
        if models.draft is not None:
            _refuse_with_draft("min_p", params.min_p > 0)
            _refuse_with_draft("logit_bias", bool(params.logit_bias))
            _refuse_with_draft("a temperature above 0", self._on_cpu and params.temperature > 0)
        body: dict[str, Any] = {
            "model": MODEL_NAME,
            "prompt": list(request.prompt_ids),
            "max_tokens": max_tokens,
            "min_tokens": min(params.min_new_tokens, max_tokens),
            "temperature": params.temperature,
            "top_k": params.top_k,
            "top_p": params.top_p,
            "min_p": params.min_p,
            "repetition_penalty": params.repetition_penalty,
            "presence_penalty": params.presence_penalty,
            "frequency_penalty": params.frequency_penalty,
            "stop": list(params.stop),
            "stop_token_ids": stop_ids(request, models.ending_ids),
            "ignore_eos": params.ignore_eos,
            "stream": True,
            "stream_options": {"include_usage": True},
            "return_token_ids": True,
        }
        if params.logit_bias:
            body["logit_bias"] = {str(token_id): bias for token_id, bias in params.logit_bias.items()}
        if params.seed is not None:
            body["seed"] = derived_seed(params.seed, request.index)
        if params.logprobs is not None:
            body |= {"logprobs": params.logprobs, "return_tokens_as_token_ids": True}
        if params.json_schema is not None:
            body["structured_outputs"] = {"json": json.loads(params.json_schema)}
        return body

    def frames(self, request: GenerationRequest) -> FrameReader:
        """Events hold what is new; the last one has no choice but the usage and the request's cycles."""
        count = request.params.logprobs

        def read(event: Mapping[str, Any]) -> Frame:
            if not event.get("choices"):
                return Frame(speculation=_speculation(event))
            choice = event["choices"][0]
            return Frame(
                text=choice.get("text") or "",
                token_ids=tuple(choice.get("token_ids") or ()),
                logprobs=() if count is None else _logprobs(choice.get("logprobs"), count),
                finish_reason=_finish_reason(choice.get("finish_reason")),
            )

        return read

    def snapshot(self, samples: Samples) -> EngineSnapshot:
        """vLLM's counters; it counts accepted tokens that an end of text cuts off, and no time of draft or verify."""
        cycles = int(samples.total("vllm:spec_decode_num_drafts_total"))  # steps without a draft are not counted
        tokens = cycles + int(samples.total("vllm:spec_decode_num_accepted_tokens_total"))
        by_position = samples.by_label("vllm:spec_decode_num_accepted_tokens_per_pos_total", "position")
        accepted = [int(by_position[position]) for position in sorted(by_position, key=int)]
        slots = _cache_tokens(samples.labels("vllm:cache_config_info"))
        return EngineSnapshot(
            stats=DecodeStats(
                cycles=cycles,
                cycle_tokens=tokens,
                drafted_cycles=cycles,
                drafted_cycle_tokens=tokens,
                drafted=int(samples.total("vllm:spec_decode_num_draft_tokens_total")),
                accepted_at_depth=accepted,
                prefill_s=samples.total("vllm:request_prefill_time_seconds_sum"),
                total_s=samples.total("vllm:request_inference_time_seconds_sum"),
                output_tokens=int(samples.total("vllm:generation_tokens_total")),
            ),
            prompt_tokens=int(samples.total("vllm:prompt_tokens_total")),
            reused_prompt_tokens=int(samples.total("vllm:prompt_tokens_cached_total")),
            preemptions=int(samples.total("vllm:num_preemptions_total")),
            running=int(samples.total("vllm:num_requests_running")),
            waiting=int(samples.total("vllm:num_requests_waiting")),
            cache_tokens=slots,
            cache_tokens_used=round(slots * samples.total("vllm:kv_cache_usage_perc")),
        )


def _refuse_with_draft(name: str, used: bool) -> None:
    if used:
        raise InvalidInputError(
            f"{name} cannot be used while vllm speculates; leave it out, or serve with the native engine or "
            "without a draft"
        )


def _finish_reason(reason: str | None) -> FinishReason | None:
    if reason is None:
        return None
    if reason not in _FINISH:
        raise EngineUnavailableError(f"vllm gave the request up ({reason})")
    return _FINISH[reason]


def _logprobs(value: Mapping[str, Any] | None, count: int) -> tuple[TokenLogprobs, ...]:
    if value is None:
        return ()
    entries = []
    for token, logprob, top in zip(value["tokens"], value["token_logprobs"], value["top_logprobs"], strict=True):
        # The chosen token stands among the best even if it is none of them.
        best = sorted(((_id_of(name), alternative) for name, alternative in (top or {}).items()), key=lambda x: -x[1])
        entries.append(TokenLogprobs(token_id=_id_of(token), logprob=logprob, top=tuple(best[:count])))
    return tuple(entries)


def _id_of(name: str) -> int:
    return int(name.removeprefix("token_id:"))


def _speculation(event: Mapping[str, Any]) -> DecodeStats | None:
    told = (event.get("metrics") or {}).get("speculative_decoding")
    if told is None:
        return None
    cycles, accepted = int(told["num_spec_steps"]), int(told["num_accepted_draft_tokens"])
    histogram: list[int] = told["acceptance_histogram"]
    return DecodeStats(
        cycles=cycles,
        cycle_tokens=cycles + accepted,
        drafted_cycles=cycles,
        drafted_cycle_tokens=cycles + accepted,
        drafted=int(told["num_draft_tokens"]),
        accepted_at_depth=[sum(histogram[depth:]) for depth in range(1, len(histogram))],
    )


def _cache_tokens(labels: Mapping[str, str]) -> int:
    if labels.get("kv_cache_size_tokens", "").isdigit():
        return int(labels["kv_cache_size_tokens"])
    blocks, size = labels.get("num_gpu_blocks", ""), labels.get("block_size", "")
    return int(blocks) * int(size) if blocks.isdigit() and size.isdigit() else 0
