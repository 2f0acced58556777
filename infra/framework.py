"""The seam to the framework: every class of cdktf and of its AWS bindings comes through here.

Works on `cdktf` (asked for, archived upstream) or on `cdktn` (CDK Terrain, its maintained fork), which have the same
classes; `EAGLE3KIT_FRAMEWORK` chooses before the first import. See docs/adr/0001-cdktf.md.

Classes of the bindings are attributes of `aws`: `aws.KmsKey`, `aws.EksClusterVpcConfig`, `aws.DataAwsCallerIdentity`.
Their modules are loaded one by one when first asked for: the package's own `__init__` would import more than two
thousand of them (7 of the 9 seconds that a synthesis takes). Lists of blocks must hold objects of these classes: a
plain dict inside a list loses its keys on the way to the framework.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import os
import re
import sys
import types
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from eagle3.errors import ConfigError

FRAMEWORKS = {"cdktf": "cdktf_cdktf_provider_aws", "cdktn": "cdktn_provider_aws"}

PROVIDER_VERSION = "6.69.1"
"""Release of hashicorp/aws that Terraform installs, under either framework: that of cdktn's bindings. cdktf's last ones
were made from 6.25.0, which refuses SageMaker's machine image for CUDA 13; every argument of theirs is in both."""

# The one place that reads it: which packages to import cannot be passed in, since importing comes first.
FRAMEWORK = os.environ.get("EAGLE3KIT_FRAMEWORK", "cdktf")
if FRAMEWORK not in FRAMEWORKS:
    raise ConfigError(f"EAGLE3KIT_FRAMEWORK must be one of {', '.join(FRAMEWORKS)}; got {FRAMEWORK!r}")
os.environ.setdefault("JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION", "20")

try:
    _core: Any = importlib.import_module(FRAMEWORK)
    _constructs: Any = importlib.import_module("constructs")
except ModuleNotFoundError as error:
    raise ConfigError(f"the package {error.name} is not installed; run `make venv`") from error

App: Any = _core.App
Stack: Any = _core.TerraformStack
Construct: Any = _constructs.Construct
Output: Any = _core.TerraformOutput
S3Backend: Any = _core.S3Backend
Token: Any = _core.Token
Lifecycle: Any = _core.TerraformResourceLifecycle


class AwsBindings:
    """The classes of the AWS provider's bindings, each loaded when first asked for."""

    def __init__(self, package: str) -> None:
        self._package = package
        self._modules: frozenset[str] | None = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if self._modules is None:
            self._modules = frozenset(_bare_package(self._package))
        for module in _candidates(name):
            if module in self._modules:
                found = getattr(importlib.import_module(f"{self._package}.{module}"), name, None)
                if found is not None:
                    setattr(self, name, found)
                    return found
        near = difflib.get_close_matches(_snake(name), sorted(self._modules), n=3)
        raise AttributeError(f"the AWS bindings have no class {name}; nearest modules: {', '.join(near) or 'none'}")


def _bare_package(name: str) -> Iterator[str]:
    """Register the package without running its `__init__`; yields the names of its modules."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.submodule_search_locations is None:
        raise ConfigError(f"the package {name} is not installed; run `make venv`")
    if name not in sys.modules:
        package = types.ModuleType(name)
        package.__path__ = list(spec.submodule_search_locations)
        package.__spec__ = spec
        sys.modules[name] = package
    for place in spec.submodule_search_locations:
        yield from (entry.name for entry in Path(place).iterdir() if entry.is_dir())


def _candidates(name: str) -> list[str]:
    """Modules that could hold a class: a resource's own, and those of its blocks, longest first."""
    words = _snake(name).split("_")
    found = ["_".join(words[:end]) for end in range(len(words), 0, -1)]
    return [*found, "provider"] if name.startswith("AwsProvider") else found


@cache
def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


aws: Any = AwsBindings(FRAMEWORKS[FRAMEWORK])
