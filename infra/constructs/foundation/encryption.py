"""The customer-managed keys of a stack, one a domain.

Knows no resource that they encrypt; `key_policies` says who may use them. Invariant: keys rotate, and a key that is
destroyed can be brought back within its waiting time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from infra.constructs.foundation.key_policies import Domain, key_statements
from infra.framework import Construct, Lifecycle, aws
from infra.policy import policy_document
from infra.site import Site

_PURPOSE: Mapping[Domain, str] = MappingProxyType(
    {
        "data": "models, images and state",
        "logs": "log groups and audit records",
        "secrets": "secrets of the cluster and of Secrets Manager",
        "volumes": "disks of nodes",
        "notifications": "topics and queues",
    }
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Key:
    """One key, as other constructs see it."""

    arn: str
    """Token."""
    key_id: str
    """Token."""
    alias: str
    """Such as "alias/eagle3-dev-large/data"; a token, known once the alias is made."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EncryptionProps:
    """What the keys are made from."""

    site: Site
    domains: Sequence[Domain]
    """Domains that the stack has something to encrypt in; a key costs money also unused."""
    deletion_days: int = 30
    """Days, 7 to 30, in which a destroyed key can be brought back."""
    protect: bool = False
    """Whether Terraform refuses to destroy the keys."""


class Encryption(Construct):
    """A rotated key with an alias for each domain."""

    def __init__(self, scope: Any, id: str, props: EncryptionProps) -> None:
        super().__init__(scope, id)
        assert len(set(props.domains)) == len(props.domains), f"domains repeat: {props.domains}"
        self.keys: Mapping[Domain, Key] = MappingProxyType({name: self._key(name, props) for name in props.domains})
        """By domain."""

    def _key(self, domain: Domain, props: EncryptionProps) -> Key:
        key = aws.KmsKey(
            self,
            domain.capitalize(),
            description=f"{props.site.name}: {_PURPOSE[domain]}",
            enable_key_rotation=True,
            deletion_window_in_days=props.deletion_days,
            policy=policy_document(key_statements(domain, props.site)),
            lifecycle=Lifecycle(prevent_destroy=True) if props.protect else None,
        )
        alias = aws.KmsAlias(
            self,
            f"{domain.capitalize()}Alias",
            name=f"alias/{props.site.name}/{domain}",
            target_key_id=key.key_id,
        )
        return Key(arn=key.arn, key_id=key.key_id, alias=alias.name)
