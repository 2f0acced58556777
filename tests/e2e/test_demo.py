"""The main job on the embedded default: the shipped draft beside plain decoding, on the real model."""

from __future__ import annotations

import json

import pytest

from eagle3.cli.main import main
from eagle3.models.embedded import embedded_draft

pytestmark = pytest.mark.slow


def test_demo_compares_both_ways(capsys):
    """`eagle3 demo` prints an answer, the table and the checked statement, and exits with 0."""
    assert main(["demo", "--max-new-tokens", "48"]) == 0
    out = capsys.readouterr().out
    assert "sky" in out
    assert "tau (tokens per cycle)" in out
    assert "identical at T = 0: checked, 48 of 48 tokens equal" in out


def test_json_and_no_speculation_agree(capsys):
    """The same command with --no-speculation gives the same token ids, in the keys that are promised."""
    command = ["generate", "--prompt", "Explain why the sky is blue.", "--max-new-tokens", "64", "--json"]
    assert main(command) == 0
    speculative = json.loads(capsys.readouterr().out)
    assert main([*command, "--no-speculation"]) == 0
    plain = json.loads(capsys.readouterr().out)
    assert speculative["token_ids"] == plain["token_ids"]
    assert speculative["num_cycles"] < plain["num_cycles"]
    assert {
        "text", "token_ids", "num_cycles", "tau", "acceptance_by_depth",
        "draft_ms", "verify_ms", "tokens_per_s", "finish_reason",
    } <= set(speculative)  # fmt: skip


@pytest.mark.parametrize(
    "shape",
    [["--tree-depth", "4", "--tree-top-k", "1", "--tree-nodes", "4"], ["--tree-depth", "7", "--tree-nodes", "59"]],
    ids=["chain", "large tree"],
)
def test_any_tree_is_lossless_on_the_real_model(shape, capsys):
    """A chain and a large tree give plain decoding's text, sampled text with a seed included."""
    for sampling in ([], ["--temperature", "0.8", "--seed", "5"]):
        command = ["generate", "--prompt", "Name three rivers.", "--max-new-tokens", "40", "--json", *sampling]
        assert main([*command, *shape]) == 0
        speculative = json.loads(capsys.readouterr().out)
        assert main([*command, "--no-speculation"]) == 0
        assert speculative["token_ids"] == json.loads(capsys.readouterr().out)["token_ids"]


def test_shipped_draft_is_small():
    """The shipped draft stays below 20 MB, so that the package stays small."""
    size = sum(path.stat().st_size for path in embedded_draft().iterdir())
    assert size <= 20_000_000


def test_doctor_passes_the_shipped_draft(capsys):
    """The shipped draft is healthy: its files say all, and its first token is often right."""
    assert main(["draft", "doctor", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["ok"]
    assert report["first_position_acceptance"]["as read"] > 0.3
    assert not [finding for finding in report["findings"] if finding["severity"] != "note"]


def test_doctor_names_the_right_tap_convention(capsys):
    """Read with the wrong tap convention, the shipped draft is warned of, and the remedy names its real taps.

    One layer off costs this draft a tenth of its acceptance, so it stays of use: a warning, not an error.
    """
    assert main(["draft", "doctor", "--taps", "output", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    warnings = [finding["remedy"] for finding in report["findings"] if finding["severity"] == "warning"]
    assert any("[2, 15, 27]" in remedy for remedy in warnings)
