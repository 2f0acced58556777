"""`data build`: whole folders whatever happens in between, answers that end as the chat template ends them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from pydantic import ValidationError

from builders import MARKOV_STEP, MARKOV_VOCAB, ChatTokenizer, markov_target
from eagle3.errors import InvalidInputError
from eagle3.train.build import BuildSettings, build
from eagle3.train.features import load_shards

TOKENIZER = ChatTokenizer()
TURN_END, ASSISTANT = ChatTokenizer.TURN_END, ChatTokenizer.ASSISTANT


@pytest.fixture(scope="module")
def target():
    """Always answers ASSISTANT with 3, 10, 17, ...: token + 7."""
    target = markov_target()
    target.set_taps((2, 4, 5))
    return target


@pytest.fixture
def prompts_file(tmp_path):
    """Nine prompts of different lengths."""
    path = tmp_path / "prompts.jsonl"
    path.write_text("".join(json.dumps({"prompt": "ab" * n + "?"}) + "\n" for n in (5, 1, 8, 2, 9, 3, 7, 4, 6)))
    return path


def ignore(_done, _total, _what):
    pass


def settings_for(*inputs, **changes):
    return BuildSettings(**({"inputs": inputs, "max_new_tokens": 6, "batch_size": 2, "sampled_share": 0.0} | changes))


def read_rows(folder):
    """Rows of the feature shards as plain lists."""
    return [(row.input_ids_S.tolist(), row.answer_mask_S.tolist()) for row in load_shards(folder / "features")]


def answers_of(folder):
    return [json.loads(line) for line in (folder / "answers.jsonl").read_text(encoding="utf-8").splitlines()]


def answer_ids(count):
    return [(ASSISTANT + MARKOV_STEP * step) % MARKOV_VOCAB for step in range(1, count + 1)]


def test_rows_are_the_prompts_in_order_with_the_targets_answers(tmp_path, target, prompts_file):
    """Each row: the prompt under the chat template, then what the target says; the mask tells them apart."""
    progress = []
    build(tmp_path / "data", settings_for(prompts_file), target, TOKENIZER, lambda *seen: progress.append(seen))
    rows = read_rows(tmp_path / "data")
    assert len(rows) == 9
    for (ids, mask), n in zip(rows, (5, 1, 8, 2, 9, 3, 7, 4, 6), strict=True):
        prompt = TOKENIZER.encode_chat([{"role": "user", "content": "ab" * n + "?"}])
        assert ids == prompt + answer_ids(6)
        assert mask == [0] * len(prompt) + [1] * 6
    assert [seen for seen in progress if seen[2] == "answers"][-1] == (9, 9, "answers")
    assert progress[-1] == (9, 9, "features")


class KilledError(Exception):
    """Stands for a signal."""


def killed_build(folder, settings, target, what, done):
    """A build that is killed at some progress."""

    def on_progress(now, _total, stage):
        if stage == what and now >= done:
            raise KilledError

    with pytest.raises(KilledError):
        build(folder, settings, target, TOKENIZER, on_progress)


@pytest.mark.parametrize(("what", "done"), [("answers", 2), ("answers", 7), ("answers", 9), ("features", 9)])
def test_a_killed_build_goes_on_to_the_same_rows(tmp_path, target, prompts_file, what, done):
    """KilledError in any stage and run again, greedy answers give the rows of a build that was not, and none twice."""
    settings = settings_for(prompts_file)
    build(tmp_path / "whole", settings, target, TOKENIZER, ignore)
    killed_build(tmp_path / "killed", settings, target, what, done)
    stored = len(answers_of(tmp_path / "killed"))
    assert stored < 9 or what == "features" or done == 9
    build(tmp_path / "killed", settings, target, TOKENIZER, ignore)
    assert read_rows(tmp_path / "killed") == read_rows(tmp_path / "whole")
    assert sorted(row["turn"] for row in answers_of(tmp_path / "killed")) == list(range(9))


def test_a_kill_in_a_later_shard_keeps_the_earlier_ones(tmp_path, target, prompts_file, monkeypatch):
    """Feature shards that are whole are not made again."""
    monkeypatch.setattr("eagle3.train.build._ROWS_PER_SHARD", 4)
    settings = settings_for(prompts_file)
    killed_build(tmp_path / "data", settings, target, "features", 8)
    first = tmp_path / "data" / "features" / "00000.safetensors"
    before = first.stat().st_mtime_ns
    build(tmp_path / "data", settings, target, TOKENIZER, ignore)
    assert first.stat().st_mtime_ns == before
    names = sorted(path.name for path in first.parent.iterdir())
    assert names == [f"0000{number}.safetensors" for number in range(3)]
    assert len(read_rows(tmp_path / "data")) == 9


@pytest.mark.parametrize("cut", [1, 10, 60])
def test_a_last_line_cut_by_a_kill_is_answered_again(tmp_path, target, prompts_file, cut):
    """Half a line in answers.jsonl costs that one answer; the line after it is not joined to it."""
    settings = settings_for(prompts_file)
    build(tmp_path / "whole", settings, target, TOKENIZER, ignore)
    killed_build(tmp_path / "killed", settings, target, "answers", 4)
    path = tmp_path / "killed" / "answers.jsonl"
    path.write_text(path.read_text(encoding="utf-8")[:-cut], encoding="utf-8")
    build(tmp_path / "killed", settings, target, TOKENIZER, ignore)
    assert read_rows(tmp_path / "killed") == read_rows(tmp_path / "whole")
    assert sorted(row["turn"] for row in answers_of(tmp_path / "killed")) == list(range(9))


def test_the_only_line_cut_by_a_kill_is_no_error(tmp_path, target, prompts_file):
    """A first line that never ended leaves an empty file to start from."""
    settings = settings_for(prompts_file)
    killed_build(tmp_path / "data", settings, target, "answers", 2)
    (tmp_path / "data" / "answers.jsonl").write_text('{"turn": 1, "pro', encoding="utf-8")
    build(tmp_path / "data", settings, target, TOKENIZER, ignore)
    assert len(read_rows(tmp_path / "data")) == 9


def test_other_settings_in_the_same_folder_are_refused(tmp_path, target, prompts_file):
    """Rows of two settings never mix; the same settings again change nothing."""
    folder = tmp_path / "data"
    build(folder, settings_for(prompts_file), target, TOKENIZER, ignore)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with pytest.raises(InvalidInputError, match=r"begun with other settings.*choose a new --output"):
        build(folder, settings_for(prompts_file, max_new_tokens=7), target, TOKENIZER, ignore)
    build(folder, settings_for(prompts_file), target, TOKENIZER, ignore)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_an_input_that_cannot_be_read_does_not_claim_the_folder(tmp_path, target, prompts_file):
    """After a mistyped --input the same --output takes the right one."""
    folder = tmp_path / "data"
    with pytest.raises(InvalidInputError, match="cannot read"):
        build(folder, settings_for(tmp_path / "typo.jsonl"), target, TOKENIZER, ignore)
    build(folder, settings_for(prompts_file), target, TOKENIZER, ignore)
    assert len(read_rows(folder)) == 9


def test_nothing_asked_for_is_refused(tmp_path, target):
    """Neither input nor invented prompts is bad input, and no folder is made."""
    with pytest.raises(InvalidInputError, match=r"--input FILE\.jsonl, --invent N"):
        build(tmp_path / "data", BuildSettings(), target, TOKENIZER, ignore)
    assert not (tmp_path / "data").exists()


def test_a_prompt_without_room_for_its_answer_is_refused(tmp_path, target):
    """The target's context holds prompt and answer; the complaint gives the number and what is allowed."""
    path = tmp_path / "long.jsonl"
    path.write_text(json.dumps({"prompt": "a" * 120}) + "\n", encoding="utf-8")
    with pytest.raises(InvalidInputError, match="prompt 1 has 123 tokens; allowed: at most 122"):
        build(tmp_path / "data", settings_for(path), target, TOKENIZER, ignore)


def conversations(path):
    """Two answers of a person's own."""
    messages = [
        {"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"},
        {"role": "user", "content": "and"}, {"role": "assistant", "content": "so on"},
    ]  # fmt: skip
    path.write_text(json.dumps({"messages": messages}) + "\n", encoding="utf-8")
    return path


def test_kept_answers_are_the_datas_own_and_end_as_the_chat_template_ends_them(tmp_path, target):
    """With --keep-answers: one row per answer, ended by the turn end and not by another end-of-text token."""
    path = conversations(tmp_path / "c.jsonl")
    build(tmp_path / "data", settings_for(path, keep_answers=True), target, TOKENIZER, ignore)
    (first, _), (second, mask) = read_rows(tmp_path / "data")
    assert first[-4:] == [ASSISTANT, *TOKENIZER.encode_plain("ho"), TURN_END]
    assert second[: len(first)] == first
    assert second[-6:] == [*TOKENIZER.encode_plain("so on"), TURN_END]
    assert sum(mask) == 6


def test_kept_answers_are_cut_at_the_limit(tmp_path, target):
    """An answer longer than `max_new_tokens` loses its end, the turn end included."""
    path = conversations(tmp_path / "c.jsonl")
    build(tmp_path / "data", settings_for(path, keep_answers=True, max_new_tokens=3), target, TOKENIZER, ignore)
    (first, _), (second, _) = read_rows(tmp_path / "data")
    assert first[-1] == TURN_END
    assert second[-4:] == [ASSISTANT, *TOKENIZER.encode_plain("so ")]


def test_kept_answers_need_answers(tmp_path, target, prompts_file):
    """Plain prompts and --keep-answers contradict each other, with file and line."""
    with pytest.raises(InvalidInputError, match=r"prompts\.jsonl, line 1"):
        build(tmp_path / "data", settings_for(prompts_file, keep_answers=True), target, TOKENIZER, ignore)


def stored_prompts(folder):
    lines = (folder / "prompts.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["messages"][0]["content"] for line in lines]


def test_prompts_are_invented_by_target_and_templates(tmp_path, target):
    """Half from the target, half from templates, all different, the same for the same seed."""
    roomy = markov_target()
    object.__setattr__(roomy.arch, "max_position", 1024)
    settings = settings_for(invent=10, from_target=0.5, max_new_tokens=2, batch_size=8, seed=3)
    for name in ("one", "two"):
        build(tmp_path / name, settings, roomy, TOKENIZER, ignore)
    prompts = stored_prompts(tmp_path / "one")
    assert len(set(prompts)) == 10
    assert prompts == stored_prompts(tmp_path / "two")
    assert all(prompts)
    assert sum(" " in prompt and prompt[0].isupper() for prompt in prompts[5:]) == 5
    other = settings_for(invent=10, from_target=0.5, max_new_tokens=2, batch_size=8, seed=4)
    build(tmp_path / "other", other, roomy, TOKENIZER, ignore)
    assert not set(stored_prompts(tmp_path / "other")) & set(prompts)


def test_a_target_that_ends_no_prompt_is_reported(tmp_path, target, monkeypatch):
    """A target whose prompts never end stops the build with a remedy; it does not try for ever."""
    monkeypatch.setattr("eagle3.train.build._FRUITLESS_BATCHES", 2)

    class Endless(ChatTokenizer):
        ending_ids = frozenset({1000})

    with pytest.raises(InvalidInputError, match=r"0 of 3 prompts.*--from-target"):
        build(tmp_path / "data", settings_for(invent=3, from_target=1.0), target, Endless(), ignore)


def test_a_target_without_a_chat_template_is_refused(tmp_path, target, prompts_file):
    """It could answer no prompt; nothing is made."""

    class Plain(ChatTokenizer):
        has_chat_template = False

    with pytest.raises(InvalidInputError, match="no chat template"):
        build(tmp_path / "data", settings_for(prompts_file), target, Plain(), ignore)
    assert not (tmp_path / "data").exists()


def test_a_share_of_the_answers_is_sampled(tmp_path, target, prompts_file):
    """`sampled_share` 0 has none, 1 all; what is sampled depends on the seed."""
    greedy = answer_ids(6)

    def answers(name, **changes):
        build(tmp_path / name, settings_for(prompts_file, **changes), target, TOKENIZER, ignore)
        return [row["answer_ids"] for row in sorted(answers_of(tmp_path / name), key=lambda row: row["turn"])]

    assert answers("none") == [greedy] * 9
    hot = answers("all", sampled_share=1.0, temperature=2.0)
    assert greedy not in hot
    assert hot == answers("again", sampled_share=1.0, temperature=2.0)
    assert hot != answers("seed", sampled_share=1.0, temperature=2.0, seed=1)
    some = answers("some", sampled_share=0.4, temperature=2.0)
    assert 0 < some.count(greedy) < 9


@pytest.mark.parametrize(
    "changes",
    [
        {"invent": -1},
        {"from_target": 1.5},
        {"from_target": -0.1},
        {"sampled_share": 2.0},
        {"temperature": 0.0},
        {"temperature": float("inf")},
        {"temperature": float("nan")},
        {"prompt_temperature": 0.0},
        {"max_new_tokens": 0},
        {"batch_size": 0},
        {"seed": -1},
        {"seed": 2**64},
        {"inputs": [3]},
        {"batchsize": 3},
    ],
    ids=str,
)
def test_settings_out_of_range_are_refused(changes):
    """Every number has its range; unknown names are errors."""
    with pytest.raises(ValidationError):
        BuildSettings(**changes)


def test_features_are_those_of_the_targets_taps(tmp_path, target, prompts_file):
    """The width of a stored feature is three taps of the target."""
    build(tmp_path / "data", settings_for(prompts_file), target, TOKENIZER, ignore)
    row = load_shards(tmp_path / "data" / "features")[0]
    assert row.taps_SF.shape[1] == 3 * target.arch.hidden_size
    assert row.taps_SF.dtype == torch.bfloat16
    assert Path(tmp_path / "data" / "build.json").is_file()
