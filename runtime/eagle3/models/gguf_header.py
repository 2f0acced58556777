"""Reads what a GGUF file says about itself: metadata, and where its tensors lie. Knows no models and no block formats.

The `gguf` package's own reader makes an array of every token and merge, which takes seconds for what a model's shape
does not need; here they are stepped over. Invariant: every tensor of a header lies inside the file.
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from gguf.constants import GGML_QUANT_SIZES, GGUF_DEFAULT_ALIGNMENT, GGMLQuantizationType, GGUFValueType

from eagle3.errors import WeightsError

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_SCALARS = {
    GGUFValueType.UINT8: struct.Struct("<B"),
    GGUFValueType.INT8: struct.Struct("<b"),
    GGUFValueType.UINT16: struct.Struct("<H"),
    GGUFValueType.INT16: struct.Struct("<h"),
    GGUFValueType.UINT32: struct.Struct("<I"),
    GGUFValueType.INT32: struct.Struct("<i"),
    GGUFValueType.FLOAT32: struct.Struct("<f"),
    GGUFValueType.BOOL: struct.Struct("<?"),
    GGUFValueType.UINT64: struct.Struct("<Q"),
    GGUFValueType.INT64: struct.Struct("<q"),
    GGUFValueType.FLOAT64: struct.Struct("<d"),
}
_UINT32 = _SCALARS[GGUFValueType.UINT32]
_UINT64 = _SCALARS[GGUFValueType.UINT64]
_VOCABULARY = "tokenizer."


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredTensor:
    """One tensor of a file, unread."""

    name: str
    """GGUF's name."""
    shape: tuple[int, ...]
    """In torch's order: the fastest axis last."""
    kind: GGMLQuantizationType
    """How values are stored."""
    offset: int
    """Bytes from the start of the file."""
    nbytes: int
    """Bytes in the file."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GgufHeader:
    """Metadata and table of tensors of one file."""

    metadata: dict[str, Any]
    """Values by key; without the arrays below `tokenizer.`, such as the vocabulary."""
    tensors: dict[str, StoredTensor]
    """Tensors by GGUF's names, in the order of the file."""


def read_header(path: Path) -> GgufHeader:
    """The header of a file; WeightsError when it is unreadable, cut off or not a GGUF file of version 2 or 3."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _Cursor(data).header()
    except (ValueError, KeyError, OSError, OverflowError, struct.error) as error:
        raise WeightsError(f"{path} is truncated or not a GGUF file: {error}") from error


class _Cursor:
    """Goes through the header of a file from front to back; ValueError and struct.error for what cannot be."""

    def __init__(self, data: mmap.mmap) -> None:
        self._data = data
        self._at = 0

    def header(self) -> GgufHeader:
        self._open()
        num_tensors, num_keys = self._scalar(_UINT64), self._scalar(_UINT64)
        metadata: dict[str, Any] = {}
        seen: set[str] = set()
        for _ in range(num_keys):
            key = self._text()
            if key in seen:
                raise ValueError(f"metadata names {key} twice")
            seen.add(key)
            kind = GGUFValueType(self._scalar(_UINT32))
            if kind is GGUFValueType.ARRAY and key.startswith(_VOCABULARY):
                self._array(keep=False)
            else:
                metadata[key] = self._value(kind)
        return GgufHeader(metadata=metadata, tensors=self._table(num_tensors, metadata.get("general.alignment")))

    def _open(self) -> None:
        if self._data[:4] != _MAGIC:
            raise ValueError("it does not begin with GGUF")
        self._at = 4
        version = self._scalar(_UINT32)
        if version not in _VERSIONS:
            swapped = int.from_bytes(version.to_bytes(4, "little"), "big") in _VERSIONS
            got = "a big-endian file" if swapped else f"version {version}"
            raise ValueError(f"got {got}; versions 2 and 3 in little-endian order are read")

    def _table(self, num_tensors: int, alignment: object) -> dict[str, StoredTensor]:
        rows = [self._row() for _ in range(num_tensors)]
        step = GGUF_DEFAULT_ALIGNMENT if alignment is None else alignment
        if not isinstance(step, int) or step < 1 or step & (step - 1):
            raise ValueError(f"general.alignment must be a power of two; got {step!r}")
        start = -(-self._at // step) * step
        tensors: dict[str, StoredTensor] = {}
        for name, shape, kind, offset in rows:
            block_values, block_bytes = GGML_QUANT_SIZES[kind]
            if shape and shape[-1] % block_values:
                raise ValueError(f"tensor {name} has rows of {shape[-1]} values in blocks of {block_values}")
            nbytes = prod(shape) // block_values * block_bytes
            if start + offset + nbytes > len(self._data):
                raise ValueError(f"tensor {name} goes beyond the end of the file")
            if name in tensors:
                raise ValueError(f"two tensors are called {name}")
            tensors[name] = StoredTensor(name=name, shape=shape, kind=kind, offset=start + offset, nbytes=nbytes)
        return tensors

    def _row(self) -> tuple[str, tuple[int, ...], GGMLQuantizationType, int]:
        name = self._text()
        fastest_first = [self._scalar(_UINT64) for _ in range(self._scalar(_UINT32))]
        kind = GGMLQuantizationType(self._scalar(_UINT32))
        return name, tuple(reversed(fastest_first)), kind, self._scalar(_UINT64)

    def _value(self, kind: GGUFValueType) -> Any:
        if kind is GGUFValueType.STRING:
            return self._text()
        return self._array(keep=True) if kind is GGUFValueType.ARRAY else self._scalar(_SCALARS[kind])

    def _array(self, *, keep: bool) -> list[Any] | None:
        kind, count = GGUFValueType(self._scalar(_UINT32)), self._scalar(_UINT64)
        if keep:
            return [self._value(kind) for _ in range(count)]
        if kind in _SCALARS:
            self._take(_SCALARS[kind].size * count)
        elif kind is GGUFValueType.STRING:
            for _ in range(count):
                self._take(self._scalar(_UINT64))
        else:
            raise ValueError("an array of arrays below tokenizer. is not read")
        return None

    def _text(self) -> str:
        length = self._scalar(_UINT64)
        start = self._take(length)
        return self._data[start : start + length].decode("utf-8")

    def _scalar(self, form: struct.Struct) -> Any:
        (value,) = form.unpack_from(self._data, self._at)
        self._at += form.size
        return value

    def _take(self, count: int) -> int:
        """Step over so many bytes; where they begin."""
        start = self._at
        if count > len(self._data) - start:
            raise ValueError("it ends in the middle of its metadata")
        self._at = start + count
        return start
