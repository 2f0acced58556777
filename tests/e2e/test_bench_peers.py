"""`eagle3 bench peers` from end to end: command line, processes, tables, JSON and chart."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from builders import write_byte_model
from eagle3.cli.main import main

LLAMA = Path(__file__).parents[2] / ".venv-llama" / "bin" / "python"
OURS_AND_HF = ["plain", "int8-plain", "hf-plain", "hf-prompt-lookup", "hf-assisted"]


@pytest.fixture
def model(tmp_path):
    """A random model of 260 tokens in a directory that Hugging Face can read too."""
    path = write_byte_model(tmp_path / "model")
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps(config | {"model_type": "llama"}))
    return path


def asked(names):
    return [word for name in names for word in ("--system", name)]


@pytest.mark.slow
def test_ours_beside_hugging_face_on_a_small_model(tmp_path, capsys, model):
    """A random model read from a directory: all answer alike; table, JSON and chart say the same."""
    prompts = tmp_path / "asked.jsonl"
    prompts.write_text('{"turns": ["alpha", "later"]}\n{"prompt": "beta gamma"}\n{"prompt": "left out"}\n')
    code = main([
        "bench", "peers", "--target", str(model), *asked(OURS_AND_HF), "--prompts", str(prompts), "--limit", "2",
        "--max-new-tokens", "12", "--rounds", "1", "--threads", "1", "--budget-s", "280", "--profile",
        "--json", str(tmp_path / "r.json"), "--chart", str(tmp_path / "r.png"),
    ])  # fmt: skip
    captured = capsys.readouterr()
    assert code == 0, captured.err
    report = json.loads((tmp_path / "r.json").read_text())
    assert (report["failures"], report["unequal"], report["left_out"]) == (0, 0, {})
    (section,) = report["sections"]
    rows = {row["system"]: row for row in section["systems"]}
    assert list(rows) == OURS_AND_HF
    for name in ("plain", "hf-plain", "hf-prompt-lookup", "hf-assisted"):
        assert rows[name]["identical"] == 2, name
        assert rows[name]["output_tokens"] == rows["plain"]["output_tokens"] > 0
    assert rows["hf-plain"]["tau"] == rows["plain"]["tau"] == 1.0
    assert [turn["system"] for turn in section["turns"]] == OURS_AND_HF
    assert report["versions"]["hf-plain"]["transformers"]
    assert {profile["system"] for profile in report["profile"]} == {"plain", "int8-plain"}
    assert all(f"| {name} | " in captured.out for name in OURS_AND_HF)
    assert "### asked, T = 0" in captured.out
    assert "### Where a cycle's time goes" in captured.out
    assert (tmp_path / "r.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_what_is_missing_is_said_and_the_rest_is_measured(tmp_path, capsys, monkeypatch, model):
    """Of all systems, there is no llama.cpp, no vLLM and no draft; ours is measured all the same."""
    monkeypatch.setattr("eagle3.cli.run.bench_peers.QUICK", ("plain", "speculative", "llama.cpp-q4_1", "vllm-plain"))
    code = main([
        "bench", "peers", "--target", str(model), "--max-new-tokens", "4", "--limit", "1", "--rounds", "1",
        "--threads", "1", "--config", str(_without_draft(tmp_path)), "--vllm-python", str(tmp_path / "none"),
        "--llama-python", str(tmp_path / "none"),
    ])  # fmt: skip
    captured = capsys.readouterr()
    assert code == 0
    for name in ("speculative", "llama.cpp-q4_1", "vllm-plain"):
        assert f"{name} is left out: " in captured.err
        assert f"- {name}: " in captured.out
    assert "| plain | " in captured.out


def _without_draft(folder):
    path = folder / "run.yaml"
    path.write_text("draft: null\n")
    return path


@pytest.mark.slow
def test_a_system_that_fails_fails_the_command(tmp_path, capsys, model):
    """The reason is on stderr and in the JSON, the others are measured, and the exit code says that it is not sound."""
    (model / "model.safetensors").write_bytes(b"broken")
    code = main([
        "bench", "peers", "--target", str(model), "--system", "plain", "--limit", "1", "--max-new-tokens", "4",
        "--rounds", "2", "--threads", "1", "--json", str(tmp_path / "r.json"),
    ])  # fmt: skip
    assert code == 1
    assert "plain failed: ended with code 1" in capsys.readouterr().err
    report = json.loads((tmp_path / "r.json").read_text())
    assert report["failures"] == 1
    assert len(report["sections"][0]["turns"]) == 1


@pytest.mark.slow
def test_the_embedded_target_with_its_draft(tmp_path, capsys):
    """Speculation repeats plain decoding word by word, in float32 and in int8, and accepts drafted tokens."""
    names = ["plain", "speculative", "int8-plain", "int8-speculative"]
    code = main([
        "bench", "peers", *asked(names), "--limit", "2", "--max-new-tokens", "16", "--rounds", "1", "--threads", "1",
        "--budget-s", "280", "--json", str(tmp_path / "r.json"),
    ])  # fmt: skip
    assert code == 0, capsys.readouterr().err
    (section,) = json.loads((tmp_path / "r.json").read_text())["sections"]
    rows = {row["system"]: row for row in section["systems"]}
    assert rows["speculative"]["identical"] == 2
    assert rows["speculative"]["unequal_to"] is rows["int8-speculative"]["unequal_to"] is None
    assert rows["speculative"]["tau"] > 1.2
    assert rows["plain"]["tau"] == 1.0
    assert rows["speculative"]["decode_ratios"]["plain"]["median"] > 0


@pytest.mark.slow
@pytest.mark.skipif(not LLAMA.exists(), reason="no .venv-llama; `make .venv-llama/.ready` installs it")
def test_llama_cpp_on_the_same_file(tmp_path, capsys):
    """The GGUF file, its Q8_0 copy and prompt lookup answer; most tokens agree with ours, lookup with plain Q4_1."""
    names = ["plain", "llama.cpp-q4_1", "llama.cpp-q8_0", "llama.cpp-q4_1-lookup"]
    code = main([
        "bench", "peers", *asked(names), "--limit", "2", "--max-new-tokens", "16", "--rounds", "1", "--threads", "1",
        "--budget-s", "280", "--cache-dir", str(tmp_path / "kept"), "--llama-python", str(LLAMA),
        "--json", str(tmp_path / "r.json"),
    ])  # fmt: skip
    assert code == 0, capsys.readouterr().err
    (section,) = json.loads((tmp_path / "r.json").read_text())["sections"]
    rows = {row["system"]: row for row in section["systems"]}
    assert all(rows[name]["output_tokens"] == 32 and rows[name]["agreement"] > 0.2 for name in names[1:])
    assert rows["llama.cpp-q4_1-lookup"]["tau"] >= rows["llama.cpp-q4_1"]["tau"] == 1.0
    assert len(list((tmp_path / "kept").glob("*.Q8_0.gguf"))) == 1


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--system", "plane"], "--system: got 'plane'; the systems are plain"),
        (["--system", "llama.cpp-q4_1", "--llama-python", "/nowhere/python"], "there is no /nowhere/python"),
        (["--system", "hf-plain", "--profile"], "--profile takes our own cycles apart"),
        (["--rounds", "0"], "--rounds must be above 0; got 0"),
        (["--limit", "-1"], "--limit must be above 0"),
        (["--max-new-tokens", "0"], "--max-new-tokens must be above 0"),
        (["--max-new-tokens", "9000"], "the target's context is 8192"),
        (["--budget-s", "nan"], "--budget-s must be above 0"),
        (["--temperature", "2.5"], "--temperature must be from 0 to 2; got 2.5"),
        (["--temperature", "nan"], "--temperature must be from 0 to 2"),
        (["--seed", "-1"], "--seed must be 0 or above"),
        (["--json", "/nowhere/r.json"], "its directory does not exist"),
        (["--prompts", "/nowhere/p.jsonl"], "cannot read /nowhere/p.jsonl"),
    ],
)
def test_refuses(arguments, complaint, capsys):
    """Bad input exits with 2 and one line that says what is allowed, before anything is started."""
    assert main(["bench", "peers", *arguments]) == 2
    captured = capsys.readouterr()
    assert complaint in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""


def test_the_warm_up_may_not_be_measured(tmp_path, capsys):
    """A prompt that every system has answered already is no measurement."""
    path = tmp_path / "p.jsonl"
    path.write_text('{"prompt": "Say in one sentence what you can help with."}\n')
    assert main(["bench", "peers", "--system", "plain", "--prompts", str(path)]) == 2
    assert "holds the prompt of the warm-up" in capsys.readouterr().err
