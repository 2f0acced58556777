from pathlib import Path

import pytest

from eagle3.engine.gpu_memory import gpu_memory_mb


def program(folder: Path, script: str) -> str:
    """A stand-in for nvidia-smi."""
    path = folder / "smi"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("echo 1000; echo 234", 1234.0),
        ("echo '[N/A]'", None),
        ("echo 7; exit 9", None),
    ],
)
async def test_memory_is_the_sum_over_gpus(tmp_path: Path, script: str, expected: float | None):
    """MiB of all GPUs; None where the program cannot say."""
    assert await gpu_memory_mb(program(tmp_path, script)) == expected


async def test_no_program_no_memory():
    """A machine without NVIDIA's tools has none to report."""
    assert await gpu_memory_mb("no-such-nvidia-smi") is None
