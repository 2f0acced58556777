import json
from collections.abc import Sequence

import pytest

from eagle3.config.deployment import parse_config
from eagle3.config.engine_arguments import (
    lmi_container_environment,
    sglang_command,
    vllm_command,
    vllm_container_environment,
    vllm_speculative_config,
)
from eagle3.errors import ConfigError


def config_of(**values):
    return parse_config(values, source="test")


def vllm(config, **options):
    given = {"target": "/m", "draft": "/d", "port": 5000, "model_name": "name"} | options
    return vllm_command(config, **given)


def sglang(config, **options):
    given = {"target": "/m", "draft": "/d", "port": 5000, "model_name": "name"} | options
    return sglang_command(config, **given)


def option(arguments: Sequence[str], name: str) -> str:
    """The word after `name`."""
    return arguments[arguments.index(name) + 1]


def test_vllm_gets_the_whole_config():
    """Every setting that vLLM has stands in its command, under its name."""
    config = config_of(
        dtype="bfloat16",
        threads=3,
        speculation={"depth": 4, "top_k": 1, "nodes": 4},
        engine={"name": "vllm", "cache_tokens": 1000, "step_tokens": 256, "tensor_parallel": 2},
        limits={"concurrency": 8, "drain_s": 24.5},
    )
    command = vllm(config, context_tokens=512, bytes_per_token=100)
    words = command.arguments
    assert words[:3] == ("vllm", "serve", "/m")
    assert json.loads(option(words, "--speculative-config")) == {
        "method": "eagle3",
        "model": "/d",
        "num_speculative_tokens": 4,
    }
    expected = {
        "--host": "127.0.0.1",
        "--port": "5000",
        "--served-model-name": "name",
        "--dtype": "bfloat16",
        "--max-num-seqs": "8",
        "--max-num-batched-tokens": str(256 + 8 * 5),
        "--max-model-len": "512",
        "--tensor-parallel-size": "2",
        "--kv-cache-memory-bytes": "100000",
        "--shutdown-timeout": "25",
    }
    assert {name: option(words, name) for name in expected} == expected
    assert "--enable-prefix-caching" in words
    assert command.environment["OMP_NUM_THREADS"] == "3"
    assert command.environment["VLLM_NO_USAGE_STATS"] == "1"


def test_vllm_says_what_it_cannot_do():
    """A tree becomes a chain of its depth, and the notes say which settings are not used; a chain has no such note."""
    tree = vllm(config_of(speculation={"depth": 5, "top_k": 6, "nodes": 16}))
    assert json.loads(option(tree.arguments, "--speculative-config"))["num_speculative_tokens"] == 5
    said = [note for note in tree.notes if "chains, not trees" in note]
    assert said == [
        "vllm verifies chains, not trees: top_k 6 and nodes 16 are not used; it drafts a chain of 5",
    ]
    chain = vllm(config_of(speculation={"depth": 5, "top_k": 1, "nodes": 3}))
    assert json.loads(option(chain.arguments, "--speculative-config"))["num_speculative_tokens"] == 3
    assert not any("trees" in note for note in chain.notes)


def test_vllm_without_a_draft():
    """Plain decoding has no speculative config, whichever side says so, and no note about speculation."""
    for command in (vllm(config_of(draft=None)), vllm(config_of(), draft=None)):
        assert not any(word.startswith(("--speculative", "--per-request")) for word in command.arguments)
        assert not any("speculat" in note for note in command.notes)


@pytest.mark.parametrize("engine", [vllm, sglang])
@pytest.mark.parametrize(
    ("drafters", "said", "speculates"),
    [
        (["eagle3"], [], True),
        (["eagle3", "suffix"], ["suffix of speculation.drafters is not used; the draft alone guesses"], True),
        (["suffix"], ["suffix of speculation.drafters is not used; it decodes plainly"], False),
    ],
)
def test_only_the_native_engine_looks_for_repetitions(engine, drafters, said, speculates):
    """Other engines say that suffix is not used; where it alone was to guess, they are not given the draft either."""
    command = engine(config_of(speculation={"drafters": drafters}))
    assert [note.partition(": ")[2] for note in command.notes if "drafters" in note] == said
    assert any(word.startswith("--speculative") for word in command.arguments) == speculates


def test_vllm_stops_drafting_above_the_threshold():
    """`off_threshold` becomes vLLM's schedule by batch size; one that can never be passed is left out."""
    config = config_of(speculation={"depth": 3, "off_threshold": 4}, limits={"concurrency": 16})
    schedule = vllm_speculative_config(config, draft="/d")["num_speculative_tokens_per_batch_size"]
    assert schedule == [[1, 4, 3], [5, 16, 0]]
    config = config_of(speculation={"off_threshold": 16}, limits={"concurrency": 16})
    assert "num_speculative_tokens_per_batch_size" not in vllm_speculative_config(config, draft="/d")


def test_options_that_a_release_lacks_are_left_out_and_said():
    """`without` removes an option with its value, and the notes name it."""
    command = vllm(config_of(), without=frozenset({"--shutdown-timeout"}))
    assert "--shutdown-timeout" not in command.arguments
    assert "25" not in command.arguments
    assert "this release has no --shutdown-timeout; it is left out" in command.notes


def test_the_users_own_arguments_come_last():
    """So that they win over ours; `executable` may be a command of several words."""
    config = config_of(
        engine={
            "executable": "/opt/vllm/bin/python -m vllm",
            "arguments": ["--max-num-seqs", "3"],
            "prefix_reuse": False,
        }
    )
    words = vllm(config).arguments
    assert words[:4] == ("/opt/vllm/bin/python", "-m", "vllm", "serve")
    assert words[-2:] == ("--max-num-seqs", "3")
    assert "--no-enable-prefix-caching" in words


@pytest.mark.parametrize("executable", ["", "   ", "'unclosed"])
def test_an_executable_that_is_no_command_is_refused(executable):
    """The error names the setting."""
    with pytest.raises(ConfigError, match=r"engine\.executable"):
        vllm(config_of(engine={"executable": executable}))


def test_containers_get_the_same_json():
    """vLLM's SageMaker container and LMI take the object of the command line, by their own names."""
    config = config_of(speculation={"depth": 4}, engine={"tensor_parallel": 4})
    json_text = option(vllm(config).arguments, "--speculative-config")
    assert vllm_container_environment(config, target="org/model", draft="/d") == {
        "SM_VLLM_MODEL": "org/model",
        "SM_VLLM_DTYPE": "float32",
        "SM_VLLM_MAX_NUM_SEQS": "64",
        "SM_VLLM_TENSOR_PARALLEL_SIZE": "4",
        "SM_VLLM_SHUTDOWN_TIMEOUT": "25",
        "SM_VLLM_SPECULATIVE_CONFIG": json_text,
    }
    assert lmi_container_environment(config, target="org/model", draft="/d") == {
        "HF_MODEL_ID": "org/model",
        "OPTION_TENSOR_PARALLEL_DEGREE": "4",
        "OPTION_SPECULATIVE_CONFIG": json_text,
    }
    assert "SM_VLLM_SPECULATIVE_CONFIG" not in vllm_container_environment(config, target="m", draft=None)
    assert "OPTION_SPECULATIVE_CONFIG" not in lmi_container_environment(config, target="m", draft=None)


def test_sglang_for_the_papers_settings():
    """Depth 8, top-k 10 and 63 nodes below the root are EAGLE3, 8 steps, top-k 10 and 64 draft tokens."""
    command = sglang(config_of(device="cuda:0", speculation={"depth": 8, "top_k": 10, "nodes": 63}))
    words = command.arguments
    assert words[:3] == ("python3", "-m", "sglang.launch_server")
    expected = {
        "--model-path": "/m",
        "--speculative-algorithm": "EAGLE3",
        "--speculative-draft-model-path": "/d",
        "--speculative-num-steps": "8",
        "--speculative-eagle-topk": "10",
        "--speculative-num-draft-tokens": "64",
        "--device": "cuda",
    }
    assert {name: option(words, name) for name in expected} == expected
    assert "--enable-metrics" in words


@pytest.mark.parametrize(
    ("shape", "steps", "tokens"),
    [
        ({"depth": 5, "top_k": 1, "nodes": 16}, "5", "6"),  # a chain has no more nodes than levels
        ({"depth": 5, "top_k": 1, "nodes": 3}, "3", "4"),
        ({"depth": 2, "top_k": 2, "nodes": 60}, "2", "7"),  # two levels of top-k 2 draft 2 + 4 nodes
    ],
)
def test_sglang_never_asks_for_more_nodes_than_are_drafted(shape, steps, tokens):
    """SGLang crashes on more draft tokens than candidates, and wants steps + 1 for a chain."""
    words = sglang(config_of(speculation=shape)).arguments
    assert option(words, "--speculative-num-steps") == steps
    assert option(words, "--speculative-num-draft-tokens") == tokens


def test_sglang_without_a_draft_and_with_limits():
    """No speculative option without a draft; cache, context and prefix reuse under SGLang's names."""
    config = config_of(draft=None, engine={"cache_tokens": 4096, "prefix_reuse": False}, limits={"concurrency": 5})
    words = sglang(config, draft=None, context_tokens=777).arguments
    assert not any(word.startswith("--speculative") for word in words)
    assert option(words, "--max-total-tokens") == "4096"
    assert option(words, "--context-length") == "777"
    assert option(words, "--max-running-requests") == "5"
    assert "--disable-radix-cache" in words


def test_vllm_on_a_cpu_leaves_memory_to_others():
    """On a CPU vLLM would take 92 % of the machine; a user's own argument comes last and counts."""
    assert option(vllm(config_of()).arguments, "--gpu-memory-utilization") == "0.25"
    assert "--gpu-memory-utilization" not in vllm(config_of(device="cuda")).arguments
    own = vllm(config_of(engine={"arguments": ["--gpu-memory-utilization", "0.5"]})).arguments
    assert own[-1] == "0.5"


@pytest.mark.parametrize("command", [vllm, sglang])
def test_other_engines_draft_in_full(command):
    """`min_probability` is not theirs: a note says so where it is set and something drafts, and none where not."""

    def said(**values):
        return [note for note in command(config_of(**values)).notes if "min_probability" in note]

    assert len(said(speculation={"min_probability": 0.1})) == 1
    assert said() == said(speculation={"min_probability": 0.1}, draft=None) == []
