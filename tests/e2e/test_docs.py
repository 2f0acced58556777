"""Every Markdown file of the project: its links lead somewhere, and its commands are ones that exist.

`tests/e2e/test_readme.py` runs the README's commands; here nothing is run but parsers and help.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import yaml

from command_checks import problems
from documents import DOCUMENTS, ROOT, commands_of, document, parsed
from infra.settings.load import load_settings
from infra.settings.root import Settings

NAMES = [str(path.relative_to(ROOT)) for path in DOCUMENTS]
FOLDERS = r"(infra|docs|charts|runtime|tests|images|requirements)/[\w./-]+"


def broken_link(target: str, path: Path) -> str | None:
    """What is wrong with a link of a file; None for addresses of others, which are not asked."""
    parts = urlsplit(target)
    if parts.scheme or parts.netloc:
        return None
    place = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if not place.exists():
        return f"{target}: no such file"
    if not parts.fragment or place.suffix != ".md":
        return None
    return None if parts.fragment in document(place).anchors else f"{target}: no such heading"


@pytest.mark.parametrize("path", DOCUMENTS, ids=NAMES)
def test_links_lead_somewhere(path):
    """Every relative link and image names a file that is there, and every #anchor a heading of its file."""
    assert [fault for link in document(path).links if (fault := broken_link(link, path))] == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=NAMES)
def test_commands_exist(path):
    """Every command of eagle3, make, cdktf, python and aws has its parts: subcommands, flags, targets, stacks."""
    found = [(str(command), problems(command, folder=path.parent)) for command in document(path).commands]
    assert [(command, wrong) for command, wrong in found if wrong] == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=NAMES)
def test_files_that_are_named_exist(path):
    """Code in a sentence that begins like a path of the project is one."""
    named = [code for code in document(path).codes if re.fullmatch(FOLDERS, code)]
    near = (ROOT, ROOT / "runtime/eagle3", path.parent)
    assert [code for code in named if not any((place / code).exists() for place in near)] == []


def settings_blocks():
    """YAML blocks that hold nothing but settings of the stacks."""
    for path, name in zip(DOCUMENTS, NAMES, strict=True):
        for number, (language, block) in enumerate(document(path).fences):
            values = yaml.safe_load(block) if language == "yaml" else None
            if isinstance(values, dict) and set(values) <= set(Settings.model_fields):
                yield pytest.param(values, id=f"{name} {number}")


@pytest.mark.parametrize("values", list(settings_blocks()))
def test_settings_in_blocks_load(values, tmp_path):
    """A YAML block of settings is an environment that the schema takes."""
    file = tmp_path / "environment.yaml"
    file.write_text(yaml.safe_dump(values), encoding="utf-8")
    assert load_settings(str(file))


def test_the_documents_are_read():
    """All kinds of files are among them, with commands; empty lists would make the tests above say nothing."""
    assert {"README.md", "CONTRIBUTING.md", "docs/operate.md", "charts/eagle3/README.md"} <= set(NAMES)
    assert sum(name.startswith("docs/runbooks/") for name in NAMES) > 10
    for kind in ("eagle3", "make", "npx", "aws"):
        assert sum(command.words[:1] == (kind,) for path in DOCUMENTS for command in document(path).commands) > 3, kind
    assert len(list(settings_blocks())) >= 3


@pytest.mark.parametrize(
    "link", ["docs/none.md", "README.md#no-such-heading", "#no-such-heading", "docs/glossary.md#target"]
)
def test_a_dead_link_is_found(link):
    """Neither a file, nor a heading here or elsewhere; a word in bold is no heading."""
    assert broken_link(link, ROOT / "README.md")


@pytest.mark.parametrize("link", ["https://example.com/x", "docs", "docs/glossary.md#models", "#serve", "LICENSE"])
def test_a_live_link_is_not(link):
    """Folders, files, headings; addresses of others are not asked."""
    assert broken_link(link, ROOT / "README.md") is None


@pytest.mark.parametrize(
    "line",
    [
        "eagle3 nothing", "eagle3 serve --no-such-flag", "eagle3 rehearse tiny", "make nothing", "make image SIZE=3",
        "npx cdktf deploy tiny", "python -m infra.nothing", "python charts/nothing.py", "aws s3 burn",
        "aws sagemaker describe-endpoint --endpoint x", "EAGLE3KIT_SET='large.network.nat=maybe' make synth",
        "cd x && .venv/bin/eagle3 nothing | head", "EAGLE3KIT_ENVIRONMENT=moon npx cdktf deploy small",
    ],
)  # fmt: skip
def test_a_made_up_command_is_found(line):
    """In a block, and where it can be told in a sentence too."""
    assert any(problems(command) for command in commands_of(line))


@pytest.mark.parametrize(
    "line",
    [
        "eagle3 rehearse small", "make image IMAGE=cuda", "make rehearse STACK=large  # a comment", "ls | grep x > y",
        "npx --no-install cdktf synth", "python -m infra.settings.describe", "aws logs tail /x --since 1h",
        "EAGLE3KIT_SET='large.network.nat=single;\n alarms.emails=[a@b.c]' npx cdktf deploy large",
        "aws sagemaker describe-endpoint \\\n  --endpoint-name x --query y", 'X=$(aws sts get-caller-identity)',
    ],
)  # fmt: skip
def test_a_real_command_is_not(line):
    """Comments, pipes, continued lines, assignments and substitutions are read as a shell reads them."""
    assert [problems(command) for command in commands_of(line) if problems(command)] == []


@pytest.mark.skipif(shutil.which("npx") is None, reason="npx is not installed")
@pytest.mark.parametrize("line", ["npx cdktf explode small", "npx cdktf deploy small --no-such-flag"])
def test_a_made_up_command_of_cdktf_is_found(line):
    """The real command line's help says what there is."""
    assert any(problems(command) for command in commands_of(line))


@pytest.mark.parametrize(
    ("code", "wrong"),
    [
        ("`eagle3 rehearse small|medium`", False), ("`eagle3 rehearse small|tiny`", True), ("`eagle3 serve`", False),
        ("`eagle3 draft doctor`", False), ("`eagle3 draft nurse`", True), ("`eagle3 serve --config`", False),
        ("`eagle3 serve --conf`", True), ("`make run`", False), ("`make walk`", True), ("`eagle3 …`", False),
        ("`eagle3 runbook diagnose ALARM`", False), ("`cdktf destroy tiny`", True), ("`it's`", False),
    ],
)  # fmt: skip
def test_commands_in_sentences(code, wrong):
    """Required arguments may be left out and placeholders may stand in capitals; names must be right."""
    assert any(problems(command) for command in parsed(code).commands) is wrong


def test_headings_become_anchors_as_on_github():
    """Lower case, no punctuation, hyphens for blanks, a number where two are the same."""
    text = "# One: `two` & Three\n\n## A/B-test\n\n## A/B-test\n"
    assert parsed(text).anchors == {"one-two--three", "ab-test", "ab-test-1"}
