"""EAGLE3_* variables: names, types, what is refused, and the way back."""

from __future__ import annotations

from pathlib import Path

import pytest

from eagle3.config.deployment import DeploymentConfig, parse_config
from eagle3.config.environment import environment_values, to_environment, variables
from eagle3.config.serving import MetricsSettings
from eagle3.errors import ConfigError


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("EAGLE3_TARGET", "/models/llama", {"target": "/models/llama"}),
        ("EAGLE3_TARGET", "null", {"target": "null"}),
        ("EAGLE3_DRAFT", "null", {"draft": None}),
        ("EAGLE3_DRAFT", "", {"draft": None}),
        ("EAGLE3_DRAFT", '"null"', {"draft": "null"}),
        ("EAGLE3_DRAFT", "/d", {"draft": "/d"}),
        ("EAGLE3_THREADS", "4", {"threads": 4}),
        ("EAGLE3_THREADS", "", {"threads": None}),
        ("EAGLE3_SPECULATION__DEPTH", "3", {"speculation": {"depth": 3}}),
        ("EAGLE3_SPECULATION__OFF_THRESHOLD", "null", {"speculation": {"off_threshold": None}}),
        ("EAGLE3_LIMITS__QUEUE", "0", {"limits": {"queue": 0}}),
        ("EAGLE3_LIMITS__TIMEOUT_S", "2.5", {"limits": {"timeout_s": 2.5}}),
        ("EAGLE3_ENGINE__PREFIX_REUSE", "false", {"engine": {"prefix_reuse": False}}),
        ("EAGLE3_ENGINE__ARGUMENTS", '["--seed", "3"]', {"engine": {"arguments": ("--seed", "3")}}),
        ("EAGLE3_SERVING__API_KEYS_FILE", "/run/keys", {"serving": {"api_keys_file": Path("/run/keys")}}),
        ("EAGLE3_METRICS__DIMENSIONS", '{"EndpointName":"x"}', {"metrics": {"dimensions": {"EndpointName": "x"}}}),
    ],
)
def test_text_is_read_by_the_type_of_the_setting(name, text, expected):
    """Each kind of setting arrives typed below its own key, and nothing else does."""
    assert environment_values({name: text, "PATH": "/bin", "EAGLE3": "x", "eagle3_target": "y"}) == expected


def test_variables_of_several_sections_come_together():
    """Settings of one section are merged; no variable at all gives nothing."""
    values = environment_values(
        {"EAGLE3_SPECULATION__DEPTH": "3", "EAGLE3_SPECULATION__NODES": "9", "EAGLE3_DTYPE": "bfloat16"}
    )
    assert values == {"dtype": "bfloat16", "speculation": {"depth": 3, "nodes": 9}}
    assert environment_values({}) == {}


def test_there_is_a_variable_for_every_setting():
    """Every leaf of the schema has one variable with a description; names are distinct."""
    names = [variable.name for variable in variables()]
    assert len(set(names)) == len(names)
    assert {"EAGLE3_TARGET", "EAGLE3_ENGINE__NAME", "EAGLE3_SERVING__PORT", "EAGLE3_METRICS__EMF"} <= set(names)
    assert all(variable.description for variable in variables())
    sections = [value for value in DeploymentConfig().model_dump().values() if isinstance(value, dict)]
    assert len(names) == len(DeploymentConfig.model_fields) - len(sections) + sum(len(section) for section in sections)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("EAGLE3_SPECULATION__DEPTH", "0", r"^EAGLE3_SPECULATION__DEPTH: .*greater than or equal to 1.*got '0'"),
        ("EAGLE3_SPECULATION__DEPTH", "", r"^EAGLE3_SPECULATION__DEPTH: .*integer.*got ''"),
        ("EAGLE3_SPECULATION__DEPTH", "null", "^EAGLE3_SPECULATION__DEPTH: .*integer"),
        ("EAGLE3_DTYPE", "int8", r"^EAGLE3_DTYPE: .*'float32', 'bfloat16' or 'float16'; got 'int8'"),
        ("EAGLE3_LIMITS__TIMEOUT_S", "nan", "^EAGLE3_LIMITS__TIMEOUT_S: "),
        ("EAGLE3_ENGINE__PREFIX_REUSE", "perhaps", "^EAGLE3_ENGINE__PREFIX_REUSE: .*boolean"),
        ("EAGLE3_ENGINE__ARGUMENTS", "--seed 3", r"^EAGLE3_ENGINE__ARGUMENTS: must be JSON.*got '--seed 3'"),
        ("EAGLE3_ENGINE__ARGUMENTS", "[3]", r"^EAGLE3_ENGINE__ARGUMENTS: .*string; got 3"),
        ("EAGLE3_METRICS__DIMENSIONS", "[]", "^EAGLE3_METRICS__DIMENSIONS: .*dictionary"),
        ("EAGLE3_METRICS__DIMENSIONS", '{"a": 1}', "^EAGLE3_METRICS__DIMENSIONS: .*string; got 1"),
        ("EAGLE3_METRICS__DIMENSIONS", "[" * 50_000, "^EAGLE3_METRICS__DIMENSIONS: must be JSON"),
        ("EAGLE3_DRAFT", '"x', "^EAGLE3_DRAFT: must be JSON"),
    ],
)
def test_bad_text_names_its_variable(name, text, message):
    """Wrong types, values out of range and broken JSON say which variable, what was got and what is allowed."""
    with pytest.raises(ConfigError, match=message):
        environment_values({name: text})


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("EAGLE3_TARGT", "EAGLE3_TARGET"),
        ("EAGLE3_SPECULATION_DEPTH", "EAGLE3_SPECULATION__DEPTH"),
        ("EAGLE3_PORT", "EAGLE3_SERVING__PORT"),
        ("EAGLE3_speculation__depth", "EAGLE3_SPECULATION__DEPTH, "),
        ("EAGLE3_", "EAGLE3_"),
        ("EAGLE3_SPECULATION", "EAGLE3_SPECULATION__"),
        ("EAGLE3_METRICS__DIMENSIONS__ENDPOINTNAME", "EAGLE3_METRICS__DIMENSIONS"),
    ],
)
def test_unknown_names_are_errors_with_the_nearest(name, nearest):
    """A misspelt variable is never ignored: the nearest allowed names are listed."""
    with pytest.raises(ConfigError, match=rf"^{name} is no setting; nearest: {nearest}"):
        environment_values({name: "8080"})


def test_links_of_kubernetes_are_no_settings():
    """What Kubernetes adds beside a Service called eagle3 is left alone; the same names with other values are not."""
    links = {
        "EAGLE3_SERVICE_HOST": "10.0.0.1",
        "EAGLE3_SERVICE_PORT": "8080",
        "EAGLE3_SERVICE_PORT_HTTP": "8080",
        "EAGLE3_PORT": "tcp://10.0.0.1:8080",
        "EAGLE3_PORT_8080_TCP": "tcp://10.0.0.1:8080",
        "EAGLE3_PORT_8080_TCP_PROTO": "tcp",
        "EAGLE3_PORT_8080_TCP_PORT": "8080",
        "EAGLE3_PORT_8080_TCP_ADDR": "10.0.0.1",
        "EAGLE3_CANARY_SERVICE_HOST": "10.0.0.2",
        "EAGLE3_CANARY_PORT": "tcp://10.0.0.2:80",
    }
    assert environment_values(links | {"EAGLE3_THREADS": "2"}) == {"threads": 2}
    for name in ("EAGLE3_PORT", "EAGLE3_PORT_8080_TCP", "EAGLE3_CANARY_PORT"):
        with pytest.raises(ConfigError, match=name):
            environment_values({name: "8080"})


def test_the_way_back_says_only_what_differs():
    """The default config needs no variable; each changed setting gives exactly its own."""
    assert to_environment(DeploymentConfig()) == {}
    config = DeploymentConfig(
        draft=None, threads=3, metrics=MetricsSettings(dimensions={"EndpointName": "é"}, interval_s=5)
    )
    assert to_environment(config) == {
        "EAGLE3_DRAFT": "null",
        "EAGLE3_THREADS": "3",
        "EAGLE3_METRICS__INTERVAL_S": "5.0",
        "EAGLE3_METRICS__DIMENSIONS": '{"EndpointName": "\\u00e9"}',
    }


def test_the_way_back_keeps_the_draft_of_ones_own_target():
    """Beside a target of one's own the draft is always said: the reader's default would be another."""
    assert to_environment(DeploymentConfig(target="m")) == {"EAGLE3_TARGET": "m", "EAGLE3_DRAFT": "embedded"}
    assert to_environment(DeploymentConfig(target="m", draft=None)) == {"EAGLE3_TARGET": "m", "EAGLE3_DRAFT": "null"}


def test_what_no_environment_can_hold_is_refused():
    """A NUL character ends a variable in C; it is an error instead of a shorter path."""
    with pytest.raises(ConfigError, match="target holds a NUL"):
        to_environment(parse_config({"target": "a\0b"}, source="test"))
