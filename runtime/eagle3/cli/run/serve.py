"""Runs `eagle3 serve`."""

from __future__ import annotations

import argparse
import os

from eagle3.cli.run.settings import deployment_config
from eagle3.cli.serve import SERVER_FLAGS
from eagle3.server.engines import build_engine
from eagle3.server.routes import protocol_routers
from eagle3.server.run import serve


def run(args: argparse.Namespace) -> int:
    """Serve until a signal ends it."""
    config = deployment_config(args, os.environ, more=SERVER_FLAGS)
    return serve(config, make_engine=build_engine, routers_of=protocol_routers)
