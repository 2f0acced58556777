"""What every section of the settings is: frozen, and strict about keys."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A group of settings; an unknown key is an error that names it."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())
