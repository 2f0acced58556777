"""Flags, config files and stages become settings; what is given last and nearest wins."""

from __future__ import annotations

import argparse

import pytest

from eagle3.cli.options import add_model_flags, add_sampling_flags
from eagle3.cli.run.settings import deployment_config, params_from
from eagle3.cli.run.train import parse_stages
from eagle3.config.deployment import DeploymentConfig
from eagle3.config.speculation import Speculation
from eagle3.errors import ConfigError, InvalidInputError
from eagle3.sampling.params import SamplingParams


def parse(*argv):
    parser = argparse.ArgumentParser()
    add_model_flags(parser)
    add_sampling_flags(parser)
    return parser.parse_args([str(word) for word in argv])


def test_no_flags_are_the_defaults():
    """Flags repeat no default: without any, settings are those of the library."""
    assert deployment_config(parse()) == DeploymentConfig()
    assert params_from(parse()) == SamplingParams()


def test_flags_override_the_config_file(tmp_path):
    """The file is the base; each flag replaces its own key and no other."""
    path = tmp_path / "run.yaml"
    path.write_text(
        "target: m\ndraft: d\ndtype: bfloat16\nthreads: 2\nspeculation: {depth: 3, top_k: 2, nodes: 9}\n",
        encoding="utf-8",
    )
    config = deployment_config(parse("--config", path, "--draft", "other", "--tree-nodes", 5))
    assert (config.target, config.draft, config.dtype, config.threads) == ("m", "other", "bfloat16", 2)
    assert config.speculation == Speculation(depth=3, top_k=2, nodes=5)


@pytest.mark.parametrize(("flags", "draft"), [
    ((), "embedded"),
    (("--draft", "mine"), "mine"),
    (("--target", "model"), None),
    (("--target", "model", "--draft", "mine"), "mine"),
])  # fmt: skip
def test_a_target_of_ones_own_has_no_default_draft(flags, draft):
    """The embedded draft belongs to the embedded target alone."""
    assert deployment_config(parse(*flags)).draft == draft


def test_a_config_file_may_ask_for_plain_decoding(tmp_path):
    """`draft: null` decodes plainly; a flag brings a draft back."""
    path = tmp_path / "run.yaml"
    path.write_text("draft: null\n", encoding="utf-8")
    assert deployment_config(parse("--config", path)).draft is None
    assert deployment_config(parse("--config", path, "--draft", "embedded")).draft == "embedded"


def test_the_environment_lies_between_file_and_flags(tmp_path):
    """Every command reads EAGLE3_* variables: they override the file, and flags override them."""
    path = tmp_path / "run.yaml"
    path.write_text("threads: 1\ndtype: bfloat16\nspeculation: {depth: 2}\n", encoding="utf-8")
    environ = {"EAGLE3_THREADS": "2", "EAGLE3_SPECULATION__DEPTH": "3", "EAGLE3_LIMITS__QUEUE": "7"}
    config = deployment_config(parse("--config", path, "--tree-depth", 4), environ)
    assert (config.dtype, config.threads, config.speculation.depth, config.limits.queue) == ("bfloat16", 2, 4, 7)
    assert deployment_config(parse(), {"EAGLE3_TARGET": "model"}).draft is None


def test_drafters_are_named_by_commas():
    """One or both, in the flag by commas and in the variable as JSON; a name twice, or none, is refused."""
    assert deployment_config(parse("--drafters", "eagle3,suffix"), {}).drafters == ("eagle3", "suffix")
    assert deployment_config(parse("--drafters", "suffix"), {}).draft_in_use is None
    environ = {"EAGLE3_SPECULATION__DRAFTERS": '["suffix"]'}
    assert deployment_config(parse(), environ).drafters == ("suffix",)
    assert deployment_config(parse("--target", "m"), environ).drafters == ("suffix",)
    assert deployment_config(parse("--target", "m"), {}).drafters == ()
    for bad in ("suffix,suffix", "", "eagle3,"):
        with pytest.raises(ConfigError, match=r"^--drafters: "):
            deployment_config(parse("--drafters", bad), {})


def test_the_real_environment_is_what_commands_read(monkeypatch):
    """Without a mapping of its own the function reads the process's variables."""
    monkeypatch.setenv("EAGLE3_THREADS", "3")
    assert deployment_config(parse()).threads == 3


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (("--threads", 0), "--threads"),
        (("--tree-depth", 0), "--tree-depth"),
        (("--tree-top-k", 65), "--tree-top-k"),
        (("--tree-nodes", 0), "--tree-nodes"),
        (("--drafters", "medusa"), "--drafters"),
    ],
)
def test_a_bad_flag_is_named_as_it_was_typed(flags, named):
    """Errors speak of flags, not of keys of the schema."""
    with pytest.raises(ConfigError, match=rf"^{named}: .*got '?{flags[1]}"):
        deployment_config(parse(*flags), {})


def test_a_command_may_have_flags_for_further_settings():
    """`more` maps a setting to the attribute and the flag of one command; an absent flag changes nothing."""
    more = {"serving.port": ("port", "--port"), "limits.queue": ("queue", "--queue")}
    args = argparse.Namespace(**vars(parse()), port=99, queue=None)
    assert deployment_config(args, {"EAGLE3_LIMITS__QUEUE": "3"}, more=more).serving.port == 99
    assert deployment_config(args, {"EAGLE3_LIMITS__QUEUE": "3"}, more=more).limits.queue == 3
    with pytest.raises(ConfigError, match=r"^--port: .*got 70000"):
        deployment_config(argparse.Namespace(**vars(parse()), port=70_000, queue=None), {}, more=more)


def test_every_sampling_flag_arrives():
    """Each flag sets its own parameter, --top-k the sampler's and not the tree's."""
    params = params_from(
        parse(
            "--max-new-tokens", 9, "--min-new-tokens", 2, "--temperature", 0.5, "--top-k", 7, "--top-p", 0.9,
            "--min-p", 0.1, "--repetition-penalty", 1.2, "--presence-penalty", 0.3, "--frequency-penalty", 0.4,
            "--seed", 11, "--stop", "a", "--stop", "b", "--stop-token-id", 3, "--ignore-eos", "--logprobs", 2, "-n", 2,
            "--tree-top-k", 6,
        )
    )  # fmt: skip
    assert params == SamplingParams(
        max_new_tokens=9, min_new_tokens=2, temperature=0.5, top_k=7, top_p=0.9, min_p=0.1, repetition_penalty=1.2,
        presence_penalty=0.3, frequency_penalty=0.4, seed=11, stop=("a", "b"), stop_token_ids=(3,), ignore_eos=True,
        logprobs=2, n=2,
    )  # fmt: skip


def test_zero_is_a_value_and_not_the_absence_of_one():
    """Flags of 0 arrive as 0."""
    params = params_from(parse("--seed", 0, "--logprobs", 0, "--temperature", 0, "--stop-token-id", 0))
    assert (params.seed, params.logprobs, params.stop_token_ids) == (0, 0, (0,))


@pytest.mark.parametrize(
    ("text", "stages"),
    [("10x2", [(10, 2)]), ("1000x1,500x2,500x4", [(1000, 1), (500, 2), (500, 4)]), (" 3x1 , 4x2 ", [(3, 1), (4, 2)])],
)
def test_stages(text, stages):
    """STEPSxTTT, separated by commas, white space allowed."""
    assert [(stage.optimiser_steps, stage.ttt_steps) for stage in parse_stages(text)] == stages


def test_a_json_schema_is_read_from_its_file(tmp_path):
    """--json-schema takes a file; one that is missing or no schema is the user's error and names it."""
    path = tmp_path / "schema.json"
    path.write_text('{"type": "object"}', encoding="utf-8")
    assert params_from(parse("--json-schema", path)).json_schema is not None
    with pytest.raises(InvalidInputError, match=r"missing\.json"):
        params_from(parse("--json-schema", tmp_path / "missing.json"))
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidInputError, match="UTF-8"):
        params_from(parse("--json-schema", path))
    path.write_text("not json", encoding="utf-8")
    with pytest.raises(InvalidInputError, match="json_schema"):
        params_from(parse("--json-schema", path))
