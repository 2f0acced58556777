"""`eagle3 data build`: prompts, answered by the target, run through the target once more for its features.

A data folder holds `build.json` (the settings it was made with), `prompts.jsonl`, `answers.jsonl` (token ids,
appended batch by batch) and `features/*.safetensors`. A killed build goes on where it stopped; a folder made
with other settings is refused. Invariant: every stage's output is whole before the next stage starts.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import nn

from eagle3.config.embedded import EMBEDDED
from eagle3.errors import InvalidInputError
from eagle3.models.packed import pack_linears
from eagle3.models.target import Target
from eagle3.models.target_loader import load_target
from eagle3.models.tokenizer import Tokenizer
from eagle3.train.append_log import drop_cut_line
from eagle3.train.conversations import Turn, read_turns
from eagle3.train.features import TokenRow, compute_shard, save_shard
from eagle3.train.generate import generate_all, generate_batch
from eagle3.train.prompts import templated_prompts
from eagle3.train.settings import check_same_settings

_TOP_PROBABILITIES = 32
_ROWS_PER_SHARD = 1024
_INVENTED_PROMPT_TOKENS = 48
_FRUITLESS_BATCHES = 20
# (done, total, what) after every batch.
OnProgress = Callable[[int, int, str], None]


class BuildSettings(BaseModel):
    """Settings of `eagle3 data build`; the defaults are the recipe of the shipped draft."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    target: str = Field(default=EMBEDDED, description="model directory or .gguf file; 'embedded' for the default")
    inputs: tuple[Path, ...] = Field(default=(), description="JSONL files of conversations or prompts")
    invent: int = Field(default=0, ge=0, description="prompts to invent besides")
    from_target: float = Field(default=0.35, ge=0, le=1, description="invented prompts that the target writes")
    prompt_temperature: float = Field(default=0.8, gt=0, description="temperature of prompts that the target writes")
    keep_answers: bool = Field(default=False, description="train on the data's answers instead of the target's own")
    sampled_share: float = Field(default=0.15, ge=0, le=1, description="share of answers that are sampled, not greedy")
    temperature: float = Field(default=0.7, gt=0, description="temperature of the sampled answers")
    max_new_tokens: int = Field(default=128, ge=1, description="tokens of an answer at most")
    batch_size: int = Field(default=128, ge=1, description="answers generated side by side")
    tap_inputs: tuple[int, ...] | None = Field(default=None, description="tap layers as layer inputs; null: defaults")
    seed: int = Field(default=0, ge=0, lt=2**32, description="seed of prompts and sampling")


def bulk_target(path: Path, tap_inputs: Sequence[int] | None) -> Target:
    """A target in bfloat16 with a float32 head: twice as fast, and greedy choices hardly ever differ."""
    target = load_target(path, dtype=torch.bfloat16)
    head = nn.Linear(target.arch.hidden_size, target.arch.vocab_size, bias=False)
    head.weight = nn.Parameter(target.lm_head.weight.float(), requires_grad=False)
    target.lm_head = head
    target.head_dtype = torch.float32
    target.set_taps(tap_inputs or target.arch.default_tap_inputs())
    pack_linears(target)
    return target


def build(folder: Path, settings: BuildSettings, target: Target, tokenizer: Tokenizer, on_progress: OnProgress) -> None:
    """Make or finish a data folder."""
    if not settings.inputs and not settings.invent:
        raise InvalidInputError("no data asked for; give --input FILE.jsonl, --invent N or both")
    if not tokenizer.has_chat_template:
        raise InvalidInputError("this target's tokenizer has no chat template, so it answers no prompts; give another")
    folder.mkdir(parents=True, exist_ok=True)
    check_same_settings(folder / "build.json", settings)
    prompts = _prompts(folder / "prompts.jsonl", settings, target, tokenizer, on_progress)
    rows = _answers(folder / "answers.jsonl", prompts, settings, target, tokenizer, on_progress)
    _features(folder / "features", rows, target, on_progress)


def _prompts(
    path: Path, settings: BuildSettings, target: Target, tokenizer: Tokenizer, on_progress: OnProgress
) -> list[Turn]:
    if not path.is_file():
        turns = [
            turn for source in settings.inputs for turn in read_turns(source, answers_needed=settings.keep_answers)
        ]
        turns += _invented(settings, target, tokenizer, on_progress)
        partial = path.with_suffix(".partial")
        lines = [json.dumps({"messages": turn.messages, "answer": turn.answer}) for turn in turns]
        partial.write_text("\n".join(lines) + "\n", encoding="utf-8")
        # Only now: settings whose inputs turn out to be unreadable must not claim the folder.
        path.with_name("build.json").write_text(settings.model_dump_json(indent=1), encoding="utf-8")
        partial.replace(path)
    stored = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [Turn(messages=tuple(row["messages"]), answer=row["answer"]) for row in stored]


def _invented(settings: BuildSettings, target: Target, tokenizer: Tokenizer, on_progress: OnProgress) -> list[Turn]:
    wanted = round(settings.invent * settings.from_target)
    texts: dict[str, None] = {}
    prefix = tokenizer.chat_prefix() if wanted else []
    generator = torch.Generator().manual_seed(settings.seed)
    fruitless = 0
    while len(texts) < wanted:
        before = len(texts)
        count = min(settings.batch_size, 2 * (wanted - len(texts)) + 8)
        for ids in generate_batch(
            target,
            [prefix] * count,
            max_new_tokens=_INVENTED_PROMPT_TOKENS,
            stop_ids=tokenizer.ending_ids,
            temperatures=[settings.prompt_temperature] * count,
            generator=generator,
        ):
            text = tokenizer.decode(ids).strip()
            if ids[-1] in tokenizer.ending_ids and text and len(texts) < wanted:
                texts[text] = None
        on_progress(len(texts), wanted, "prompts")
        fruitless = fruitless + 1 if len(texts) == before else 0
        if fruitless == _FRUITLESS_BATCHES:
            raise InvalidInputError(
                f"the target wrote {len(texts)} of {wanted} prompts and no new one in {fruitless} batches; "
                "lower --from-target"
            )
    texts |= dict.fromkeys(templated_prompts(settings.invent - wanted, random.Random(settings.seed)))
    return [Turn(messages=({"role": "user", "content": text},), answer=None) for text in texts]


def _answers(
    path: Path,
    turns: Sequence[Turn],
    settings: BuildSettings,
    target: Target,
    tokenizer: Tokenizer,
    on_progress: OnProgress,
) -> list[TokenRow]:
    stored: dict[int, TokenRow] = {}
    if path.is_file():
        drop_cut_line(path)
        for line in path.read_bytes().splitlines():
            row = json.loads(line)
            stored[row["turn"]] = _row(row["prompt_ids"], row["answer_ids"])
    prompts = [tokenizer.encode_chat(turn.messages) for turn in turns]
    room = target.arch.max_position - settings.max_new_tokens
    for index, ids in enumerate(prompts):
        if len(ids) > room:
            raise InvalidInputError(
                f"prompt {index + 1} has {len(ids)} tokens; allowed: at most {room}, with its answer"
            )
    missing = [index for index in range(len(turns)) if index not in stored]
    rng = random.Random(settings.seed)
    heats = [settings.temperature if rng.random() < settings.sampled_share else 0.0 for _ in turns]
    with path.open("a", encoding="utf-8") as sink:

        def store(index: int, answer_ids: list[int]) -> None:
            sink.write(json.dumps({"turn": index, "prompt_ids": prompts[index], "answer_ids": answer_ids}) + "\n")
            stored[index] = _row(prompts[index], answer_ids)

        def store_batch(chunk: list[int], answers: list[list[int]]) -> None:
            for position, answer_ids in zip(chunk, answers, strict=True):
                store(missing[position], answer_ids)
            sink.flush()
            on_progress(len(stored), len(turns), "answers")

        if settings.keep_answers:
            end = _turn_end(tokenizer)
            for index in missing:
                answer = turns[index].answer
                assert answer is not None, "read_turns(answers_needed=True) gives answers"
                store(index, [*tokenizer.encode_plain(answer), end][: settings.max_new_tokens])
        else:
            generate_all(
                target,
                [prompts[index] for index in missing],
                batch_size=settings.batch_size,
                max_new_tokens=settings.max_new_tokens,
                stop_ids=tokenizer.ending_ids,
                temperatures=[heats[index] for index in missing],
                generator=torch.Generator().manual_seed(settings.seed + len(stored)),
                on_batch=store_batch,
            )
    return [stored[index] for index in range(len(turns))]


def _turn_end(tokenizer: Tokenizer) -> int:
    """The token that an answer ends with under the chat template; a model has other ending tokens besides."""
    ids = tokenizer.encode_chat([{"role": "user", "content": "?"}, {"role": "assistant", "content": "!"}])
    ends = [token_id for token_id in ids if token_id in tokenizer.ending_ids]
    if not ends:
        raise InvalidInputError("the chat template ends no answer with an end-of-text token; drop --keep-answers")
    return ends[-1]


def _features(folder: Path, rows: Sequence[TokenRow], target: Target, on_progress: OnProgress) -> None:
    folder.mkdir(exist_ok=True)
    for begin in range(0, len(rows), _ROWS_PER_SHARD):
        path = folder / f"{begin // _ROWS_PER_SHARD:05d}.safetensors"
        chunk = rows[begin : begin + _ROWS_PER_SHARD]
        if not path.is_file():
            save_shard(path, compute_shard(target, chunk, _TOP_PROBABILITIES))
        on_progress(begin + len(chunk), len(rows), "features")


def _row(prompt_ids: list[int], answer_ids: list[int]) -> TokenRow:
    return TokenRow(prompt_ids + answer_ids, [False] * len(prompt_ids) + [True] * len(answer_ids))
