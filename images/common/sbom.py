"""Writes what an image is made of: a CycloneDX 1.6 document of its Debian packages and Python distributions.

Usage: sbom.py NAME VERSION FOLDER... where a folder is a virtual environment or holds packages itself. Reads dpkg's
status file and the distributions' metadata; asks no network. Invariant: the same files give the same document; it has
no time and no random number in it.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
import sys
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

DPKG_STATUS = Path("/var/lib/dpkg/status")
OS_RELEASE = Path("/etc/os-release")


def debian_components(status: str, *, distribution: str) -> Iterator[dict[str, Any]]:
    """One component for each installed package of a dpkg status file."""
    for paragraph in status.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in paragraph.splitlines() if ": " in line and line[0] != " ")
        if fields.get("Status", "").endswith(" installed"):
            name, version = fields["Package"], fields["Version"]
            reference = f"pkg:deb/{distribution}/{quote(name)}@{quote(version)}?arch={fields['Architecture']}"
            yield {"type": "library", "bom-ref": reference, "name": name, "version": version, "purl": reference}


def python_components(folders: Sequence[Path]) -> Iterator[dict[str, Any]]:
    """One component for each distribution that lies in those folders."""
    for distribution in importlib.metadata.distributions(path=[str(folder) for folder in folders]):
        metadata = distribution.metadata
        name, version = metadata["Name"], distribution.version
        normal = re.sub(r"[-_.]+", "-", name).lower()
        reference = f"pkg:pypi/{quote(normal)}@{quote(version)}"
        component: dict[str, Any] = {"type": "library", "bom-ref": reference, "name": name, "version": version}
        component["purl"] = reference
        # `License-Expression` is an SPDX expression; the older free text is a name at best, a whole licence at worst.
        if "License-Expression" in metadata:
            component["licenses"] = [{"expression": metadata["License-Expression"]}]
        elif "License" in metadata and "\n" not in metadata["License"]:
            component["licenses"] = [{"license": {"name": metadata["License"]}}]
        yield component


def document(name: str, version: str, components: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The whole document; its serial number follows from what it says."""
    by_reference = {component["bom-ref"]: component for component in components}
    ordered = [by_reference[reference] for reference in sorted(by_reference)]
    serial = uuid.uuid5(uuid.NAMESPACE_OID, json.dumps([name, version, ordered], sort_keys=True))
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": serial.urn,
        "version": 1,
        "metadata": {"component": {"type": "container", "bom-ref": name, "name": name, "version": version}},
        "components": ordered,
    }


def main(arguments: Sequence[str]) -> None:
    """Write the document to stdout."""
    name, version, *names = arguments
    folders = [
        folder
        for environment in map(Path, names)
        for folder in (*environment.glob("lib/python3*/site-packages"), environment)
    ]
    release = dict(line.split("=", 1) for line in OS_RELEASE.read_text(encoding="utf-8").splitlines() if "=" in line)
    status = DPKG_STATUS.read_text(encoding="utf-8")
    components = [*debian_components(status, distribution=release["ID"].strip('"')), *python_components(folders)]
    json.dump(document(name, version, components), sys.stdout, indent=1)


if __name__ == "__main__":
    main(sys.argv[1:])
