"""Repositories of what is released: the image of the runtime. The stack `bootstrap` makes them.

Other stacks know them by name, so that an image can be pushed before the endpoint that runs it is made.
"""

from __future__ import annotations

from infra.constructs.foundation.registry import Repository
from infra.settings.root import Settings
from infra.site import Site

RUNTIME = "runtime"
RELEASED = (RUNTIME,)


def release_repository(settings: Settings, site: Site, name: str) -> Repository:
    """One of RELEASED as text, without a reference to the stack that makes it."""
    assert name in RELEASED
    path = f"{settings.name}-{settings.environment}-bootstrap/{name}"
    return Repository(
        name=path,
        arn=site.arn("ecr", f"repository/{path}"),
        url=f"{site.account_id}.dkr.ecr.{site.region}.{site.dns_suffix}/{path}",
    )
