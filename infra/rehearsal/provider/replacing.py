"""Attributes that AWS cannot change in place: another value means another resource."""

from __future__ import annotations

from infra.rehearsal.provider.schema import Block

_USUAL = frozenset({"name", "name_prefix", "bucket", "bucket_prefix", "region"})
_BY_TYPE: dict[str, frozenset[str]] = {}


def immutable(type_: str, block: Block) -> frozenset[str]:
    """Names, or dotted paths into blocks."""
    return _BY_TYPE.get(type_, frozenset()) | (_USUAL & block.attributes.keys())
