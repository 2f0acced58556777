"""Entry point that Terraform starts: environment in, provider out. Started by the script that `install` writes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from infra.rehearsal.provider.bindings import PROVIDER, default_cache, installed
from infra.rehearsal.provider.connecting import connected
from infra.rehearsal.provider.in_use import TYPES, types_in_use
from infra.rehearsal.provider.serve import serve
from infra.rehearsal.provider.servicer import Servicer

FRAMEWORK = "EAGLE3KIT_STANDIN_FRAMEWORK"
CACHE = "EAGLE3KIT_STANDIN_CACHE"


def main(environment: Mapping[str, str], folder: Path) -> None:
    """Serve the types that the folder's configuration uses."""
    cache = environment.get(CACHE)
    bindings = installed(environment.get(FRAMEWORK, "cdktf"), Path(cache) if cache else default_cache(environment))
    wanted = types_in_use(folder, environment.get(TYPES, ""), bindings.types)
    schemas = bindings.schemas({PROVIDER, *wanted})
    provider = schemas.pop(PROVIDER)
    serve(Servicer(provider, schemas, lambda config: connected(config, environment)))


if __name__ == "__main__":
    main(os.environ, Path.cwd())
