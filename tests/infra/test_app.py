"""The app's entry point: what it synthesizes, and what it refuses with one line and exit code 2."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest

from eagle3.errors import ConfigError
from infra.app import STACKS, build_app
from infra.settings.load import load_settings, parse_overrides
from stack_doubles import TODAY, stack

ROOT = Path(__file__).parents[2]


def synthesize_with(overrides, stacks=("small", "medium", "large"), today=TODAY):
    build_app(load_settings("dev", overrides), today=today, stacks=stacks)


@pytest.mark.parametrize("environment", ["dev", "prod"])
@pytest.mark.parametrize("name", list(STACKS))
def test_every_stack_of_every_environment(name, environment):
    """Both environments synthesize, and every resource is named after its stack and environment."""
    made = stack(name, environment)
    assert len(made.every()) > 10
    [tags] = [block["default_tags"][0]["tags"] for block in made.document["provider"]["aws"] if "alias" not in block]
    assert tags["Project"] == f"eagle3-{environment}-{name}"


BAD = [
    ("smal.network.cidr=10.0.0.0/16", "did you mean small"),
    ("small.network.cdir=10.0.0.0/16", "did you mean cidr"),
    ("region=us-eats-1", "us-east-1"),
    ("region=eu-south-2; small.endpoint.instance_type=ml.p4d.24xlarge", "ml.p4d.24xlarge"),
    ("region=eu-south-2", "p4d"),
    ("large.network.cidr=10.0.0.0/20", "too small"),
    ("large.network.cidr=10.0.0.0/16; large.network.peer_cidrs=[10.0.128.0/17]", "overlap"),
    ("large.network.zone_count=1", "greater than or equal to 2"),
    ("large.network.zones=[us-east-1a]", "2 to 6"),
    ("large.cluster.kubernetes_version='1.31'", "1.35"),
    ("large.cluster.kubernetes_version='1.99'", "1.35"),
    ("small.budget.monthly_usd=0", "greater than 0"),
    ("large.budget.monthly_usd=100", "USD"),
    ("small.endpoint.image.tag=latest", "latest"),
    ("small.endpoint.mode=serverless; small.deployment.device=cuda", "GPU"),
    ("small.endpoint={mode: serverless, instance_type: ml.g5.xlarge}", "no instances"),
    (
        "small.deployment.target=meta/llama; small.endpoint={weights: {source: hub}, image: {container: vllm}}",
        "network.nat",
    ),
    ("state.backend=s3", "bootstrap"),
    ("small.endpoint.rollout.strategy=CANARY; small.endpoint.autoscaling.min_instances=1", "CANARY"),
    ("large.pools=[{ami_alias: 'al2023@latest'}]", "pinned"),
]


@pytest.mark.parametrize(("overrides", "words"), BAD, ids=[overrides for overrides, _ in BAD])
def test_bad_settings_are_refused(overrides, words):
    """Each mistake is one error that names what was meant or allowed."""
    with pytest.raises(ConfigError) as caught:
        synthesize_with(overrides)
    assert words in str(caught.value)


def test_version_out_of_support_is_refused_by_the_calendar():
    """The same settings that pass today are refused once the version's standard support has ended."""
    synthesize_with("", stacks=["large"])
    with pytest.raises(ConfigError, match=r"1\.35"):
        synthesize_with("", stacks=["large"], today=date(2027, 4, 1))


@pytest.mark.parametrize("text", ["small", "small.network=", "a b=1", "small.endpoint.image.tag.x=1", "region.x=1"])
def test_malformed_override(text):
    """An override that is no path and value, or that goes below a value, is refused."""
    with pytest.raises(ConfigError):
        load_settings("dev", text)


def test_overrides_are_yaml():
    """Values of overrides are typed as in the file, and reach items of lists."""
    assert parse_overrides("a.b=[1, x]; c=null\nd='1.35'") == {"a.b": [1, "x"], "c": None, "d": "1.35"}
    settings = load_settings("dev", "alarms.emails=[ops@example.com]; small.endpoint.autoscaling.enabled=false")
    assert settings.alarms.emails == ("ops@example.com",)
    assert not settings.small.endpoint.autoscaling.enabled


def test_target_of_ones_own_has_no_draft_unless_named():
    """The embedded draft does not follow another target into its deployment config."""
    assert load_settings("dev", "small.deployment.target=target").small.deployment.draft is None
    named = load_settings("dev", "small.deployment.target=target; small.deployment.draft=draft")
    assert named.small.deployment.draft == "draft"
    assert load_settings("dev").small.deployment.draft == "embedded"


def test_unknown_environment_names_those_there_are():
    """An environment is a file; a wrong name is told the right ones."""
    with pytest.raises(ConfigError, match="dev, prod"):
        load_settings("staging")


def test_environment_file_of_ones_own(tmp_path):
    """Any YAML file can be an environment, merged over the base."""
    path = tmp_path / "mine.yaml"
    path.write_text("environment: mine\nmedium:\n  budget:\n    monthly_usd: 9000\n", encoding="utf-8")
    settings = load_settings(str(path))
    assert settings.medium.budget.monthly_usd == 9000
    assert settings.medium.endpoint.instance_type == "ml.g5.12xlarge"


def run_app(folder, **environ):
    values = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'runtime'}", **environ}
    return subprocess.run(
        [sys.executable, "-m", "infra"],
        cwd=folder,
        env=values,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_command_writes_the_stacks_asked_for(tmp_path):
    """`python -m infra` writes only the stacks that EAGLE3KIT_STACKS names."""
    done = run_app(tmp_path, EAGLE3KIT_STACKS="bootstrap, small")
    assert (done.returncode, done.stderr) == (0, "")
    manifest = json.loads((tmp_path / "cdktf.out" / "manifest.json").read_text(encoding="utf-8"))
    assert set(manifest["stacks"]) == {"bootstrap", "small"}


def test_command_refuses_in_one_line(tmp_path):
    """A bad setting ends the command with exit code 2, one line on stderr, and nothing written."""
    done = run_app(tmp_path, EAGLE3KIT_SET="small.budget.monthly_usd=0")
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert "override small.budget.monthly_usd" in done.stderr
    assert not (tmp_path / "cdktf.out").exists()
    assert run_app(tmp_path, EAGLE3KIT_STACKS="huge").stderr.startswith("eagle3-kit: no stack huge")


def test_command_names_a_framework_that_is_not_there(tmp_path):
    """An unknown framework ends with exit code 2 and the names of those there are."""
    done = run_app(tmp_path, EAGLE3KIT_FRAMEWORK="pulumi")
    assert (done.returncode, len(done.stderr.strip().splitlines())) == (2, 1)
    assert "cdktf, cdktn" in done.stderr


def test_remote_state_is_locked_and_encrypted():
    """With state in S3 the backend has the lock file that cdktf does not know, and the key; bootstrap stays local."""
    overrides = "state={backend: s3, bucket: my-state, kms_key_arn: 'arn:aws:kms:us-east-1:123456789012:key/abc'}"
    backend = stack("small", "dev", overrides).document["terraform"]["backend"]["s3"]
    assert backend["use_lockfile"] is True
    assert backend["encrypt"] is True
    assert backend["key"] == "eagle3/dev/small.tfstate"
    assert "s3" not in stack("bootstrap", "dev", overrides).document["terraform"].get("backend", {})
