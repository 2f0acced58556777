"""How many token slots the KV cache gets: what the config says, else a share of the memory that is free.

Reads the machine once, when asked. A container's own limit counts where it is below the machine's memory.
"""

from __future__ import annotations

from pathlib import Path

import psutil
import torch

from eagle3.errors import ConfigError

# Of the free memory. On a GPU the rest is for activations; on a CPU the machine has other uses for it too.
_SHARE = {"cuda": 0.85, "cpu": 0.25}
_CGROUP = Path("/sys/fs/cgroup")


def cache_slots(
    *, wanted: int | None, bytes_per_slot: int, most_useful: int, least_useful: int, device: torch.device
) -> int:
    """Slots of the cache: `wanted` if given, else up to `most_useful` in a share of the free memory.

    ConfigError if fewer than `least_useful` (one short request) fit.
    """
    if wanted is not None:
        slots, origin = wanted, "engine.cache_tokens"
    else:
        share = _SHARE.get(device.type, _SHARE["cpu"])
        slots = min(most_useful, int(free_bytes(device) * share) // bytes_per_slot)
        origin = f"the memory that is free on {device}"
    if slots < least_useful:
        raise ConfigError(
            f"{origin} gives the KV cache {slots} token slots of {bytes_per_slot} bytes; at least {least_useful} are "
            "needed; set engine.cache_tokens, or free some memory"
        )
    return slots


def free_bytes(device: torch.device) -> int:
    """Bytes of memory that a device has left for this process."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    free = int(psutil.virtual_memory().available)
    limit, used = _cgroup_bytes("memory.max"), _cgroup_bytes("memory.current")
    if limit is not None and used is not None:
        free = min(free, max(0, limit - used))
    return free


def _cgroup_bytes(name: str) -> int | None:
    """A number of the control group's (version 2) files; None where there is none, or `max`."""
    path = _CGROUP / name
    if not path.is_file():
        return None
    text = path.read_text(encoding="ascii").strip()
    return int(text) if text.isdigit() else None
