"""vLLM's CPU build as a system of `eagle3 bench peers`, with the embedded target and the shipped draft."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from eagle3.cli.main import main

PYTHON = Path(__file__).parents[2] / ".venv-vllm" / "bin" / "python"

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not PYTHON.exists(), reason="no .venv-vllm/bin/python; `make test-vllm` installs it"),
]


def test_vllm_with_and_without_the_draft(tmp_path, capsys):
    """Both answer, most tokens agree with ours in float32, and the draft's chain of two is accepted at times."""
    code = main([
        "bench", "peers", "--system", "plain", "--system", "vllm-plain", "--system", "vllm-eagle3", "--limit", "2",
        "--max-new-tokens", "24", "--rounds", "1", "--budget-s", "560", "--cache-dir", str(tmp_path / "kept"),
        "--vllm-python", str(PYTHON), "--json", str(tmp_path / "r.json"),
    ])  # fmt: skip
    assert code == 0, capsys.readouterr().err
    report = json.loads((tmp_path / "r.json").read_text())
    rows = {row["system"]: row for row in report["sections"][0]["systems"]}
    assert all(rows[name]["agreement"] > 0.5 for name in ("vllm-plain", "vllm-eagle3"))
    assert rows["vllm-plain"]["tau"] == 1.0
    assert 1.1 < rows["vllm-eagle3"]["tau"] <= 3.0
    assert report["versions"]["vllm-plain"]["vllm"].startswith("0.")
    assert rows["vllm-eagle3"]["decode_ratios"]["vllm-plain"]["median"] > 0
