"""The command `python -m infra.diagnosis`: what it prints, and what it refuses in one line."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from diagnosis_doubles import PROJECT, account, endpoint, series
from eagle3.errors import InvalidInputError
from infra.diagnosis.cli import main
from infra.diagnosis.page import filled
from infra.diagnosis.request import site_named, span, stacks_of
from infra.observability.alarm_catalogue import ALARMS, BUDGET

NAMES = [*(alarm.name for alarm in ALARMS), BUDGET]


@pytest.fixture
def nobody(monkeypatch, tmp_path):
    """A machine without credentials, profile, region or cluster."""
    for name in ("AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION", "AWS_DEFAULT_REGION",
                 "AWS_SESSION_TOKEN", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "KUBECONFIG"):  # fmt: skip
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "absent"))
    return {"HOME": str(tmp_path)}


def test_list(capsys):
    """Every alarm with its severity, where there is one, and its meaning."""
    assert main(["list"], {}, PROJECT) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert [line.split()[0] for line in out.splitlines()[1:] if not line.startswith(" ")] == NAMES
    assert "page" in out
    assert max(map(len, out.splitlines())) <= 120
    assert main(["list", "--json"], {}, PROJECT) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["alarm"] for row in rows] == NAMES
    assert {row["severity"] for row in rows} == {"page", "ticket"}


@pytest.mark.parametrize("alarm", NAMES)
def test_show(alarm, capsys):
    """A page with the stack's names filled in leaves no name open; without a stack it is the page as it is."""
    site = f"eagle3-dev-{stacks_of(alarm)[0]}"
    assert main(["show", alarm, "--site", site], {}, PROJECT) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"# {alarm}\n")
    assert site in out
    assert "SITE" not in out
    assert "$DIMENSION" not in out
    assert main(["show", alarm], {}, PROJECT) == 0
    assert capsys.readouterr().out == (PROJECT / "docs" / "runbooks" / f"{alarm}.md").read_text(encoding="utf-8")


def test_filling_in_is_what_a_shell_does():
    """Whole, in braces, and cut to a length; longer names that begin the same are left alone."""
    text = '"$SITE-a" ${SITE} ${SITE:0:3} $SITES "$DIMENSION"'
    assert filled(text, "abcdef", cluster=False) == (
        '"abcdef-a" abcdef abc $SITES "Name=EndpointName,Value=abcdef-endpoint"'
    )
    assert "Name=ClusterName,Value=abcdef-cluster" in filled(text, "abcdef", cluster=True)


BAD = {
    ("diagnose", "queue-growin"): "no alarm 'queue-growin'; the nearest is queue-growing",
    ("show", "NO-DATA"): "no alarm 'NO-DATA'; the nearest is no-data",
    ("diagnose", "no-data"): "nothing to look at: AWS: no credentials",
    ("diagnose", "no-data", "--region", "mars"): "--region must be a region's name such as us-east-1; got 'mars'",
    ("diagnose", "no-data", "--profile", "nope"): "The config profile (nope) could not be found",
    ("diagnose", "no-data", "--since", "5"): "--since must be a time from 1m to 14d",
    ("diagnose", "no-data", "--since", "15d"): "--since must be a time from 1m to 14d",
    ("diagnose", "no-data", "--site", "small"): "--site must be a stack's name such as eagle3-dev-small",
    ("diagnose", "no-data", "--site", "Eagle3-dev-small"): "--site must be a stack's name",
    ("diagnose", "pods-unschedulable", "--site", "eagle3-dev-small"): "stack small has no alarm pods-unschedulable",
    ("diagnose", "endpoint-5xx", "--site", "eagle3-dev-large"): "it belongs to: small, medium",
    ("diagnose", "no-data", "--url", "localhost:8080"): "--url must be http://host:port",
    ("diagnose", "no-data", "--url", "http://h:port"): "--url must be http://host:port",
    ("diagnose", "no-data", "--url", "http://key@host"): "--url must be http://host:port",
    ("diagnose", "no-data", "--between-s", "0"): "--between-s must be above 0",
}


@pytest.mark.parametrize("words", BAD, ids=" ".join)
def test_bad_input(words, nobody, capsys):
    """One line that says what, got and allowed; exit code 2; nothing on stdout."""
    assert main(words, nobody, PROJECT) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith("eagle3: ")
    assert BAD[words] in err


def test_ways_that_are_closed_are_said(nobody, capsys):
    """With a server to look at, missing credentials are one thing that was not seen, not the end."""
    words = ["diagnose", "no-data", "--url", "http://127.0.0.1:9", "--between-s", "0.01", "--json"]
    assert main(words, nobody, PROJECT) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["not_seen"][0]["source"] == "AWS"
    assert "no credentials" in report["not_seen"][0]["reason"]
    assert [one["cause"] for one in report["causes"]] == ["the server does not answer"]


STALLED = {
    ("sagemaker", "describe_endpoint"): endpoint(),
    ("cloudwatch", "get_metric_data"): series(QueueDepth=[9.0] * 30, TokensPerSecond=[0.0] * 30),
}


def test_diagnose_in_an_account(nobody, capsys):
    """Causes with their findings and the page's step come first, then what was seen and what was not."""
    with account(STALLED):
        assert main(["diagnose", "queue-growing", "--region", "us-east-1"], nobody, PROJECT) == 0
    out = capsys.readouterr().out
    assert "1. the engine is stalled (shown)" in out
    assert "then: restart that replica" in out
    assert out.index("Causes") < out.index("Seen") < out.index("Could not be looked at")
    assert "eagle3 runbook show queue-growing --site eagle3-dev-small" in out


def test_diagnose_as_json(nobody, capsys):
    """The same as one object, each cause with what shows it."""
    with account(STALLED):
        assert main(["diagnose", "queue-growing", "--region", "us-east-1", "--json"], nobody, PROJECT) == 0
    report = json.loads(capsys.readouterr().out)
    [cause] = report["causes"]
    assert cause["cause"] == "the engine is stalled"
    assert cause["because"][0]["what"] == "TokensPerSecond"
    assert {"alarm", "site", "since", "until", "causes", "findings", "not_seen"} == set(report)


def test_stack_follows_the_alarm():
    """Without --site it is the environment dev's stack that can have the alarm."""
    assert site_named(None, "pods-unschedulable") == ("eagle3-dev-large", "large")
    assert site_named(None, "queue-growing") == ("eagle3-dev-small", "small")
    assert site_named("a-b-medium", "endpoint-5xx") == ("a-b-medium", "medium")


def test_spans():
    """Seconds, minutes, hours and days."""
    assert [span(text) for text in ("90s", "60m", "6h", "2d")] == [
        timedelta(seconds=90), timedelta(hours=1), timedelta(hours=6), timedelta(days=2),
    ]  # fmt: skip
    with pytest.raises(InvalidInputError):
        span("30s")
