"""Constructs: one concern each, a props dataclass in, typed outputs as attributes. They look nothing up."""
