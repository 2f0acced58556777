"""The deployment config as a JSON schema, for files that are not written in Python."""

from __future__ import annotations

import json
import subprocess
import sys

import jsonschema_rs
import pytest

from eagle3.config.deployment import DeploymentConfig
from eagle3.config.schema import config_defaults, config_schema


def test_the_schema_takes_what_the_config_takes() -> None:
    """Defaults and a partial config are valid; an unknown key, a bound and a null that is not allowed are not."""
    validator = jsonschema_rs.validator_for(config_schema())
    for good in ({}, config_defaults(), {"draft": None}, {"metrics": {"dimensions": {"any": "name"}}}):
        assert validator.is_valid(good)
        DeploymentConfig.model_validate(good)
    for bad in ({"targets": "x"}, {"limits": {"drain": 1}}, {"speculation": {"depth": 0}}, {"target": None}):
        assert not validator.is_valid(bad)
        with pytest.raises(ValueError, match="validation error"):
            DeploymentConfig.model_validate(bad)


def test_the_schema_stands_for_itself() -> None:
    """No reference leads out of it, so it can be put into another schema."""
    text = json.dumps(config_schema())
    assert "$ref" not in text
    assert "$defs" not in text


def test_the_module_prints_both() -> None:
    """The command gives the schema, or the defaults when asked for them."""

    def printed(*arguments: str) -> object:
        command = [sys.executable, "-m", "eagle3.config.schema", *arguments]
        return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    assert printed() == config_schema()
    assert printed("--defaults") == config_defaults()
