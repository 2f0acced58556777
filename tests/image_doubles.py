"""Images built and run for tests: a base made by debootstrap, a build by buildah, a container on a read-only root.

Keeps its own image store in the user's cache folder, where the base stays for the next run; nothing of the user's own
images is read or changed. Knows nothing of what the images hold.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from images.build_image import tag

ROOT = Path(__file__).resolve().parents[1]
RELEASE = "bookworm"
BASE_PACKAGES = "ca-certificates,python3-venv"
BASE = f"localhost/eagle3-test-base:{RELEASE}-1"

# As the chart runs a container: nothing can be written but two folders, no privileges, an environment of its own.
_SANDBOX = """
set -eu
root=$1 user=$2 group=$3 folder=$4; shift 4
mount --bind "$root" "$root"
mount -t tmpfs tmpfs "$root/tmp"
mount -t tmpfs -o uid=10001,gid=10001,mode=0700 tmpfs "$root/home/eagle3/.cache"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -o remount,bind,ro "$root"
exec chroot "$root" setpriv --reuid="$user" --regid="$group" --clear-groups --no-new-privs --bounding-set=-all \\
    env -i -C "$folder" "$@"
"""


def missing() -> str | None:
    """Why no image can be built and run here; None where it can."""
    if os.geteuid() != 0:
        return "building and mounting images needs root"
    for program in ("buildah", "debootstrap", "unshare", "chroot"):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    allowed = subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False)
    return None if allowed.returncode == 0 else f"no mount namespace: {allowed.stderr.decode().strip()}"


class Store:
    """An image store of its own, and buildah on it."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        configuration = folder / "storage.conf"
        driver = "overlay" if _overlay_works(folder) else "vfs"
        graph, run = folder / f"graph-{driver}", folder / f"run-{driver}"
        configuration.write_text(f'[storage]\ndriver = "{driver}"\ngraphroot = "{graph}"\nrunroot = "{run}"\n')
        self.environment = {
            **{name: value for name, value in os.environ.items() if name != "STORAGE_DRIVER"},
            "CONTAINERS_STORAGE_CONF": str(configuration),
            "BUILDAH_ISOLATION": "chroot",
        }

    def buildah(self, *arguments: str) -> str:
        """Run buildah; its stdout, or an error with all that it said."""
        return self.run("buildah", *arguments)

    def run(self, *command: str) -> str:
        """Run a command that finds this store."""
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=self.environment, check=False)
        assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
        return done.stdout.strip()

    def has(self, image: str) -> bool:
        """Whether the store holds that image."""
        asked = subprocess.run(
            ["buildah", "inspect", "--type", "image", image], capture_output=True, env=self.environment, check=False
        )
        return asked.returncode == 0

    def make_base(self) -> None:
        """The base with Python, if it is not there yet: half a minute and a hundred megabytes of Debian packages."""
        if self.has(BASE):
            return
        with tempfile.TemporaryDirectory(dir=self.folder) as name:
            root = Path(name) / "root"
            self.run("debootstrap", "--variant=minbase", f"--include={BASE_PACKAGES}", RELEASE, str(root))
            for leftover in (*root.glob("var/cache/apt/archives/*.deb"), *root.glob("var/lib/apt/lists/*_*")):
                leftover.unlink()
            with self.container("scratch") as container:
                self.run("cp", "-a", f"{root}/.", str(container.root))
                self.buildah("commit", "--quiet", "--format", "docker", container.name, BASE)

    @contextlib.contextmanager
    def container(self, image: str) -> Iterator[Container]:
        """A container of the image, mounted; removed afterwards."""
        name = self.buildah("from", "--pull-never", image)
        try:
            yield Container(self, name, Path(self.buildah("mount", name)))
        finally:
            self.buildah("rm", name)


class Container:
    """A mounted container: its files, its configuration, and commands that run in it."""

    def __init__(self, store: Store, name: str, root: Path) -> None:
        self.store, self.name, self.root = store, name, root

    def configuration(self) -> dict[str, Any]:
        """What the image says about running it."""
        config: dict[str, Any] = json.loads(self.store.buildah("inspect", self.name))["Docker"]["config"]
        return config

    def start(
        self, *arguments: str, environment: Mapping[str, str], log: Path, entrypoint: bool = True
    ) -> subprocess.Popen[bytes]:
        """Start as the chart does: the image's entry point, user, folder and environment on a read-only root.

        The process is the command itself, so that signals and the exit code are its own.
        """
        config = self.configuration()
        user, _, group = config["User"].partition(":")
        variables = [*config["Env"], *(f"{name}={value}" for name, value in environment.items())]
        program = config["Entrypoint"] if entrypoint else []
        command = _sandboxed(self.root, user, group, config["WorkingDir"], [*variables, *program, *arguments])
        with log.open("wb") as output:
            return subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)

    def output(self, *command: str, environment: Mapping[str, str] | None = None, log: Path) -> tuple[int, str]:
        """Exit code and output of a command in the same surroundings, without the entry point."""
        process = self.start(*command, environment=environment or {}, log=log, entrypoint=False)
        return process.wait(timeout=60), log.read_text()


@contextlib.contextmanager
def image_store() -> Iterator[Store]:
    """The store of the tests, in the user's cache folder: for one run at a time, without what a killed run left."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    store = Store(cache / "eagle3-kit" / "test-images")
    with (store.folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        store.buildah("rm", "--all")
        store.buildah("rmi", "--prune")
        yield store


def build(store: Store, image: str) -> str:
    """Build an image as `make image` does, on the base of the tests; its name with tag."""
    repository = "localhost/eagle3-test"
    store.run(sys.executable, "-m", "images.build_image", image, "--base-image", BASE, "--repository", repository)
    return f"{repository}:{tag(image)}"


def _sandboxed(root: Path, user: str, group: str, folder: str, words: Sequence[str]) -> list[str]:
    shell = ["unshare", "--mount", "--propagation", "private", "sh", "-c", _SANDBOX, "sandbox"]
    return [*shell, str(root), user, group, folder, *words]


def _overlay_works(folder: Path) -> bool:
    """Whether overlays can be mounted there; copies of whole images (vfs) are many times slower."""
    with tempfile.TemporaryDirectory(dir=folder) as name:
        lower, upper, work, merged = (Path(name) / part for part in ("lower", "upper", "work", "merged"))
        for path in (lower, upper, work, merged):
            path.mkdir()
        options = f"lowerdir={lower},upperdir={upper},workdir={work}"
        mounted = subprocess.run(
            ["unshare", "--mount", "mount", "-t", "overlay", "overlay", "-o", options, str(merged)],
            capture_output=True,
            check=False,
        )
        return mounted.returncode == 0
