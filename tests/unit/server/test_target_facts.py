from __future__ import annotations

from pathlib import Path

import pytest

from builders import TINY_CONFIG, tiny_tensors, write_checkpoint, write_gguf
from eagle3.config.deployment import DeploymentConfig, parse_config
from eagle3.errors import WeightsError
from eagle3.server.announcement import ready, starting
from eagle3.server.target_facts import TargetFacts, read_facts


def config(target: Path, **serving: str) -> DeploymentConfig:
    return parse_config({"target": str(target), "draft": None, "serving": serving}, source="test")


def test_facts_come_from_the_config_alone(tmp_path: Path) -> None:
    """Name, context and vocabulary are known although no weights are there."""
    path = write_checkpoint(tmp_path / "my-model")
    (path / "model.safetensors").unlink()
    assert read_facts(config(path)) == TargetFacts(name="my-model", context_tokens=64, vocab_size=40)
    assert read_facts(config(path, model_name="other")).name == "other"


def test_facts_of_a_gguf_file(tmp_path: Path) -> None:
    """The file's name is the model's."""
    path = write_gguf(tmp_path / "small.Q8.gguf", "llama", TINY_CONFIG, tiny_tensors(TINY_CONFIG))
    assert read_facts(config(path)) == TargetFacts(name="small.Q8", context_tokens=64, vocab_size=40)


def test_a_missing_target_is_refused(tmp_path: Path) -> None:
    """Before anything is started."""
    with pytest.raises(WeightsError, match="does not exist"):
        read_facts(config(tmp_path / "absent"))


def test_the_announcement_says_what_runs(tmp_path: Path) -> None:
    """Engine, target, tree, limits, access and address; without a draft, plain decoding."""
    facts = TargetFacts(name="m", context_tokens=64, vocab_size=40)
    plain = "\n".join(starting(config(tmp_path), facts, address="http://h:1", keys=None))
    for part in (
        "native",
        "64 tokens of context",
        "plain decoding",
        "tree     none",
        "256 waiting",
        "open to everyone",
    ):
        assert part in plain
    drafted = "\n".join(starting(DeploymentConfig(), facts, address="http://h:1", keys=3))
    for part in ("embedded", "depth 3, top-k 4, 6 nodes", "3 API keys", "http://h:1"):
        assert part in drafted
    assert ready(None, 1.0) == ["ready after 1.0 s: the engine"]
