"""Which systems can be measured, with which settings; which are left out, for which reason."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from eagle3.bench.peers.catalogue import CATALOGUE, QUICK, Surroundings, check_names, line_up
from eagle3.bench.peers.questions import QUESTIONS, WARM_UP
from eagle3.bench.peers.requantised import requantised
from eagle3.cli.run.generate import read_prompts
from eagle3.config.deployment import parse_config
from eagle3.engine.upstream_models import UpstreamModels
from eagle3.errors import ConfigError, EngineUnavailableError, WeightsError
from eagle3.train import prompts as training

OURS = ["plain", "speculative", "int8-plain", "int8-speculative"]


@pytest.fixture
def pythons(tmp_path):
    """Pythons that have llama_cpp or vllm, as far as anyone looks."""
    made = {}
    for package in ("llama_cpp", "vllm"):
        (tmp_path / package / "lib" / package).mkdir(parents=True)
        (tmp_path / package / "lib" / package / "__init__.py").touch()
        (tmp_path / package / "lib" / "libiomp5.so").touch()
        path = tmp_path / package / "bin" / "python"
        path.parent.mkdir()
        path.write_text(f'#!/bin/sh\nPYTHONPATH={path.parents[1]}/lib exec {sys.executable} "$@"\n')
        path.chmod(0o755)
        made[package] = path
    return made


def around(pythons=None, *, target="some/model.Q4_1.gguf", **values):
    pythons = pythons or {"llama_cpp": Path("no/llama"), "vllm": Path("no/vllm")}
    models = UpstreamModels(
        target=Path("exported"), draft=Path("drafted"), target_name="m", context_tokens=99, vocab_size=9,
        ending_ids=frozenset({2}), bytes_per_token=10,
    )  # fmt: skip
    return Surroundings(
        config=parse_config({"target": target, **values}, source="test"),
        python=Path(sys.executable), llama_python=pythons["llama_cpp"], vllm_python=pythons["vllm"], threads=2,
        cores=(4, 5, 6), longest=100, ending_ids=frozenset({2, 0}), num_layers=30,
        compiles=False, export=lambda: models,
        requantised=lambda path: path.with_name("written.gguf"),
    )  # fmt: skip


def test_all_systems_can_be_lined_up(pythons):
    """With everything installed nobody is left out, and the order is the catalogue's, whatever was asked first."""
    line = line_up(list(reversed(CATALOGUE)), around(pythons))
    assert [peer.name for peer in line.peers] == list(CATALOGUE)
    assert line.left_out == {}
    for peer in line.peers:
        json.dumps(dict(peer.settings))
    assert set(OURS) < set(QUICK) < set(CATALOGUE)


def test_what_is_not_installed_is_left_out_with_a_remedy(tmp_path):
    """Ours and Hugging Face's need nothing more; the others name what to run and which flag finds them."""
    line = line_up(QUICK, around())
    assert [peer.name for peer in line.peers] == [name for name in QUICK if not name.startswith(("llama", "vllm"))]
    assert all("there is no no/llama; run `make .venv-llama/.ready`" in line.left_out[n] for n in QUICK if "cpp" in n)
    assert all("--vllm-python" in line.left_out[name] for name in QUICK if "vllm" in name)


def test_a_python_without_the_package_is_told_apart():
    """A half-made environment is not taken for the peer."""
    here = {"llama_cpp": Path(sys.executable), "vllm": Path(sys.executable)}
    line = line_up(["llama.cpp-q4_1", "vllm-plain"], around(here))
    assert not line.peers
    assert "has no llama_cpp" in line.left_out["llama.cpp-q4_1"]
    assert "has no vllm" in line.left_out["vllm-plain"]


@pytest.mark.parametrize(
    ("values", "name", "reason"),
    [
        ({"target": "some/folder"}, "llama.cpp-q4_1", "llama.cpp reads GGUF files"),
        ({"target": "some/folder"}, "llama.cpp-q8_0", "llama.cpp reads GGUF files"),
        ({"target": "m.Q8_0.gguf"}, "llama.cpp-q4_1", "is not in Q4_1"),
        ({"draft": None}, "speculative", "name one with --draft"),
        ({"draft": None}, "int8-speculative", "name one with --draft"),
        ({"draft": None}, "vllm-eagle3", "name one with --draft"),
        ({"dtype": "bfloat16"}, "int8-plain", "int8 needs dtype float32"),
        ({"device": "cuda"}, "vllm-plain", "the device is cuda"),
    ],
)
def test_what_cannot_be_is_left_out(pythons, values, name, reason):
    """Each contradiction of the config has its reason, and the same name is fine without it."""
    assert reason in line_up([name], around(pythons, **values)).left_out[name]
    assert [peer.name for peer in line_up([name], around(pythons)).peers] == [name]


def test_ours_differ_in_draft_and_int8_alone(pythons):
    """One config each: plain ones guess nothing, int8 ones are quantised, all have the same threads."""
    peers = {peer.name: peer for peer in line_up(OURS, around(pythons)).peers}
    configs = {name: parse_config(json.loads(peer.settings["config"]), source=name) for name, peer in peers.items()}
    assert [(bool(c.drafters), c.quantize, c.threads) for c in configs.values()] == [
        (False, None, 2), (True, None, 2), (False, "int8", 2), (True, "int8", 2),
    ]  # fmt: skip
    assert [peer.same_as for peer in peers.values()] == [None, "plain", None, "int8-plain"]
    suffix = around(pythons, draft=None, speculation={"drafters": ["suffix"]})
    assert [peer.name for peer in line_up(OURS, suffix).peers] == OURS


def test_vllm_is_bound_to_our_cores(pythons):
    """Two threads on the first two cores, Intel's OpenMP first; a draft only where asked for, then no sampling."""
    plain, drafting = line_up(["vllm-plain", "vllm-eagle3"], around(pythons)).peers
    assert plain.environment["VLLM_CPU_OMP_THREADS_BIND"] == "4,5"
    assert plain.environment["LD_PRELOAD"].endswith("libiomp5.so")
    assert (plain.settings["draft"], plain.samples) == (None, True)
    assert (drafting.settings["draft"], drafting.samples) == ("drafted", False)


def test_unknown_names_are_refused():
    """The known ones are listed."""
    check_names(["plain", "hf-assisted"])
    with pytest.raises(ConfigError, match=r"--system: got 'plane'; the systems are plain, speculative"):
        check_names(["plane"])


def test_the_questions_are_of_all_kinds_and_of_no_training():
    """Sixteen, the first eight one of each kind; no template of the trainer can make one, and the warm-up is none."""
    rows = [json.loads(row) for row in QUESTIONS.read_text().splitlines()]
    kinds = [row["category"] for row in rows]
    assert len(set(kinds)) == len(set(kinds[:8])) == 8
    texts = read_prompts(QUESTIONS, None)
    assert len(set(texts)) == 16
    assert WARM_UP not in texts
    templates = (Path(training.__file__).parent / "prompt_templates.yaml").read_text()
    for text in texts:
        assert text[:30] not in templates


def test_a_file_is_written_in_q8_once(tmp_path, pythons):
    """Made under llama.cpp's Python; the second call finds it; a source that changed is made anew."""
    source = tmp_path / "m.Q4_1.gguf"
    source.write_text("weights")
    package = tmp_path / "llama_cpp" / "lib" / "llama_cpp" / "__init__.py"
    package.write_text(
        "from types import SimpleNamespace\n"
        "LLAMA_FTYPE_MOSTLY_Q8_0 = 7\n"
        "llama_model_quantize_default_params = SimpleNamespace\n"
        "def llama_model_quantize(source, destination, params):\n"
        "    assert (params.ftype, params.allow_requantize, params.nthread) == (7, True, 2)\n"
        "    open(destination, 'wb').write(open(source, 'rb').read() + b' in q8')\n"
        "    return 0\n"
    )
    made = requantised(source, tmp_path / "cache", python=pythons["llama_cpp"], threads=2)
    assert made.read_text() == "weights in q8"
    package.write_text("raise SystemExit(3)")
    assert requantised(source, tmp_path / "cache", python=pythons["llama_cpp"], threads=2) == made
    source.write_text("other weights")
    with pytest.raises(WeightsError, match="could not write"):
        requantised(source, tmp_path / "cache", python=pythons["llama_cpp"], threads=2)
    with pytest.raises(EngineUnavailableError, match="cannot start"):
        requantised(source, tmp_path / "cache", python=tmp_path / "none", threads=2)
