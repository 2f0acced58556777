"""Memory in use on the GPUs of this machine, as `nvidia-smi` tells it: for engines that live in another process.

Touches no CUDA itself: a context of our own would take half a gigabyte of what it measures.
"""

from __future__ import annotations

import asyncio
import shutil

_TIMEOUT_S = 5.0


async def gpu_memory_mb(program: str = "nvidia-smi") -> float | None:
    """MiB over all GPUs; None when the program is missing, fails or does not answer."""
    if shutil.which(program) is None:
        return None
    process = await asyncio.create_subprocess_exec(
        program,
        "--query-gpu=memory.used",
        "--format=csv,noheader,nounits",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        output, _ = await asyncio.wait_for(process.communicate(), _TIMEOUT_S)
    except TimeoutError:
        process.kill()
        await process.wait()
        return None
    try:
        return sum(float(line) for line in output.decode().split()) if process.returncode == 0 else None
    except ValueError:  # "[N/A]": a virtual GPU may not say
        return None
