"""The chart of a load test."""

from __future__ import annotations

import pytest

from eagle3.bench.serve_chart import write_chart
from eagle3.bench.serve_result import level_result
from eagle3.errors import ConfigError


def results(systems):
    """Three levels of each system; the last level has errors only."""
    record = {
        "answers": [{"start_s": 0, "chunk_s": [0.1, 0.2], "end_s": 0.3, "prompt_tokens": 1, "output_tokens": 4}],
        "errors": {},
    }
    return [
        level_result(f"system {number}", users, [record if users < 16 else {"answers": [], "errors": {"HTTP 500": 1}}])
        for users in (1, 4, 16)
        for number in range(systems)
    ]


@pytest.mark.parametrize("systems", [1, 2, 8])
def test_writes_a_png(tmp_path, systems):
    """Any number of systems, and levels without an answer, make a picture."""
    write_chart(results(systems), tmp_path / "chart.png")
    assert (tmp_path / "chart.png").read_bytes().startswith(b"\x89PNG")


def test_refuses_a_place_that_cannot_be_written(tmp_path):
    """The path is named."""
    with pytest.raises(ConfigError, match="cannot write the chart"):
        write_chart(results(1), tmp_path / "missing" / "chart.png")
