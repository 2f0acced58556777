"""A local AWS in this process, the stand-in provider installed in a folder, and Terraform run against both."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import httpx
from moto.server import ThreadedMotoServer

from infra.rehearsal.provider.install import cli_configuration, install
from infra.rehearsal.provider.report import REPORT, Entry, read_report

TERRAFORM = shutil.which("terraform")


@contextmanager
def local_aws() -> Iterator[str]:
    """The URL of a local AWS that holds nothing yet."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    url = f"http://127.0.0.1:{port}"
    try:
        # What it holds belongs to the process, not to the server: an earlier one's is still there.
        httpx.post(f"{url}/moto-api/reset").raise_for_status()
        yield url
    finally:
        server.stop()


def client(service: str, endpoint: str) -> Any:
    """boto3's client of the local AWS."""
    keys = {"aws_access_key_id": "local", "aws_secret_access_key": "local"}
    return boto3.client(service, region_name="us-east-1", endpoint_url=endpoint, **keys)


@dataclass(frozen=True, slots=True)
class Workplace:
    """A folder with a configuration, and Terraform run in it."""

    folder: Path
    mirror: Path
    endpoint: str

    def write(self, resources: dict[str, Any], **more: Any) -> None:
        """Write the configuration; `more` are further parts of it, such as `output`."""
        script = next(self.mirror.glob("registry.terraform.io/hashicorp/aws/*"))
        required = {"aws": {"source": "hashicorp/aws", "version": script.name}}
        document = {
            "terraform": {"required_providers": required},
            "provider": {"aws": [{"region": "us-east-1", "default_tags": [{"tags": {"project": "eagle3"}}]}]},
            "resource": resources,
            **more,
        }
        (self.folder / "main.tf.json").write_text(json.dumps(document), encoding="utf-8")

    def run(self, *arguments: str, expect: int = 0) -> str:
        """Run Terraform; returns all that it wrote."""
        assert TERRAFORM is not None
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "AWS_ENDPOINT_URL": self.endpoint,
            "TF_CLI_CONFIG_FILE": str(self.mirror / "terraform.rc"),
            "CHECKPOINT_DISABLE": "1",
            REPORT: str(self.folder / "report.jsonl"),
        }
        command = [TERRAFORM, *arguments, "-no-color"]
        done = subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=120, check=False
        )
        text = done.stdout + done.stderr
        assert done.returncode == expect, f"terraform {' '.join(arguments)}: {done.returncode}\n{text}"
        return text

    def report(self) -> list[Entry]:
        """What the provider wrote down."""
        return read_report(self.folder / "report.jsonl")


def workplace(folder: Path, endpoint: str) -> Workplace:
    """A folder with the stand-in provider installed for it."""
    mirror, place = folder / "mirror", folder / "work"
    install(mirror, Path(sys.executable))
    (mirror / "terraform.rc").write_text(cli_configuration(mirror), encoding="utf-8")
    place.mkdir()
    return Workplace(place, mirror, endpoint)
