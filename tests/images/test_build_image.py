"""What `make image` runs: the builder's command line, and pip's own settings in it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from images.build_image import Build, build_command, main, shown, tag
from images.common.sbom import debian_components, document, python_components
from images.pip_settings import PipSettings, read_settings

_NONE = PipSettings(arguments={}, mounts={})


def build(**arguments: str) -> Build:
    return Build(image="cpu", repository="registry.example/eagle3", arguments=arguments)


def test_pip_settings_go_along(tmp_path: Path) -> None:
    """Indexes and folders that pip is configured with reach the build; a nearer source wins; others stay out."""
    settings = read_settings(
        [
            "global.index-url='https://mirror.example/simple'",
            "global.timeout='180'",
            "global.find-links='/no/such/folder https://wheels.example/'",
            ":env:.index-url='https://nearer.example/simple'",
            "freeze.index-url='https://other.example/simple'",
        ]
    )
    assert settings.arguments == {
        "PIP_INDEX_URL": "https://nearer.example/simple",
        "PIP_FIND_LINKS": "/no/such/folder https://wheels.example/",
    }
    assert settings.mounts == {}


def test_folders_of_this_machine_are_mounted_under_another_name(tmp_path: Path) -> None:
    """Wheel folders, indexes on disk with the files beside them, and certificates show below /mnt/pip."""
    wheels, index, certificates = tmp_path / "wheels", tmp_path / "index" / "simple", tmp_path / "certs"
    for folder in (wheels, index, certificates):
        folder.mkdir(parents=True)
    (certificates / "all.crt").touch()
    settings = read_settings(
        [
            f"global.find-links='{wheels}'",
            f"global.extra-index-url='file://{index}'",
            f"global.cert='{certificates}/all.crt'",
        ]
    )
    places = settings.mounts
    assert set(places) == {str(wheels), str(index.parent), str(certificates)}
    assert settings.arguments == {
        "PIP_FIND_LINKS": places[str(wheels)],
        "PIP_EXTRA_INDEX_URL": f"file://{places[str(index.parent)]}/simple",
        "PIP_CERT": f"{places[str(certificates)]}/all.crt",
    }
    assert all(place.startswith("/mnt/pip/") for place in places.values())
    command = build_command(build(), tool="buildah", pip=settings, revision="abc")
    assert f"{wheels}:{places[str(wheels)]}:ro" in command
    assert settings.public == {}
    docker = build_command(build(), tool="docker", pip=settings, revision="abc")
    assert not [word for word in docker if "/mnt/pip" in word], "docker can mount no folder in a build"


@pytest.mark.parametrize("tool", ["docker", "buildah"])
def test_the_command_says_what_is_built(tool: str) -> None:
    """Tool, base, version, revision, tag and file; a health check needs Docker's format, which buildah must be told."""
    command = build_command(build(BASE_IMAGE="base:1"), tool=tool, pip=_NONE, revision="abc")
    assert command[:2] == [tool, "build"]
    assert ("--format" in command) == (tool == "buildah")
    for word in ("BASE_IMAGE=base:1", f"VERSION={tag('cpu').partition('-')[0]}", "REVISION=abc"):
        assert command[command.index(word) - 1] == "--build-arg"
    assert command[command.index("--tag") + 1] == f"registry.example/eagle3:{tag('cpu')}"
    assert Path(command[command.index("--file") + 1]).parent.name == "cpu"


def test_shows_no_password() -> None:
    """The command is shown without the user and password of an index."""
    assert shown(["buildah", "--build-arg", "PIP_INDEX_URL=https://me:secret@mirror.example/simple"]) == (
        "buildah --build-arg PIP_INDEX_URL=https://***@mirror.example/simple"
    )


def test_refuses_unknown_images_and_missing_tools(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 2 for an image that does not exist; and one line where no builder is installed."""
    done = subprocess.run(
        [sys.executable, "-m", "images.build_image", "rocm"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "rocm" in done.stderr
    monkeypatch.setenv("PATH", "")
    assert main(["cpu"]) == 2
    assert "install one of them" in capsys.readouterr().err


def test_bill_of_materials_reads_debian() -> None:
    """Installed packages with their versions; those that were removed but left their settings are none."""
    status = (
        "Package: libc6\nStatus: install ok installed\nVersion: 2.36-9+deb12u13\nArchitecture: amd64\n"
        "Description: library\n more: text\n\n"
        "Package: gone\nStatus: deinstall ok config-files\nVersion: 1\nArchitecture: amd64\n"
    )
    (component,) = debian_components(status, distribution="debian")
    assert component["purl"] == "pkg:deb/debian/libc6@2.36-9%2Bdeb12u13?arch=amd64"


def test_bill_of_materials_is_reproducible(tmp_path: Path) -> None:
    """The same distributions give the same document in any order; another version gives another serial number."""
    for name, version in (("Some_Thing", "1.0"), ("other", "2.0+cpu")):
        folder = tmp_path / f"{name}-{version}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(
            f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\nLicense-Expression: MIT\n"
        )
    components = list(python_components([tmp_path]))
    assert {component["purl"] for component in components} == {"pkg:pypi/some-thing@1.0", "pkg:pypi/other@2.0%2Bcpu"}
    assert components[0]["licenses"] == [{"expression": "MIT"}]
    bill = document("eagle3", "1", components)
    assert bill == document("eagle3", "1", [*components[::-1], components[0]])
    assert bill["serialNumber"] != document("eagle3", "2", components)["serialNumber"]
