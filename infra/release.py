"""One version for package, charts, images and stacks: `python -m infra.release version|check|set VERSION|package`.

Knows where the version is written, not what is released. The package's own (pyproject.toml) leads; `set` writes it
everywhere, `check` names every place that differs, and `package` puts both charts into a folder with checksums, signed
where a key is given. Invariant: nothing is packaged while places disagree or the CHANGELOG has nothing to say.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from eagle3.errors import ConfigError, Eagle3Error

ROOT = Path(__file__).resolve().parents[1]
CHARTS = ("eagle3", "eagle3-nodepools")

_VERSION = re.compile(r"\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?")
_ANY = r"[0-9][0-9A-Za-z.+-]*"


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """One file that states the version."""

    path: str
    """Relative to the root of the repository."""
    pattern: str
    """Two groups around the version, as a regular expression; it matches once."""

    def read(self, root: Path) -> str:
        """The version that stands there."""
        return self._match((root / self.path).read_text(encoding="utf-8"))[2]

    def write(self, root: Path, version: str) -> None:
        """Put another version there."""
        text = (root / self.path).read_text(encoding="utf-8")
        found = self._match(text)
        (root / self.path).write_text(f"{text[: found.start(2)]}{version}{text[found.end(2) :]}", encoding="utf-8")

    def _match(self, text: str) -> re.Match[str]:
        found = list(re.finditer(self.pattern, text, re.MULTILINE))
        if len(found) != 1:
            raise ConfigError(
                f"{self.path} states the version {len(found)} times as {self.pattern!r}, not once; "
                "mend the file or the list in infra/release.py"
            )
        return found[0]


@dataclass(frozen=True, kw_only=True, slots=True)
class SigningKey:
    """With what charts are signed."""

    name: str
    """Name or address of the key; it fits one key of the keyring."""
    keyring: Path
    """File with secret keys, as `gpg --export-secret-keys` writes it."""
    passphrase_file: Path | None = None
    """File whose first line unlocks the key."""


LEADING = Place(path="pyproject.toml", pattern=rf'(^name = "eagle3-kit"\nversion = ")({_ANY})"')
PLACES = (
    LEADING,
    Place(path="package.json", pattern=rf'(^  "version": ")({_ANY})"'),
    Place(path="package-lock.json", pattern=rf'(\A\{{\n  "name": "eagle3-kit",\n  "version": ")({_ANY})"'),
    Place(
        path="package-lock.json", pattern=rf'(^    "": \{{\n      "name": "eagle3-kit",\n      "version": ")({_ANY})"'
    ),
    *(Place(path=f"charts/{name}/Chart.yaml", pattern=rf"(^version: )({_ANY})$") for name in CHARTS),
    *(Place(path=f"charts/{name}/Chart.yaml", pattern=rf'(^appVersion: ")({_ANY})"') for name in CHARTS),
    # Tags of images, and the chart that the stack large installs.
    Place(path="infra/settings/endpoint_facts.py", pattern=rf'(^RELEASE = ")({_ANY})"'),
    Place(
        path="infra/settings/components.py",
        pattern=rf'(    eagle3: Chart = Field\(\s+default=Chart\(version=")({_ANY})"',
    ),
)


def current(root: Path = ROOT) -> str:
    """The version of the package."""
    project = tomllib.loads((root / LEADING.path).read_text(encoding="utf-8"))["project"]
    version: str = project["version"]
    return version


def disagreements(root: Path = ROOT) -> list[str]:
    """Places whose version is not the package's, and what the CHANGELOG lacks; empty where all is well."""
    version = current(root)
    found = [
        f"{place.path} says {there}, pyproject.toml says {version}"
        for place in PLACES
        if (there := place.read(root)) != version
    ]
    changelog = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    section = re.search(rf"^## \[{re.escape(version)}\] - \S.*?\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    if section is None or "- " not in section[1]:
        found.append(f"CHANGELOG.md has no section `## [{version}] - DATE` with an entry")
    return found


def set_version(version: str, root: Path = ROOT) -> list[str]:
    """Write a version everywhere; the files that changed. The CHANGELOG's section is for people to write."""
    if _VERSION.fullmatch(version) is None:
        raise ConfigError(f"a version is MAJOR.MINOR.PATCH, such as 0.2.0 or 1.0.0-rc.1; got {version!r}")
    changed = [place for place in PLACES if place.read(root) != version]
    for place in changed:
        place.write(root, version)
    return list(dict.fromkeys(place.path for place in changed))


def package(out: Path, *, key: SigningKey | None, root: Path = ROOT) -> list[Path]:
    """Package both charts into a folder, with SHA256SUMS and, given a key, a provenance file each."""
    if wrong := disagreements(root):
        raise ConfigError(f"not packaged: {'; '.join(wrong)}. Run `python -m infra.release set VERSION`")
    if key is not None and not key.keyring.is_file():
        raise ConfigError(f"HELM_KEYRING is no file: {key.keyring}; write it with `gpg --export-secret-keys NAME`")
    try:
        import helm_python
    except ImportError as error:
        raise ConfigError("packaging needs helm-python-sdk; run `make venv`") from error
    out.mkdir(parents=True, exist_ok=True)
    # Made aside, so that a key that cannot sign leaves no unsigned archive behind.
    with tempfile.TemporaryDirectory(dir=out) as aside:
        made: list[Path] = []
        try:
            for name in CHARTS:
                archive = helm_python.package(root / "charts" / name, destination=aside)
                made.append(Path(archive))
                if key is not None:
                    signed = helm_python.sign(
                        archive, key=key.name, keyring=key.keyring, passphrase_file=key.passphrase_file
                    )
                    made.append(Path(signed))
        except helm_python.HelmError as error:
            raise ConfigError(f"charts could not be packaged into {out}: {error}") from error
        kept = [path.replace(out / path.name) for path in made]
    sums = out / "SHA256SUMS"
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in kept]
    sums.write_text("".join(lines), encoding="utf-8")
    return [*kept, sums]


def signing_key(environ: Mapping[str, str]) -> SigningKey | None:
    """The key named by HELM_KEY, HELM_KEYRING and HELM_PASSPHRASE_FILE; None where none is named."""
    name, keyring = environ.get("HELM_KEY"), environ.get("HELM_KEYRING")
    if not name and not keyring:
        return None
    if not name or not keyring:
        raise ConfigError("HELM_KEY (name of the key) and HELM_KEYRING (file of secret keys) go together; give both")
    passphrase = environ.get("HELM_PASSPHRASE_FILE")
    return SigningKey(name=name, keyring=Path(keyring), passphrase_file=Path(passphrase) if passphrase else None)


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """The command line; 2 for bad input, 1 where `check` finds something."""
    parser = argparse.ArgumentParser(prog="python -m infra.release", description="One version for everything")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("version", help="print the version")
    commands.add_parser("check", help="name every place that states another version")
    commands.add_parser("set", help="write a version everywhere").add_argument("version", metavar="VERSION")
    commands.add_parser(
        "package", help="put both charts into a folder, signed where HELM_KEY and HELM_KEYRING are set"
    ).add_argument("--out", type=Path, default=ROOT / "dist", help="that folder (default: dist)")
    options = parser.parse_args(arguments)
    lines: list[str]
    try:
        match options.command:
            case "version":
                lines = [current()]
            case "check":
                lines = disagreements()
            case "set":
                lines = set_version(options.version)
            case _:
                lines = [str(path) for path in package(options.out, key=signing_key(environ))]
    except Eagle3Error as error:
        sys.stderr.write(f"eagle3-kit: {' '.join(str(error).split())}\n")
        return error.exit_code
    sys.stdout.writelines(f"{line}\n" for line in lines)
    if options.command == "set":
        sys.stderr.write("Now: `python -m infra.settings.describe > docs/settings.md`, and write CHANGELOG.md.\n")
    return 1 if options.command == "check" and lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
