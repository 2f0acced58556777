"""The synthesized stack of a rehearsal: read, and made local.

Changes only the copy that lies in the rehearsal's folder. Invariant: made local, it keeps state in a file, and no
provider has an account, profile or role of its own.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Arguments of the provider that lead to a user's account.
_ACCOUNT_ARGUMENTS = (
    "access_key", "secret_key", "token", "profile", "shared_config_files", "shared_credentials_files", "assume_role",
    "assume_role_with_web_identity", "allowed_account_ids", "forbidden_account_ids", "endpoints",
)  # fmt: skip
_RETRIES = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class SynthesizedStack:
    """The Terraform JSON of one stack."""

    file: Path
    document: dict[str, Any]

    @property
    def regions(self) -> tuple[str, ...]:
        """Regions of its providers, the default provider's first."""
        providers = sorted(self._aws_providers(), key=lambda provider: "alias" in provider)
        return tuple(dict.fromkeys(str(provider.get("region", "us-east-1")) for provider in providers)) or (
            "us-east-1",
        )

    @property
    def provider_version(self) -> str:
        """The version that the bindings were made for."""
        return str(self._requirement()["version"])

    @property
    def types(self) -> tuple[str, ...]:
        """Types of its resources."""
        return tuple(sorted(self.document.get("resource", {})))

    @property
    def resources(self) -> int:
        """How many resources it declares."""
        return sum(len(named) for named in self.document.get("resource", {}).values())

    def make_local(self, state: Path, provider_version: str) -> None:
        """Keep state in a file, take this version of the provider, and leave the user's account out."""
        self.document["terraform"]["backend"] = {"local": {"path": str(state)}}
        self._requirement()["version"] = provider_version
        for provider in self._aws_providers():
            for name in _ACCOUNT_ARGUMENTS:
                provider.pop(name, None)
            # The real provider would try for many minutes what the local AWS does not know.
            provider["max_retries"] = _RETRIES
        self.file.write_text(json.dumps(self.document, indent=2) + "\n", encoding="utf-8")

    def _aws_providers(self) -> list[dict[str, Any]]:
        found = self.document.get("provider", {}).get("aws", [])
        return found if isinstance(found, list) else [found]

    def _requirement(self) -> dict[str, Any]:
        requirement: dict[str, Any] = self.document["terraform"]["required_providers"]["aws"]
        return requirement


def read_stack(folder: Path) -> SynthesizedStack:
    """The stack that synthesis wrote into a folder."""
    file = folder / "cdk.tf.json"
    return SynthesizedStack(file=file, document=json.loads(file.read_text(encoding="utf-8")))
