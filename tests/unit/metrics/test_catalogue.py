"""The catalogue, and the document made from it."""

from __future__ import annotations

from pathlib import Path

from eagle3.metrics.catalogue import CATALOGUE, catalogue_table

DOCUMENT = Path(__file__).parents[3] / "docs" / "metrics.md"


def test_document_has_the_table():
    """docs/metrics.md shows exactly this catalogue (print `catalogue_table()` to renew it)."""
    assert f"\n{catalogue_table()}\n" in DOCUMENT.read_text(encoding="utf-8")


def test_names():
    """Prometheus names are snake case with the prefix, CloudWatch names are those that the alarms use."""
    names = [entry.prometheus for entry in CATALOGUE]
    assert len(set(names)) == len(names)
    assert all(name.startswith("eagle3_") and name == name.lower() for name in names)
    assert {entry.cloudwatch for entry in CATALOGUE if entry.cloudwatch} == {
        "TokensPerSecond", "AcceptanceRate", "AcceptanceByDepth<N>", "DraftLatencyMs", "VerifyLatencyMs",
        "E2ELatencyMs", "TimeToFirstTokenMs", "GPUMemoryUsedMB", "QueueDepth", "RejectedRequests",
    }  # fmt: skip


def test_every_metric_says_what_it_is():
    """Each has a sentence and says when it is absent."""
    for entry in CATALOGUE:
        assert entry.help.endswith("."), entry.prometheus
        assert entry.absent, entry.prometheus
