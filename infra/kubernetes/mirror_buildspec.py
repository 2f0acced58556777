"""The mirror's script: pinned tools and charts into the artifact bucket, images into the private registry.

Runs outside the VPC, with internet. Knows no cluster. Invariants: nothing is run that was not checked against its
SHA-256; what was mirrored once is never fetched again, so an upstream that changes cannot change a cluster.
"""

from __future__ import annotations

import re
import shlex

from infra.kubernetes.buildspec import buildspec, helm_file, kubectl_file
from infra.kubernetes.components import Component, MirroredImage, components, mirrored_images
from infra.settings.components import ComponentSettings, Tool

_HELM_URL = "https://get.helm.sh/helm-v{version}-linux-amd64.tar.gz"
_KUBECTL_URL = "https://dl.k8s.io/release/v{version}/bin/linux/amd64/kubectl"
_CRANE_URL = (
    "https://github.com/google/go-containerregistry/releases/download/v{version}/"
    "go-containerregistry_Linux_x86_64.tar.gz"
)

_FUNCTIONS = """
set -euo pipefail
work=$(mktemp -d)
cd "$work"
mkdir bin
export PATH="$work/bin:$PATH"

# fetch URL SHA256 FILE
fetch() {
  curl --fail --silent --show-error --location --retry 5 --retry-delay 5 --output "$3" "$1"
  echo "$2  $3" | sha256sum --check --quiet
}
has() { aws s3api head-object --bucket "$BUCKET" --key "$PREFIX/$1" >/dev/null 2>&1; }
put() { aws s3 cp --only-show-errors "$1" "s3://$BUCKET/$PREFIX/$2"; }

# tool FILE URL SHA256: what the bootstrap inside the VPC runs
tool() {
  if has "tools/$1"; then echo "tools/$1 is there"; return; fi
  fetch "$2" "$3" "$1"
  put "$1" "tools/$1"
}
# chart ARCHIVE SHA256 HELM_ARGUMENTS...
chart() {
  archive=$1 sum=$2
  shift 2
  if has "charts/$archive"; then echo "charts/$archive is there"; return; fi
  helm pull "$@"
  if [ -n "$sum" ]; then echo "$sum  $archive" | sha256sum --check --quiet; fi
  put "$archive" "charts/$archive"
}
# image SOURCE TAG DIGEST TARGET
image() {
  if found=$(crane digest "$4:$2" 2>/dev/null); then
    echo "$4:$2 is there: $found"
  else
    if [ -n "$3" ]; then crane copy "$1@$3" "$4:$2"; else crane copy "$1:$2" "$4:$2"; fi
    found=$(crane digest "$4:$2")
  fi
  if [ -n "$3" ] && [ "$found" != "$3" ]; then
    echo "$4:$2 is $found, and $3 was asked for: delete it from the registry, or ask for another tag" >&2
    return 1
  fi
}
"""


def mirror_buildspec(settings: ComponentSettings) -> str:
    """The buildspec of the mirror; its environment: BUCKET, PREFIX, REGISTRY and one `repository_variable` an image."""
    tools = settings.tools
    lines = [
        f"fetch {_url(_HELM_URL, tools.helm)} {tools.helm.sha256} helm.tar.gz",
        "tar --extract --gzip --file helm.tar.gz --directory bin --strip-components 1 linux-amd64/helm",
        f"fetch {_url(_CRANE_URL, tools.crane)} {tools.crane.sha256} crane.tar.gz",
        "tar --extract --gzip --file crane.tar.gz --directory bin crane",
        f"tool {helm_file(settings)} {_url(_HELM_URL, tools.helm)} {tools.helm.sha256}",
        f"tool {kubectl_file(settings)} {_url(_KUBECTL_URL, tools.kubectl)} {tools.kubectl.sha256}",
        'aws ecr get-login-password | crane auth login --username AWS --password-stdin "$REGISTRY"',
        *(_pull(component) for component in components(settings) if component.chart.enabled and component.source),
        *(_copy(image) for image in mirrored_images(settings)),
    ]
    return buildspec("\n".join([_FUNCTIONS, *lines]))


def repository_variable(repository: str) -> str:
    """Name of the environment variable that holds a private repository's address."""
    return "REPOSITORY_" + re.sub(r"[^A-Za-z0-9]", "_", repository).upper()


def _pull(component: Component) -> str:
    assert component.source is not None
    source, version = component.source, component.chart.version
    where = [source.location] if source.is_oci else [source.name, "--repo", source.location]
    return shlex.join(["chart", component.archive, component.chart.sha256 or "", *where, "--version", version])


def _copy(image: MirroredImage) -> str:
    words = shlex.join(["image", image.source, image.tag, image.digest or ""])
    return f'{words} "${repository_variable(image.repository)}"'


def _url(template: str, tool: Tool) -> str:
    return template.format(version=tool.version)
