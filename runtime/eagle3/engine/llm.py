"""The Python API: load a target and its draft once, then generate.

    from eagle3 import LLM, sampling_params
    answer = LLM.embedded().chat([{"role": "user", "content": "Hello"}], sampling_params(max_new_tokens=64))[0]

Requests are served one after the other. Knows no HTTP and no command line.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import torch

from eagle3.config.deployment import DeploymentConfig
from eagle3.config.speculation import Speculation
from eagle3.draft.proposer import Proposer
from eagle3.engine.answer import Answer, Piece, TokenLogprobs
from eagle3.engine.cycle import Block, Decoder
from eagle3.engine.detokenizer import Detokenizer
from eagle3.engine.ending import Ending
from eagle3.engine.stats import DecodeStats
from eagle3.errors import ConfigError, InvalidInputError
from eagle3.models.draft import Draft
from eagle3.models.draft_loader import load_draft
from eagle3.models.embedded import draft_path, target_path
from eagle3.models.packed import pack_linears
from eagle3.models.target import Target
from eagle3.models.target_loader import load_target
from eagle3.models.tokenizer import Message, Tokenizer, load_tokenizer
from eagle3.sampling.distribution import TokenDistribution
from eagle3.sampling.params import SamplingParams


class LLM:
    """A target with an optional EAGLE-3 draft; `draft` None decodes plainly."""

    def __init__(
        self, target: Target, tokenizer: Tokenizer, draft: Draft | None = None, speculation: Speculation | None = None
    ) -> None:
        self.target = target
        self.tokenizer = tokenizer
        self.draft = draft
        self.speculation = speculation or Speculation()

    @classmethod
    def from_config(cls, config: DeploymentConfig) -> LLM:
        """Load what a config names; every file error is a WeightsError, every contradiction a ConfigError."""
        dtype: torch.dtype = getattr(torch, config.dtype)
        if config.threads is not None:
            torch.set_num_threads(config.threads)
        _check_device(config.device)
        where = target_path(config.target)
        target = load_target(where, dtype=dtype, device=config.device)
        draft: Draft | None = None
        if config.draft is not None:
            draft = load_draft(draft_path(config.draft), target, dtype=dtype)
            pack_linears(draft)
        pack_linears(target)
        return cls(target, load_tokenizer(where), draft, config.speculation)

    @classmethod
    def embedded(cls, speculation: Speculation | None = None) -> LLM:
        """The embedded default: SmolLM2-135M-Instruct with the shipped draft, float32, on the CPU."""
        return cls.from_config(DeploymentConfig(speculation=speculation or Speculation()))

    def generate(
        self, prompts: Sequence[str], params: SamplingParams | None = None, *, speculate: bool = True
    ) -> list[list[Answer]]:
        """Continue raw texts; `params.n` answers for each prompt, in order."""
        params = params or SamplingParams()
        return [self._answers(self.tokenizer.encode(prompt), params, speculate) for prompt in prompts]

    def chat(
        self, messages: Sequence[Message], params: SamplingParams | None = None, *, speculate: bool = True
    ) -> list[Answer]:
        """Answer one conversation under the model's chat template; `params.n` answers."""
        return self._answers(self.tokenizer.encode_chat(messages), params or SamplingParams(), speculate)

    def stream(
        self, prompt_ids: Sequence[int], params: SamplingParams, *, index: int = 0, speculate: bool = True
    ) -> Iterator[Piece]:
        """Yield the answer number `index` to a tokenised prompt as its text becomes certain."""
        started = time.perf_counter()
        context = self.target.arch.max_position
        vocab_size = self.target.arch.vocab_size
        _check_prompt(prompt_ids, vocab_size, context)
        ending_ids = frozenset(params.stop_token_ids) | (
            frozenset() if params.ignore_eos else self.tokenizer.ending_ids
        )
        decoder = Decoder(
            self.target,
            Proposer(self.draft, self.speculation) if self.draft is not None and speculate else None,
            TokenDistribution(
                params,
                prompt_ids=prompt_ids,
                vocab_size=vocab_size,
                ending_ids=ending_ids,
                generator=_generator(params, index),
            ),
        )
        ending = Ending(
            ending_ids=ending_ids,
            stop=params.stop,
            max_tokens=min(params.max_new_tokens, context - len(prompt_ids)),
            detokenizer=Detokenizer(self.tokenizer.decode),
        )
        stats = DecodeStats()
        logprobs: list[TokenLogprobs] = []
        block = decoder.prefill(prompt_ids)
        stats.prefill_s = time.perf_counter() - started
        while True:
            taken, text = ending.feed(block.token_ids)
            if params.logprobs is not None:
                logprobs += _logprobs(block, taken, params.logprobs)
            stats.output_tokens += taken
            stats.draft_s += block.draft_s
            if stats.output_tokens > taken:  # the first block is the prefill's
                stats.verify_s += block.verify_s
                stats.count_cycle(drafted=block.drafted, accepted=block.num_accepted, kept_tokens=taken)
            if ending.finish_reason is not None:
                break
            if text:
                yield Piece(text)
            block = decoder.cycle(ending.remaining)
        stats.total_s = time.perf_counter() - started
        yield Piece(
            text,
            Answer(
                text=ending.text,
                token_ids=tuple(ending.token_ids),
                finish_reason=ending.finish_reason,
                logprobs=tuple(logprobs) if params.logprobs is not None else None,
                stats=stats,
            ),
        )

    def _answers(self, prompt_ids: Sequence[int], params: SamplingParams, speculate: bool) -> list[Answer]:
        answers: list[Answer] = []
        for index in range(params.n):
            *_, last = self.stream(prompt_ids, params, index=index, speculate=speculate)
            assert last.answer is not None, "the last piece carries the answer"
            answers.append(last.answer)
        return answers


def _check_device(name: str) -> None:
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).partition("\n")[0]
        raise ConfigError(f"device {name!r} cannot be used here: {reason}; use cpu") from error


def _check_prompt(prompt_ids: Sequence[int], vocab_size: int, context: int) -> None:
    if not prompt_ids:
        raise InvalidInputError("the prompt is empty; give at least one token")
    if len(prompt_ids) >= context:
        raise InvalidInputError(
            f"the prompt has {len(prompt_ids)} tokens; the model's context of {context} tokens leaves room "
            f"for at most {context - 1}, so that an answer fits; shorten the prompt"
        )
    if not all(0 <= token_id < vocab_size for token_id in prompt_ids):
        raise InvalidInputError(f"the prompt holds token ids outside the vocabulary; allowed: 0 to {vocab_size - 1}")


def _generator(params: SamplingParams, index: int) -> torch.Generator:
    generator = torch.Generator()
    if params.seed is None:
        generator.seed()
    else:
        generator.manual_seed((params.seed + index) % 2**63)
    return generator


def _logprobs(block: Block, taken: int, count: int) -> list[TokenLogprobs]:
    log_probs_SV = block.logits_SV[:taken].float().log_softmax(dim=-1)
    entries: list[TokenLogprobs] = []
    for token_id, log_probs_V in zip(block.token_ids, log_probs_SV, strict=False):
        values, ids = log_probs_V.topk(min(count, len(log_probs_V)))
        top = tuple(zip(ids.tolist(), values.tolist(), strict=True))
        entries.append(TokenLogprobs(token_id=token_id, logprob=float(log_probs_V[token_id]), top=top))
    return entries
