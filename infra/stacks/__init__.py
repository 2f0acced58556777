"""Stacks: they own providers, lookups and outputs, and wire constructs together."""
