"""SGLang as an engine: a supervised `sglang.launch_server`, asked through its `/generate` API with token ids.

SGLang verifies the same trees as the native engine. It is started only where it is installed (it needs a GPU);
what is tested without it are the arguments, the requests and the reading of scripted answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eagle3.config.deployment import DeploymentConfig
from eagle3.config.engine_arguments import EngineCommand, sglang_command
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

_BAD_REQUEST = 400


def sglang_engine(config: DeploymentConfig, *, export_folder: Path | None = None) -> UpstreamEngine:
    """The engine of a config whose `engine.name` is sglang."""
    return UpstreamEngine(config, SglangDialect(), export_folder=export_folder)


class SglangDialect:
    """Implements `Dialect`."""

    name = "sglang"
    path = "/generate"
    draft_format: DraftFormat = "nvidia"  # it reads tap layers from `eagle_config`, as outputs of layers
    install_hint = "install SGLang (pip install sglang) for the python3 on the PATH"

    def command(
        self, config: DeploymentConfig, models: UpstreamModels, *, port: int, without: frozenset[str]
    ) -> EngineCommand:
        """`python3 -m sglang.launch_server` with everything that the config says."""
        return sglang_command(
            config,
            target=str(models.target),
            draft=None if models.draft is None else str(models.draft),
            port=port,
            model_name=MODEL_NAME,
            context_tokens=models.context_tokens,
        )

    def body(self, request: GenerationRequest, models: UpstreamModels, *, max_tokens: int) -> dict[str, Any]:
        """A `/generate` request."""
        params = request.params
        sampling: dict[str, Any] = {
            "max_new_tokens": max_tokens,
            "min_new_tokens": min(params.min_new_tokens, max_tokens),
            "temperature": params.temperature,
            "top_k": params.top_k or -1,
            "top_p": params.top_p,
            "min_p": params.min_p,
            "repetition_penalty": params.repetition_penalty,
            "presence_penalty": params.presence_penalty,
            "frequency_penalty": params.frequency_penalty,
            "stop": list(params.stop),
            "stop_token_ids": stop_ids(request, models.ending_ids),
            "ignore_eos": params.ignore_eos,
            "skip_special_tokens": True,
            "spaces_between_special_tokens": True,
        }
        if params.logit_bias:
            sampling["logit_bias"] = {str(token_id): bias for token_id, bias in params.logit_bias.items()}
        if params.seed is not None:
            sampling["sampling_seed"] = derived_seed(params.seed, request.index)
        if params.json_schema is not None:
            sampling["json_schema"] = params.json_schema
        body: dict[str, Any] = {"input_ids": list(request.prompt_ids), "sampling_params": sampling, "stream": True}
        if params.logprobs is not None:
            body |= {"return_logprob": True, "top_logprobs_num": params.logprobs, "logprob_start_len": -1}
        return body

    def frames(self, request: GenerationRequest) -> FrameReader:
        """Events hold the whole answer so far."""
        seen_text, seen_ids, seen_logprobs = 0, 0, 0
        count = request.params.logprobs

        def read(event: Mapping[str, Any]) -> Frame:
            nonlocal seen_text, seen_ids, seen_logprobs
            meta = event["meta_info"]
            finish_reason = _finish_reason(meta.get("finish_reason"))
            text = event.get("text") or ""
            token_ids = event.get("output_ids") or []
            logprobs = [] if count is None else _logprobs(meta, count)
            frame = Frame(
                text=text[seen_text:],
                token_ids=tuple(token_ids[seen_ids:]),
                logprobs=tuple(logprobs[seen_logprobs:]),
                finish_reason=finish_reason,
                speculation=None if finish_reason is None else _speculation(meta, len(token_ids)),
            )
            seen_text, seen_ids = max(seen_text, len(text)), max(seen_ids, len(token_ids))
            seen_logprobs = max(seen_logprobs, len(logprobs))
            return frame

        return read

    def snapshot(self, samples: Samples) -> EngineSnapshot:
        """SGLang counts verifications and tokens, so a run's τ is right; it counts nothing by depth."""
        cycles = int(samples.total("sglang:spec_verify_calls_total"))
        output_tokens = int(samples.total("sglang:generation_tokens_total"))
        answers = int(samples.total("sglang:num_requests_total"))
        tokens = max(0, output_tokens - answers) if cycles else 0
        return EngineSnapshot(
            stats=DecodeStats(
                cycles=cycles,
                cycle_tokens=tokens,
                drafted_cycles=cycles,  # it verifies drafts only
                drafted_cycle_tokens=tokens,
                prefill_s=samples.total("sglang:time_to_first_token_seconds_sum"),
                total_s=samples.total("sglang:e2e_request_latency_seconds_sum"),
                output_tokens=output_tokens,
            ),
            prompt_tokens=int(samples.total("sglang:prompt_tokens_total")),
            reused_prompt_tokens=int(samples.total("sglang:cached_tokens_total")),
            running=int(samples.total("sglang:num_running_reqs")),
            waiting=int(samples.total("sglang:num_queue_reqs")),
            cache_tokens=int(samples.total("sglang:max_total_num_tokens")),
            cache_tokens_used=int(samples.total("sglang:num_used_tokens")),
        )


def _finish_reason(value: Mapping[str, Any] | None) -> FinishReason | None:
    kind = None if value is None else value.get("type")
    if kind == "stop":
        return "stop"
    if kind == "length":
        return "length"
    if value is None:
        return None
    said = value.get("message") or kind
    if value.get("status_code") == _BAD_REQUEST:
        raise InvalidInputError(f"sglang cannot serve this request: {said}")
    raise EngineUnavailableError(f"sglang gave the request up ({said})")


def _logprobs(meta: Mapping[str, Any], count: int) -> list[TokenLogprobs]:
    """Entries are lists of log-probability, token id and text."""
    chosen = meta.get("output_token_logprobs") or []
    tops = (meta.get("output_top_logprobs") or []) if count else [()] * len(chosen)
    return [
        TokenLogprobs(
            token_id=entry[1], logprob=entry[0], top=tuple((best[1], best[0]) for best in (top or ())[:count])
        )
        for entry, top in zip(chosen, tops, strict=False)
    ]


def _speculation(meta: Mapping[str, Any], output_tokens: int) -> DecodeStats | None:
    cycles = meta.get("spec_verify_ct")
    if not isinstance(cycles, int) or cycles < 1:
        return None
    tokens = max(0, output_tokens - 1)
    return DecodeStats(cycles=cycles, cycle_tokens=tokens, drafted_cycles=cycles, drafted_cycle_tokens=tokens)
