"""`python -m infra.estimate`: output, exit codes, regions in columns, and one line for what is wrong."""

from __future__ import annotations

import json
import re
import shlex
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from infra.catalogue.price import Price
from infra.estimate import cli
from infra.estimate.book import Table
from infra.estimate.cli import main
from infra.estimate.live import AskedPrices

TODAY = date(2026, 12, 1)
PAGE = Path(__file__).parents[2] / "docs" / "cost.md"


def run(capsys, *words, environ=None):
    """Exit code, stdout, stderr."""
    code = main(words, environ or {}, TODAY)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def found(capsys, *words, environ=None):
    """The JSON of an estimate."""
    code, out, err = run(capsys, *words, "--json", environ=environ)
    assert (code, err) == (0, "")
    return json.loads(out)


@pytest.mark.parametrize("stack", ["small", "medium", "large"])
def test_text_has_lines_total_assumptions_and_comparison(capsys, stack):
    """Everything that a reader needs to trust or doubt the number, the days of the prices and what is missing too."""
    code, out, err = run(capsys, stack)
    assert (code, err) == (0, "")
    for expected in (
        f"{stack} in us-east-1", "unit price", "total ", "no public price", "Assumed", "region us-east-1; 730 hours",
        "prices of 2024-07-01 to 2026-11-30", "Published range", "on demand, all hours", "hours a day",
    ):  # fmt: skip
        assert expected in out


def test_json_names_the_source_of_each_price(capsys):
    """Lines add up to the total; each has the day and name of its price's source, or says that it has none."""
    made = found(capsys, "large")
    known = [line for line in made["lines"] if line["usd_per_month"] is not None]
    assert sum(line["usd_per_month"] for line in known) == pytest.approx(made["usd_per_month"], abs=0.2)
    assert all(line["source"].split(", ")[-1].count("-") == 2 for line in known)
    assert {line["item"] for line in made["lines"]} - {line["item"] for line in known} == set(made["lacking"])
    assert made["usd_per_month_all_spot"] < made["usd_per_month"] < made["usd_per_month_no_spot"]
    assert not any(line["live"] for line in made["lines"])


def test_settings_of_environment_and_overrides_count(capsys):
    """--environment, --set, EAGLE3KIT_ENVIRONMENT and EAGLE3KIT_SET, the flags above the variables."""
    dev, prod = found(capsys, "large"), found(capsys, "large", "--environment", "prod")
    assert prod["subtotals"]["network"] > dev["subtotals"]["network"]  # three zones, NAT in each
    by_variable = found(capsys, "large", environ={"EAGLE3KIT_ENVIRONMENT": "prod"})
    assert by_variable["usd_per_month"] == prod["usd_per_month"]
    one = found(
        capsys, "large", "--set", "large.network.nat=single", environ={"EAGLE3KIT_SET": "alarms.emails=[a@b.c]"}
    )
    assert any(line["item"] == "NAT gateways" and line["quantity"] == 1 for line in one["lines"])


def test_tokens_are_priced_at_a_throughput(capsys):
    """A thousand tokens a second in every hour: the month's cost over 2,628 million tokens."""
    made = found(capsys, "medium", "--tokens-per-second", "1000")
    assert made["usd_per_million_output_tokens"] == pytest.approx(made["usd_per_month"] / 2628, rel=1e-4)
    assert "USD for a million output tokens at 1000 tokens a second" in run(
        capsys, "medium", "--tokens-per-second", "1000"
    )[1]  # fmt: skip
    assert found(capsys, "medium")["usd_per_million_output_tokens"] is None


def test_regions_are_columns(capsys):
    """A column a region, unknown prices marked, and a total of what has a price in each."""
    code, out, err = run(capsys, "large", "--regions", "us-east-1,us-west-2")
    assert (code, err) == (0, "")
    head = next(line for line in out.splitlines() if "us-east-1" in line)
    assert head.split() == ["us-east-1", "us-west-2"]
    assert "unknown" in out
    assert "total of what has a price in each" in out
    assert "us-west-2: total, without" in out
    both = found(capsys, "large", "--regions", "us-east-1, us-west-2")
    assert [made["region"] for made in both] == ["us-east-1", "us-west-2"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["small", "--regions", "us-east-1,eu-west-1"], "no public on-demand price of ml.g5.xlarge in eu-west-1"),
        (["large", "--regions", "us-east-1,us-east-2"], "us-east-2 does not offer p4de.24xlarge"),
        (["small", "--regions", "us-east-1,us-eest-1"], "AWS has no region 'us-eest-1'; nearest: us-"),
        (["small", "--regions", "us-east-1,"], "--regions must be different regions"),
        (["small", "--regions", "us-east-1,us-east-1"], "--regions must be different regions"),
        (["small", "--hours-per-day", "0"], "--hours-per-day must be above 0"),
        (["small", "--hours-per-day", "nan"], "--hours-per-day must be above 0"),
        (["large", "--spot-share", "1.5"], "--spot-share must be 0 to 1"),
        (["small", "--spot-share", "0.5"], "--spot-share must be 0 for small"),
        (["large", "--machines", "0"], "--machines must be 1 at least"),
        (["small", "--tokens-per-second", "0"], "--tokens-per-second must be a number above 0"),
        (["small", "--tokens-per-second", "inf"], "--tokens-per-second must be a number above 0"),
        (["small", "--environment", "nowhere"], "no environment 'nowhere'"),
        (["small", "--set", "small.unknown=1"], "small.unknown"),
    ],
)
def test_what_is_wrong_is_one_line(capsys, words, message):
    """Exit code 2, nothing on stdout, one line that says what is wrong."""
    code, out, err = run(capsys, *words)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert err.startswith("eagle3: ")
    assert message in err


def test_live_without_credentials_is_one_line(capsys, monkeypatch):
    """No keys anywhere: exit code 2, one line, no number."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, "/nonexistent")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    code, out, err = run(capsys, "small", "--live")
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert "Unable to locate credentials" in err
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    code, out, err = run(capsys, "small", "--live")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "nobody" in err


def test_live_prices_are_marked(capsys, monkeypatch):
    """Lines whose price AWS gave have a star, and say live in JSON; the others do not."""

    class Live(AskedPrices):
        def _ask(self, item, region, purchase):
            if (item, purchase) != ("ml.g5.xlarge", "on-demand"):
                return None
            return Price(item=item, region=region, purchase=purchase, unit="hour", usd=2.0, source=self._source)

    monkeypatch.setattr(cli, "_asked", lambda: Live(None, Table(), datetime(2026, 12, 1, tzinfo=UTC)))
    made = found(capsys, "small", "--live")
    assert [line["item"] for line in made["lines"] if line["live"]] == ["endpoint: ml.g5.xlarge"]
    assert made["usd_per_month"] > 2.0 * 730
    out = run(capsys, "small", "--live")[1]
    assert "2 a hour*" in out
    assert "* asked of AWS just now" in out


def test_bad_words_are_refused(capsys):
    """An unknown stack or commitment: exit code 2, nothing on stdout."""
    for words in (["bootstrap"], ["small", "--commitment", "2y"], []):
        with pytest.raises(SystemExit) as leaving:
            main(words, {}, TODAY)
        assert leaving.value.code == 2
        assert capsys.readouterr().out == ""


def rows_of_levers():
    """Commands of the page's table with the total and the saving that it states."""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 4 and cells[1].startswith("`eagle3 cost "):
            total, saves = (float(cell.replace(",", "")) if cell else None for cell in cells[2:])
            yield shlex.split(cells[1].strip("`"))[2:], total, saves


def test_levers_of_the_page_save_what_it_says(capsys):
    """docs/cost.md: each command's total, and the difference to the row that has none."""
    rows = list(rows_of_levers())
    assert len(rows) > 10
    base = None
    for words, total, saves in rows:
        usd = found(capsys, *words)["usd_per_month"]
        assert usd == pytest.approx(total, abs=0.51), words
        if saves is None:
            base = usd
        else:
            assert base - usd == pytest.approx(saves, abs=0.51), words


def test_page_states_the_ranges_as_computed(capsys):
    """The shares, hours and budget of docs/cost.md are those of the command."""
    text = " ".join(PAGE.read_text(encoding="utf-8").split())
    holds = " ".join(found(capsys, "large")["public_range"]["holds"])
    for number in re.findall(r"spot share of (\d+)% to (\d+)%", holds):
        assert f"spot share of {number[0]} % to {number[1]} %" in text
    [hours] = re.findall(r"holds at ([\d.]+ to [\d.]+ hours a day)", holds)
    assert hours in text
    [budget] = re.findall(r"4 need ([\d,]+)", holds)
    assert f"a budget of {budget} USD" in text
