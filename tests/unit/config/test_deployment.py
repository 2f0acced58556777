"""Reading the configuration of a run: whatever is wrong is a ConfigError that says where."""

from __future__ import annotations

import pytest

from eagle3.config.deployment import DeploymentConfig, load_config, parse_config
from eagle3.config.speculation import Speculation
from eagle3.errors import ConfigError


def written(tmp_path, text):
    path = tmp_path / "run.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_every_key_is_read(tmp_path):
    """All keys of a file reach the config, and the rest keeps its default."""
    config = load_config(
        written(
            tmp_path,
            "target: /models/llama\ndraft: null\ndtype: bfloat16\ndevice: cuda\nthreads: 4\n"
            "speculation: {depth: 3, top_k: 2, nodes: 7}\n",
        )
    )
    assert config == DeploymentConfig(
        target="/models/llama", draft=None, dtype="bfloat16", device="cuda", threads=4,
        speculation=Speculation(depth=3, top_k=2, nodes=7),
    )  # fmt: skip
    assert load_config(written(tmp_path, "threads: 2\n")) == DeploymentConfig(threads=2)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("tartget: x\n", "tartget"),
        ("speculation: {dept: 3}\n", r"speculation\.dept"),
        ("speculation: {depth: 0}\n", r"speculation\.depth"),
        ("speculation: {depth: 33}\n", r"speculation\.depth"),
        ("speculation: {nodes: 0}\n", r"speculation\.nodes"),
        ("speculation: {nodes: 1025}\n", r"speculation\.nodes"),
        ("speculation: null\n", "speculation"),
        ("dtype: int8\n", "dtype"),
        ("threads: 0\n", "threads"),
        ("threads: many\n", "threads"),
        ("target: null\n", "target"),
        ("target: 3\n", "target"),
        ("3: x\n", "3"),
    ],
)
def test_bad_key_or_value_is_named(tmp_path, text, named):
    """An unknown key, a wrong type and a value out of range each name the file and the key."""
    with pytest.raises(ConfigError, match=rf"run\.yaml.*{named}"):
        load_config(written(tmp_path, text))


def test_unknown_key_lists_the_keys_of_its_own_level():
    """What is offered instead are the keys that are allowed there."""
    with pytest.raises(ConfigError, match="allowed keys: target, draft"):
        parse_config({"drafft": "x"}, source="flags")
    with pytest.raises(ConfigError, match=r"allowed keys: depth, top_k, nodes, min_probability, .*off_threshold$"):
        parse_config({"speculation": {"dept": 3}}, source="flags")


@pytest.mark.parametrize(
    "text",
    ["target: [1, 2\n", "a: b: c\n", "\tthreads: 2\n", b"target: \xff\xfe\n", "target: 2024-13-45\n", "target: \x00\n"],
)
def test_broken_yaml_is_a_config_error(tmp_path, text):
    """Syntax errors, bytes that are no UTF-8 and impossible dates say which file is broken."""
    with pytest.raises(ConfigError, match=r"run\.yaml is not valid YAML"):
        load_config(written(tmp_path, text))


@pytest.mark.parametrize("text", ["", "# nothing\n", "- a\n- b\n", "just text\n"])
def test_file_without_settings_is_a_config_error(tmp_path, text):
    """An empty file, a list or a bare string is no mapping of settings."""
    with pytest.raises(ConfigError, match="must hold a mapping"):
        load_config(written(tmp_path, text))


def test_missing_file_is_a_config_error(tmp_path):
    """A file that does not exist, and a directory, are named with the system's reason."""
    with pytest.raises(ConfigError, match=r"cannot read .*absent\.yaml: No such file"):
        load_config(tmp_path / "absent.yaml")
    with pytest.raises(ConfigError, match="Is a directory"):
        load_config(tmp_path)


def test_config_errors_exit_with_two():
    """The command line exits 2 on a bad configuration."""
    assert ConfigError.exit_code == 2


@pytest.mark.parametrize("device", ["nonsense", "cuda:99"])
def test_a_device_that_is_not_there_is_one_clear_error(device):
    """A device that torch cannot use is a ConfigError before anything is loaded, not a traceback from torch."""
    from eagle3.engine.llm import LLM

    with pytest.raises(ConfigError, match="cannot be used here"):
        LLM.from_config(DeploymentConfig(device=device))


def test_plain_decoding_is_one_step_from_any_config():
    """Whoever guesses, `without_speculation` leaves nobody, and changes nothing but that."""
    for drafters in (("eagle3",), ("eagle3", "suffix"), ("suffix",)):
        config = DeploymentConfig(threads=3, speculation=Speculation(drafters=drafters, depth=4))
        assert config.drafters == drafters
        assert config.draft_in_use == ("embedded" if "eagle3" in drafters else None)
        plain = config.without_speculation()
        assert plain.drafters == ()
        assert (plain.threads, plain.speculation.depth) == (3, 4)
