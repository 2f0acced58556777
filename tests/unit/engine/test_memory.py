"""How large the cache is made, and what is said when there is no room."""

from __future__ import annotations

from types import SimpleNamespace

import psutil
import pytest
import torch

from eagle3.engine import memory
from eagle3.engine.memory import cache_slots, free_bytes
from eagle3.errors import ConfigError

CPU = torch.device("cpu")


def slots(**changes):
    values = {"wanted": None, "bytes_per_slot": 1000, "most_useful": 5000, "least_useful": 50, "device": CPU}
    return cache_slots(**(values | changes))


@pytest.fixture
def free(monkeypatch):
    """Set the machine's free memory, and its control group's files."""

    def set_free(available, directory=None):
        monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=available))
        monkeypatch.setattr(memory, "_CGROUP", directory)

    return set_free


def test_what_is_asked_for_is_taken(free, tmp_path):
    """`engine.cache_tokens` is taken as it is, whatever memory is free."""
    free(0, tmp_path)
    assert slots(wanted=777) == 777


@pytest.mark.parametrize(("available", "expected"), [(10**9, 5000), (4_000_000, 1000), (200_000, 50)])
def test_a_share_of_free_memory_up_to_what_is_useful(free, tmp_path, available, expected):
    """A quarter of the free memory on a CPU, and no more than all requests together could use."""
    free(available, tmp_path)
    assert slots() == expected


@pytest.mark.parametrize(("wanted", "origin"), [(49, "engine.cache_tokens"), (None, "memory that is free on cpu")])
def test_no_room_for_one_request_is_a_config_error(free, tmp_path, wanted, origin):
    """Too small a cache is refused with what it comes from, what there is, what is needed and what to do."""
    free(196_000, tmp_path)
    with pytest.raises(ConfigError, match=rf"{origin}.* 49 token slots of 1000 bytes; at least 50 .*set engine"):
        slots(wanted=wanted)


@pytest.mark.parametrize(
    ("limit", "used", "expected"),
    [("3000\n", "1000\n", 2000), ("max\n", "1000\n", 9000), ("100000\n", "1\n", 9000), ("10\n", "20\n", 0)],
)
def test_a_containers_limit_counts(free, tmp_path, limit, used, expected):
    """In a container what is free is what its control group leaves, if that is less than the machine has."""
    (tmp_path / "memory.max").write_text(limit, encoding="ascii")
    (tmp_path / "memory.current").write_text(used, encoding="ascii")
    free(9000, tmp_path)
    assert free_bytes(CPU) == expected


def test_this_machine_has_memory():
    """The real reading is a positive number of bytes, no more than the machine has."""
    assert 0 < free_bytes(CPU) <= psutil.virtual_memory().total
