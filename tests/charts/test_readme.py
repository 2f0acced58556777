"""The charts' READMEs tell what values.yaml says, and every value has its comment."""

from __future__ import annotations

import json
import re

import pytest
import yaml

from chart_doubles import CHARTS, render, values_file
from charts.describe import BEGIN, END, chart_folders, chart_values, described, table

NAMES = [folder.name for folder in chart_folders()]


def text(name, file="values.yaml"):
    return (CHARTS / name / file).read_text(encoding="utf-8")


def test_both_charts_are_described():
    """Every folder with a Chart.yaml is a chart that has a README."""
    assert NAMES == ["eagle3", "eagle3-nodepools"]


@pytest.mark.parametrize("name", NAMES)
def test_readme_is_in_step_with_values(name):
    """The table is what `python charts/describe.py` writes; a changed default or comment makes them differ."""
    readme, values = text(name, "README.md"), text(name)
    assert described(readme, values) == readme
    assert described(readme, values.replace("# -- ", "# -- Not ", 1)) != readme


@pytest.mark.parametrize("name", NAMES)
def test_every_value_has_a_comment(name):
    """Each key of values.yaml is described by a `# --` comment, or is a mapping whose keys are."""
    values = chart_values(text(name))
    assert [value.path for value in values if len(value.description) < 8] == []
    assert len(values) > 15


@pytest.mark.parametrize("name", NAMES)
def test_schema_knows_every_value(name):
    """Every key of values.yaml is in values.schema.json, and every section there refuses unknown keys."""
    schema = json.loads(text(name, "values.schema.json"))
    assert schema["additionalProperties"] is False
    for value in chart_values(text(name)):
        place = schema
        for key in value.path.split("."):
            if "properties" not in place:
                break
            assert key in place["properties"], value.path
            assert place.get("additionalProperties") is False, value.path
            place = place["properties"][key]


@pytest.mark.parametrize("name", NAMES)
def test_defaults_fit_their_own_schema(name):
    """Each default is one that the schema takes when it is given again by hand."""
    values = yaml.safe_load(text(name))
    if name == "eagle3-nodepools":
        values |= values_file("values-example.yaml", chart=name)
    assert render(values, chart=name).objects


@pytest.mark.parametrize("name", NAMES)
def test_files_that_the_readme_names_exist(name):
    """Links of the README lead to files."""
    links = re.findall(r"\]\(([^)#:]+)\)", text(name, "README.md"))
    assert links
    assert [link for link in links if not (CHARTS / name / link).exists()] == []


def test_a_table_is_made_of_comments():
    """Sections, lists, comments of several lines and bars; what has no comment has no row."""
    values = (
        "# Not a description.\n\na:\n  # -- First | second\n  # line\n  b: 3\n  c: {}\n# -- Whole\nd:\n  e: 1\n"
        "# -- List\nf:\n  - 1\n# -- Section\ng:\n  # -- Inner\n  h: null\n"
    )
    assert table(values).splitlines()[2:] == [
        "| `a.b` | `3` | First \\| second line |",
        '| `d` | `{"e": 1}` | Whole |',
        "| `f` | `[1]` | List |",
        "| `g` |  | Section |",
        "| `g.h` | `null` | Inner |",
    ]
    assert [value.path for value in chart_values(values) if not value.description] == ["a.c"]


def test_readme_without_marks_is_refused():
    """A README that lost a mark is an error, and not overwritten."""
    assert described(f"a\n{BEGIN}\nold\n{END}\nb", "# -- What it is\na: 1\n").count("old") == 0
    for broken in ("a", f"{BEGIN}\n", f"{BEGIN}{BEGIN}{END}"):
        with pytest.raises(ValueError, match="once each"):
            described(broken, "a: 1")
