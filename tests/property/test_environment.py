"""A config survives the way through environment variables."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from eagle3.config.deployment import DeploymentConfig, parse_config
from eagle3.config.engine import EngineSettings
from eagle3.config.environment import environment_values, to_environment
from eagle3.config.layers import layered_config
from eagle3.config.limits import Limits
from eagle3.config.serving import MetricsSettings, Serving
from eagle3.config.speculation import Speculation

texts = st.one_of(
    st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=12),
    st.sampled_from(["null", "", " ", '"', '"null"', "NULL", " null", "[]", "0", "true", "embedded", "a\nb"]),
)
names = texts.filter(bool)
positive = st.floats(min_value=0, exclude_min=True, allow_nan=False)
count = st.integers(1, 1024)


def optional(strategy):
    return st.none() | strategy


configs = st.builds(
    DeploymentConfig,
    target=texts,
    draft=optional(texts),
    dtype=st.sampled_from(["float32", "bfloat16", "float16"]),
    device=texts,
    threads=optional(count),
    speculation=st.builds(
        Speculation,
        depth=st.integers(1, 32),
        top_k=st.integers(1, 64),
        nodes=count,
        drafters=st.sampled_from([("eagle3",), ("suffix",), ("eagle3", "suffix"), ("suffix", "eagle3")]),
        suffix_min_match=st.integers(1, 64),
        suffix_tokens=st.integers(1, 32),
        off_threshold=optional(count),
    ),
    engine=st.builds(
        EngineSettings,
        name=st.sampled_from(["native", "vllm", "sglang"]),
        cache_tokens=optional(st.integers(64, 2**70)),
        prefix_reuse=st.booleans(),
        executable=optional(texts),
        arguments=st.lists(texts, max_size=3).map(tuple),
        start_timeout_s=positive,
    ),
    limits=st.builds(Limits, concurrency=count, queue=st.integers(0, 9), max_prompt_tokens=optional(count)),
    serving=st.builds(
        Serving,
        host=texts,
        model_name=optional(names),
        api_keys_file=optional(names.map(Path)),
        log_level=st.sampled_from(["DEBUG", "ERROR"]),
        tracing_endpoint=optional(texts),
    ),
    metrics=st.builds(
        MetricsSettings, interval_s=positive, namespace=names, dimensions=st.dictionaries(texts, texts, max_size=3)
    ),
)


@given(config=configs)
def test_a_config_survives_its_environment(config):
    """For any config: its variables parse back to it, alone and as a layer over the defaults."""
    environ = to_environment(config)
    assert parse_config(environment_values(environ), source="test") == config
    assert layered_config(None, environ | {"HOME": "/root"}, {}) == config
    assert all(isinstance(text, str) and "\0" not in text for text in environ.values())
