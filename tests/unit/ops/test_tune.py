"""Tuning from end to end on small models, and what it says and writes."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import yaml

from builders import ByteTokenizer, noisy_markov, tiny_target
from eagle3.config.deployment import load_config
from eagle3.config.engine import EngineSettings
from eagle3.config.speculation import Speculation
from eagle3.engine.loading import Models
from eagle3.engine.stats import DecodeStats
from eagle3.errors import InvalidInputError
from eagle3.ops.tune.arms import Workplace, decode_in_turns
from eagle3.ops.tune.costs import PassCosts
from eagle3.ops.tune.grid import Overheads, Prediction
from eagle3.ops.tune.replay import Replayed
from eagle3.ops.tune.report import settings_of, settings_yaml, tuning_json, tuning_table
from eagle3.ops.tune.tuning import Confirmed, Tuning, steps, tune
from eagle3.sampling.params import sampling_params

PROMPTS = ([3, 10, 17], [40, 2], [8, 15])


def workplace(target, draft, *, ending_ids=(), max_new_tokens=16):
    models = Models(target=target, tokenizer=ByteTokenizer(ending_ids), draft=draft)
    return Workplace.roomy(models, EngineSettings(), sampling_params(max_new_tokens=max_new_tokens), 3)


def confirmed(ratio, **shape):
    replayed = Replayed(cycles=10, tokens=25, nodes=40, draft_passes=30, seconds=1.0)
    prediction = Prediction(shape=Speculation(**shape), replayed=replayed, ratio=1.5)
    return Confirmed(prediction=prediction, ratio=ratio, tau=2.4, tokens_per_s=50.0)


TUNING = Tuning(
    costs=PassCosts(verify_s={1: 0.01, 2: 0.012}, draft_s={1: 0.001}),
    overheads=Overheads(speculative_s=0.002, plain_s=0.001),
    prompts=3,
    tokens=60,
    candidates=4000,
    plain_tokens_per_s=31.0,
    confirmed=(
        confirmed(1.61, drafters=("eagle3",), depth=3, top_k=6, nodes=8, min_probability=0.05),
        confirmed(1.2, drafters=("suffix",), nodes=4),
    ),
)
HOPELESS = replace(TUNING, confirmed=(confirmed(1.01), confirmed(0.7)))


@pytest.mark.parametrize("with_draft", [True, False])
def test_tuning_measures_and_confirms(with_draft):
    """Three shapes are really decoded with beside plain decoding, and as many steps are told as were promised."""
    target, draft = noisy_markov(1)
    told = []
    place = workplace(target, draft if with_draft else None)
    result = tune(place, PROMPTS, Speculation(), on_progress=told.append)
    assert len(told) == steps(len(PROMPTS))
    assert (result.prompts, result.tokens) == (3, 3 * 15)
    assert len(result.confirmed) == 3
    assert [one.ratio for one in result.confirmed] == sorted((one.ratio for one in result.confirmed), reverse=True)
    for one in result.confirmed:
        assert with_draft or one.prediction.shape.drafters == ("suffix",)
        assert one.tau >= 1
        assert one.tokens_per_s > 0
    assert tuning_table(result)
    assert json.dumps(tuning_json(result))


def test_answers_of_one_token_cannot_be_tuned_on():
    """Every token ends the answer: one line that says what to do."""
    place = workplace(tiny_target(), None, ending_ids=range(64))
    with pytest.raises(InvalidInputError, match="give other prompts"):
        tune(place, PROMPTS, Speculation(), on_progress=lambda _: None)


def test_arms_take_turns_and_give_the_same_texts():
    """Who begins alternates; every arm answers as plain decoding does, and a ratio compares the same prompts."""
    target, draft = noisy_markov(1)
    place = workplace(target, draft)
    arms = [place.arm(None), place.arm(Speculation(depth=3)), place.arm(Speculation(drafters=("suffix",)))]
    order, answers = [], []
    for number, arm in enumerate(arms):
        arm.llm.stream = lambda ids, params, number=number, stream=arm.llm.stream: _noted(
            order, answers, number, stream(ids, params)
        )
    decode_in_turns(arms, PROMPTS[:2], place.params, rounds=2, on_answer=lambda: None)
    assert order == [0, 1, 2, 2, 1, 0, 2, 1, 0, 0, 1, 2]
    assert len(set(answers)) == 2
    assert arms[0].stats.tau == 1.0 < arms[1].stats.tau
    assert arms[0].ratio_to(arms[0]) == 1.0
    assert arms[1].stats.cycle_tokens == arms[0].stats.cycle_tokens == 4 * 15


def _noted(order, answers, number, pieces):
    order.append(number)
    for piece in pieces:
        yield piece
    answers.append(piece.answer.token_ids)


def test_the_reading_of_the_prompt_is_left_out():
    """Speed is that of cycles: a long prompt changes no ratio."""
    place = workplace(tiny_target(), None)
    arm = place.arm(None)
    arm.stats = DecodeStats(cycle_tokens=10, total_s=7.0, prefill_s=2.0)
    assert arm.tokens_per_s == 2.0


def test_the_winner_is_what_the_config_reads(tmp_path):
    """The YAML of a winner is a config whose speculation is the winner's, and says where it comes from."""
    path = tmp_path / "tuned.yaml"
    path.write_text(settings_yaml(TUNING, "model, int8, 2 threads"), encoding="utf-8")
    config = load_config(path)
    assert config.speculation == TUNING.winner == TUNING.confirmed[0].prediction.shape
    assert config.drafters == ("eagle3",)
    assert path.read_text(encoding="utf-8").startswith("# Made by `eagle3 tune` (model, int8, 2 threads): 1.61 x plain")


def test_where_plain_decoding_wins_nothing_is_drafted(tmp_path):
    """A gain of one per cent is no gain: the config decodes plainly, without a draft in memory."""
    assert HOPELESS.winner is None
    path = tmp_path / "tuned.yaml"
    path.write_text(settings_yaml(HOPELESS, "model"), encoding="utf-8")
    config = load_config(path)
    assert (config.drafters, config.draft_in_use) == ((), None)
    assert "plain decoding is the fastest" in path.read_text(encoding="utf-8")


def test_a_winner_without_a_draft():
    """Repetitions alone: the settings name the drafter."""
    best = replace(TUNING, confirmed=TUNING.confirmed[1:])
    assert settings_of(best)["speculation"]["drafters"] == ["suffix"]


def test_the_report_has_both_ratios():
    """The table shows predicted and measured ratios, tau and the shape; plain decoding is a line of it."""
    lines = [line.split() for line in tuning_table(TUNING).splitlines()]
    assert ["eagle3", "3", "6", "8", "0.05", "2.40", "1.50x", "1.61x", "50.0"] in lines
    assert ["suffix", "-", "-", "4", "0", "2.40", "1.50x", "1.20x", "50.0"] in lines
    assert ["none", "(plain)", "-", "-", "-", "-", "1.00", "1.00x", "1.00x", "31.0"] in lines
    report = json.loads(json.dumps(tuning_json(TUNING)))
    assert report["verify_ms"] == {"1": 10.0, "2": 12.0}
    assert report["overhead_ms"] == {"speculative": 2.0, "plain": 1.0}
    assert [shape["ratio"] for shape in report["shapes"]] == [1.61, 1.2]
    assert report["shapes"][0]["nodes_per_cycle"] == 4.0
    assert yaml.safe_load(yaml.safe_dump(report["settings"])) == settings_of(TUNING)
