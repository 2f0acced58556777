"""Terraform's graph, and whether it has a cycle."""

from __future__ import annotations

import re
from collections.abc import Iterable

_EDGE = re.compile(r'^\s*"(?P<source>(?:[^"\\]|\\.)*)" -> "(?P<target>(?:[^"\\]|\\.)*)"')


def find_cycle(lines: Iterable[str]) -> tuple[str, ...]:
    """Nodes of a cycle in the text of `terraform graph`, the first again at the end; empty if there is none."""
    edges: dict[str, list[str]] = {}
    for line in lines:
        if (edge := _EDGE.match(line)) is not None:
            edges.setdefault(edge["source"], []).append(edge["target"])
    finished: set[str] = set()
    for start in edges:
        # A path of nodes, each with those of its neighbours that are still to be visited.
        path: dict[str, list[str]] = {} if start in finished else {start: list(edges[start])}
        while path:
            node, waiting = next(reversed(path.items()))
            if not waiting:
                finished.add(node)
                del path[node]
                continue
            following = waiting.pop()
            if following in path:
                nodes = list(path)
                return (*nodes[nodes.index(following) :], following)
            if following not in finished:
                path[following] = list(edges.get(following, ()))
    return ()
