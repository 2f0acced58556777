"""Where the AWS bindings are installed, which provider they were made for, and the schemas inside, cached.

Knows the packages' layout: one tarball of compiled modules, one folder of Python a module. Reading the tarball takes
most of a second and the provider starts several times a run, so every schema that was read is kept as JSON, under a key
of the package's version and of the text of the reading modules. Invariant: the provider's version stands in the
bindings and nowhere else.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

from eagle3.errors import ConfigError
from infra.rehearsal.provider import open_types, reading, reading_provider, schema
from infra.rehearsal.provider.schema import Block

PACKAGES = {"cdktf": "cdktf_cdktf_provider_aws", "cdktn": "cdktn_provider_aws"}
PROVIDER = "provider"
_DATA = "data."


@dataclass(frozen=True, slots=False)
class Bindings:
    """An installed package of bindings."""

    package: str
    """Such as "cdktf_cdktf_provider_aws"."""
    folder: Path
    cache: Path
    """Folder for schemas that were read; made when first written to."""

    @cached_property
    def provider_version(self) -> str:
        """Version of hashicorp/aws that the bindings were made for, such as "6.25.0"."""
        kept = self._kept("version")
        if kept is None:
            found = re.search(r"providerVersion: '([\d.]+)'", self._texts(["sqs_queue"])["sqs_queue"])
            assert found is not None, "the bindings do not say which provider they were made for"
            kept = found[1]
            self._keep("version", kept)
        return str(kept)

    @cached_property
    def types(self) -> frozenset[str]:
        """Every type: "aws_sqs_queue" a resource, "data.aws_region" a data source."""
        names = {entry.name for entry in self.folder.iterdir() if entry.is_dir() and not entry.name.startswith("_")}
        data = {f"{_DATA}{name.removeprefix('data_')}" for name in names if name.startswith("data_aws_")}
        return frozenset({f"aws_{name}" for name in names if not name.startswith("data_aws_")} | data)

    def schemas(self, types: Iterable[str]) -> dict[str, Block]:
        """Bodies by type; `PROVIDER` is the provider's own. All that are missing are read in one pass."""
        wanted = sorted(set(types))
        kept = {name: self._kept(name) for name in wanted}
        missing = [name for name in wanted if kept[name] is None]
        if missing:
            texts = self._texts([_module(name) for name in missing])
            for name in missing:
                kept[name] = self._read(name, texts[_module(name)]).to_json()
                self._keep(name, kept[name])
        return {name: Block.from_json(_mapping(kept[name])) for name in wanted}

    def _read(self, name: str, javascript: str) -> Block:
        if name == PROVIDER:
            return reading_provider.read_provider(javascript)
        type_, body = reading.read_module(javascript)
        assert type_ == name.removeprefix(_DATA), f"the module of {name} holds {type_}"
        return open_types.closed(name, body)

    def _texts(self, modules: Iterable[str]) -> dict[str, str]:
        """Compiled text of modules, by their Python names."""
        [tarball] = sorted((self.folder / "_jsii").glob("*.jsii.tgz"))
        wanted = {f"package/lib/{name.replace('_', '-')}/index.js": name for name in modules}
        texts: dict[str, str] = {}
        with tarfile.open(tarball, "r|gz") as archive:
            for member in archive:
                if member.name in wanted:
                    handle = archive.extractfile(member)
                    assert handle is not None, f"{member.name} is no file"
                    texts[wanted[member.name]] = handle.read().decode()
        lacking = sorted(set(wanted.values()) - set(texts))
        if lacking:
            raise ConfigError(f"the bindings {self.package} have no module {', '.join(lacking)}")
        return texts

    @cached_property
    def _key(self) -> str:
        sources = [
            Path(module.__file__ or "").read_bytes() for module in (reading, reading_provider, open_types, schema)
        ]
        digest = hashlib.sha256(b"".join(sources)).hexdigest()[:12]
        return f"{self.package}-{version(self.package)}-{digest}"

    def _kept(self, name: str) -> Any:
        path = self.cache / self._key / f"{name}.json"
        return json.loads(path.read_text("utf-8")) if path.exists() else None

    def _keep(self, name: str, value: Any) -> None:
        path = self.cache / self._key / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        whole = path.with_suffix(f".{os.getpid()}")
        whole.write_text(json.dumps(value, separators=(",", ":")), encoding="utf-8")
        whole.replace(path)


def installed(framework: str, cache: Path) -> Bindings:
    """The bindings of a framework, "cdktf" or "cdktn"."""
    if framework not in PACKAGES:
        raise ConfigError(f"the framework must be one of {', '.join(PACKAGES)}; got {framework!r}")
    package = PACKAGES[framework]
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError(f"the package {package} is not installed; run `make venv`")
    return Bindings(package, Path(spec.submodule_search_locations[0]), cache)


def default_cache(environment: Mapping[str, str]) -> Path:
    """Where schemas are kept unless the caller says otherwise."""
    base = environment.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "eagle3-kit" / "schemas"


def _module(name: str) -> str:
    if name == PROVIDER:
        return PROVIDER
    if name.startswith(_DATA):
        return "data_" + name.removeprefix(_DATA)
    return name.removeprefix("aws_")


def _mapping(value: Any) -> Mapping[str, Any]:
    assert isinstance(value, dict), "a kept schema is an object"
    return value
