"""The folder of one rehearsal, and the environment of its commands.

Invariant: commands see no credentials, profile, state or home of the user, and write only below the folder.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from infra.rehearsal.provider.report import REPORT
from infra.rehearsal.tools import Tools

# All that commands get from the user's environment.
_PASSED = ("PATH", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV", "TF_LOG", "NODE_OPTIONS")
_OURS = "EAGLE3KIT_"


@dataclass(frozen=True, kw_only=True, slots=True)
class Workplace:
    """Where one rehearsal writes."""

    folder: Path

    @property
    def synthesized(self) -> Path:
        """Takes the place of cdktf.out."""
        return self.folder / "cdktf.out"

    @property
    def log(self) -> Path:
        """Every command with its output."""
        return self.folder / "rehearsal.log"

    @property
    def state(self) -> Path:
        """Terraform's state."""
        return self.folder / "terraform.tfstate"

    @property
    def terraform_config(self) -> Path:
        """Terraform's settings: where the provider is."""
        return self.folder / "terraform.rc"

    @property
    def report(self) -> Path:
        """Where the stand-in provider writes what it did."""
        return self.folder / "changes.jsonl"

    def stack(self, name: str) -> Path:
        """Folder of a synthesized stack, where Terraform runs."""
        return self.synthesized / "stacks" / name

    def prepare(self) -> None:
        """Make the folders."""
        for folder in (self.folder / "home", self.folder / "provider"):
            folder.mkdir()

    def use_mirror(self, mirror: Path) -> None:
        """Have Terraform take every provider from a folder, and from nowhere else."""
        path = str(mirror.absolute()).replace("\\", "\\\\").replace('"', '\\"')
        self.terraform_config.write_text(
            f'disable_checkpoint = true\nprovider_installation {{ filesystem_mirror {{ path = "{path}" }} }}\n',
            encoding="utf-8",
        )

    def environment(
        self, environ: Mapping[str, str], tools: Tools, *, stack: str, settings: Mapping[str, str]
    ) -> dict[str, str]:
        """For synthesis: no AWS yet. `settings` are EAGLE3KIT_* variables over those of the user."""
        values = {name: environ[name] for name in _PASSED if name in environ}
        values |= {name: value for name, value in environ.items() if name.startswith(_OURS)}
        values |= settings
        return values | {
            "EAGLE3KIT_STACKS": stack,
            "HOME": str(self.folder / "home"),
            "CI": "1",  # whole lines instead of a spinner
            "CHECKPOINT_DISABLE": "1",
            "CDKTF_HOME": str(self.folder / "home" / ".cdktf"),
            "CDKTF_DISABLE_PLUGIN_CACHE_ENV": "1",
            "TERRAFORM_BINARY_NAME": str(tools.terraform),
            "TF_IN_AUTOMATION": "1",
            "TF_CLI_CONFIG_FILE": str(self.terraform_config),
            # Unpacking the bindings takes seconds; this cache of the framework is shared by all its users.
            "JSII_RUNTIME_PACKAGE_CACHE_ROOT": environ.get("JSII_RUNTIME_PACKAGE_CACHE_ROOT", _jsii_cache(environ)),
            "PYTHONUNBUFFERED": "1",
        }

    def aws_environment(self, endpoint: str, region: str) -> dict[str, str]:
        """What leads every AWS client to the local AWS, and to no other."""
        nowhere = str(self.folder / "home" / "no-aws-config")
        return {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ACCESS_KEY_ID": "rehearsal",
            "AWS_SECRET_ACCESS_KEY": "rehearsal",  # the local AWS takes any
            "AWS_REGION": region,
            "AWS_DEFAULT_REGION": region,
            "AWS_CONFIG_FILE": nowhere,
            "AWS_SHARED_CREDENTIALS_FILE": nowhere,
            "AWS_EC2_METADATA_DISABLED": "true",
            "NO_PROXY": "127.0.0.1",
            REPORT: str(self.report),
        }


def _jsii_cache(environ: Mapping[str, str]) -> str:
    return os.path.join(environ.get("HOME", os.path.expanduser("~")), ".cache", "aws", "jsii", "package-cache")
