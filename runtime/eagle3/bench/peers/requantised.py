"""A GGUF file in Q8_0, made by llama.cpp itself once and kept. Knows no models."""

from __future__ import annotations

import subprocess
from pathlib import Path

from eagle3.bench.peers.peer import SYSTEMS
from eagle3.errors import EngineUnavailableError, WeightsError


def requantised(source: Path, folder: Path, *, python: Path, threads: int) -> Path:
    """Path of the file in `folder`; made under `python`, which has llama_cpp, if it is not there yet."""
    stat = source.stat()
    path = folder / f"{source.stem}-{stat.st_size:x}-{stat.st_mtime_ns:x}.Q8_0.gguf"
    if path.is_file():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    try:
        done = subprocess.run(  # noqa: S603, our own file
            [str(python), "-P", str(SYSTEMS / "llama_cpp_requantise.py"), str(source), str(part), str(threads)],
            capture_output=True, text=True, errors="replace", check=False,
        )  # fmt: skip
    except OSError as error:
        raise EngineUnavailableError(f"cannot start {python}: {error.strerror}") from error
    if done.returncode or not part.is_file():
        lines = [line for line in done.stderr.splitlines() if line.strip()][-2:]
        raise WeightsError(f"llama.cpp could not write {source} in Q8_0: {' | '.join(lines) or done.returncode}")
    part.replace(path)
    return path
