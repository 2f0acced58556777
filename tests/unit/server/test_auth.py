from __future__ import annotations

import logging
from pathlib import Path

import pytest

from eagle3.errors import ConfigError
from eagle3.server.auth import ApiKeys


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_keys_have_owners(tmp_path: Path) -> None:
    """A known key names its owner, any other none; colons may be part of a key."""
    keys = ApiKeys(write(tmp_path / "keys", "# c\n alice : 12345678\nbob:a:b:c:d:e\n\n"))
    assert len(keys) == 2
    assert keys.owner(b"12345678") == "alice"
    assert keys.owner(b"a:b:c:d:e") == "bob"
    for unknown in (b"", b"1234567", b"123456789", b"alice", "ключ".encode()):
        assert keys.owner(unknown) is None


def test_keys_are_not_kept_as_they_are(tmp_path: Path) -> None:
    """A dump of the object holds hashes."""
    keys = ApiKeys(write(tmp_path / "keys", "alice:plain-key-text\n"))
    assert "plain-key-text" not in repr(vars(keys))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no keys"),
        ("# only comments\n", "holds no keys"),
        ("alice:12345678\nbroken\n", "line 2"),
        ("alice:short\n", "line 1"),
        (":12345678\n", "line 1"),
        ("a:12345678\nb:12345678\n", "same key twice"),
    ],
)
def test_wrong_files_are_refused(tmp_path: Path, text: str, message: str) -> None:
    """The error names the line, and never quotes it."""
    with pytest.raises(ConfigError, match=message) as error:
        ApiKeys(write(tmp_path / "keys", text))
    assert "12345678" not in str(error.value)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    """With its path."""
    with pytest.raises(ConfigError, match="api_keys_file"):
        ApiKeys(tmp_path / "absent")


def test_reloading(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A good file replaces the keys; a wrong one leaves them and is logged."""
    path = write(tmp_path / "keys", "alice:12345678\n")
    keys = ApiKeys(path)
    write(path, "bob:87654321\n")
    keys.reload()
    assert keys.owner(b"87654321") == "bob"
    assert keys.owner(b"12345678") is None
    write(path, "broken\n")
    with caplog.at_level(logging.ERROR):
        keys.reload()
    assert keys.owner(b"87654321") == "bob"
    assert "line 1" in caplog.text
