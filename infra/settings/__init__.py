"""Typed settings of one environment, one module a section."""
