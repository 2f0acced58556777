"""Exceptions from checkov's rules, written beside the resource that they are for.

checkov reads no skip comments in Terraform JSON, so a skip is put into the resource's comment (`//`), which Terraform
ignores; `tests/infra/test_checkov.py` takes it from there and fails for a skip without a reason or without a finding.
"""

from __future__ import annotations

import re
from typing import Any

_ID = re.compile(r"CKV2?_AWS_\d+")


def skip(resource: Any, check: str, reason: str) -> None:
    """Except a resource from one check, such as "CKV_AWS_18", because of `reason` (a sentence)."""
    assert _ID.fullmatch(check), f"not a check of the AWS rules: {check}"
    assert len(reason.split()) >= 4, f"{check}: say in a sentence why it does not apply; got {reason!r}"
    resource.add_override(f"//.checkov.{check}", reason)
