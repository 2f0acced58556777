"""Which source of a setting wins, and that every error names its source."""

from __future__ import annotations

import pytest

from eagle3.config.deployment import DeploymentConfig
from eagle3.config.layers import layered_config
from eagle3.config.speculation import Speculation
from eagle3.errors import ConfigError


def written(tmp_path, text):
    path = tmp_path / "run.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_flags_over_environment_over_file_over_defaults(tmp_path):
    """Each key comes from the nearest source that names it; sections are merged key by key."""
    config = layered_config(
        written(tmp_path, "threads: 1\ndtype: bfloat16\ndevice: cuda\nspeculation: {depth: 2, top_k: 2, nodes: 2}\n"),
        {"EAGLE3_THREADS": "2", "EAGLE3_DTYPE": "float16", "EAGLE3_SPECULATION__TOP_K": "3",
         "EAGLE3_SPECULATION__NODES": "3"},
        {"threads": 3, "speculation": {"nodes": 4}},
    )  # fmt: skip
    assert (config.threads, config.dtype, config.device) == (3, "float16", "cuda")
    assert config.speculation == Speculation(depth=2, top_k=3, nodes=4)
    assert config.limits == DeploymentConfig().limits


def test_no_source_gives_the_defaults():
    """Without file, variables and flags the config is the library's."""
    assert layered_config(None, {"HOME": "/root"}, {}) == DeploymentConfig()


def test_a_mapping_that_is_one_setting_is_replaced_whole(tmp_path):
    """Dimensions of the environment take the place of those of the file; they are not mixed."""
    path = written(tmp_path, "metrics: {namespace: A, dimensions: {a: '1', b: '2'}}\n")
    config = layered_config(path, {"EAGLE3_METRICS__DIMENSIONS": '{"c": "3"}'}, {})
    assert (config.metrics.namespace, config.metrics.dimensions) == ("A", {"c": "3"})


def test_null_of_a_nearer_source_wins_over_a_value(tmp_path):
    """Null is a value: the environment can switch off what the file set."""
    path = written(tmp_path, "threads: 4\ndraft: d\n")
    config = layered_config(path, {"EAGLE3_THREADS": "null", "EAGLE3_DRAFT": ""}, {})
    assert (config.threads, config.draft) == (None, None)


OWN = "m"


@pytest.mark.parametrize(
    ("file", "environ", "flags", "draft"),
    [
        ("target: m", {}, {}, None),
        ("", {"EAGLE3_TARGET": OWN}, {}, None),
        ("", {}, {"target": OWN}, None),
        ("target: m\ndraft: d", {}, {}, "d"),
        ("target: m", {"EAGLE3_DRAFT": "d"}, {}, "d"),
        ("target: m", {}, {"draft": "d"}, "d"),
        ("draft: d", {"EAGLE3_TARGET": OWN}, {}, "d"),
        ("draft: embedded", {"EAGLE3_TARGET": OWN}, {}, None),
        ("draft: embedded", {}, {"target": OWN}, None),
        ("", {"EAGLE3_DRAFT": "embedded"}, {"target": OWN}, None),
        ("target: m\ndraft: embedded", {}, {}, "embedded"),
        ("target: m", {"EAGLE3_DRAFT": "embedded"}, {}, "embedded"),
        ("", {}, {"target": OWN, "draft": "embedded"}, "embedded"),
        ("target: m", {}, {"target": "embedded"}, "embedded"),
        ("target: m", {"EAGLE3_TARGET": "embedded"}, {}, "embedded"),
        ("", {"EAGLE3_TARGET": OWN, "EAGLE3_DRAFT": "null"}, {}, None),
    ],
)
def test_a_target_of_ones_own_has_no_default_draft_in_any_source(tmp_path, file, environ, flags, draft):
    """The embedded draft is used beside another target only where it is asked for together with it or nearer."""
    path = written(tmp_path, file + "\n") if file else None
    assert layered_config(path, environ, flags).draft == draft


@pytest.mark.parametrize(
    ("file", "environ", "flags", "message"),
    [
        ("threads: 0", {}, {}, r"run\.yaml: threads: .*got 0"),
        ("threads: 1", {"EAGLE3_THREADS": "0"}, {}, r"^EAGLE3_THREADS: .*got '0'"),
        ("threads: 1", {"EAGLE3_THREADS": "1"}, {"threads": 0}, r"^--threads: .*got 0"),
        ("threads: 1", {}, {"speculation": {"depth": 99}}, r"^--tree-depth: .*got 99"),
        ("threads: 1", {}, {"serving": {"port": -1}}, r"^flags: serving\.port: .*got -1"),
        ("threads: 0", {}, {"threads": 1}, r"run\.yaml: threads"),
    ],
)
def test_errors_name_their_source(tmp_path, file, environ, flags, message):
    """The file, the variable or the flag, even where a nearer source would win."""
    names = {"threads": "--threads", "speculation.depth": "--tree-depth"}
    with pytest.raises(ConfigError, match=message):
        layered_config(written(tmp_path, file + "\n"), environ, flags, flag_names=names)
