"""The release command: one version everywhere, packaged charts, signatures that verify."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
import tarfile

import helm_python
import pytest

from chart_doubles import ROOT, render
from eagle3.errors import ConfigError
from images.build_image import tag as image_tag
from infra.release import CHARTS, PLACES, current, disagreements, main, package, set_version, signing_key
from infra.settings.endpoint_facts import RELEASE
from infra.settings.workload import WorkloadSettings

gpg = pytest.mark.skipif(shutil.which("gpg") is None, reason="GnuPG is not installed")


@pytest.fixture
def tree(tmp_path):
    """A copy of what states the version, and of the charts."""
    root = tmp_path / "tree"
    for path in {place.path for place in PLACES} | {"CHANGELOG.md"}:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, root / path)
    for name in CHARTS:
        shutil.copytree(ROOT / "charts" / name, root / "charts" / name, dirs_exist_ok=True)
    return root


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    """A secret keyring, a public keyring and a passphrase file, made for this run."""
    home = tmp_path_factory.mktemp("gnupg")
    home.chmod(0o700)
    base = [
        "gpg",
        "--homedir",
        home,
        "--batch",
        "--quiet",
        "--pinentry-mode",
        "loopback",
        "--passphrase",
        "correct horse",
    ]

    def run(*arguments):
        subprocess.run([*base, *arguments], check=True, capture_output=True, timeout=120)

    run("--quick-generate-key", "eagle3 releases <releases@example.com>", "rsa2048", "sign", "0")
    run("--output", str(home / "secret.gpg"), "--export-secret-keys")
    run("--output", str(home / "public.gpg"), "--export")
    (home / "passphrase").write_text("correct horse\n", encoding="utf-8")
    yield home
    subprocess.run(["gpgconf", "--homedir", home, "--kill", "all"], check=False, capture_output=True, timeout=60)


def environment(keys):
    return {
        "HELM_KEY": "eagle3 releases",
        "HELM_KEYRING": str(keys / "secret.gpg"),
        "HELM_PASSPHRASE_FILE": str(keys / "passphrase"),
    }


def test_all_places_agree():
    """Package, npm project, charts, image tags and stacks state one version, and the CHANGELOG has its section."""
    assert disagreements() == []
    assert main(["check"], {}) == 0


def test_no_place_is_forgotten():
    """Wherever the version stands quoted in what is shipped, the release knows of it."""
    known = {place.path for place in PLACES}
    stated = re.compile(rf"[\"']{re.escape(current())}(-cpu|-cuda[\d.]*)?[\"']")
    endings = (".py", ".yaml", ".json", "Dockerfile")
    shipped = [path for folder in ("infra", "charts", "images", "runtime") for path in (ROOT / folder).rglob("*")]
    code = [path for path in shipped if path.name.endswith(endings) and path.is_file()]
    assert len(code) > 100
    found = {str(path.relative_to(ROOT)) for path in code if stated.search(path.read_text(encoding="utf-8"))}
    assert found - known == set()


@pytest.mark.parametrize("image", ["cpu", "cuda"])
def test_one_tag_for_an_image(image):
    """What `make image` builds is what the chart runs by default, and what the stacks deploy."""
    built = image_tag(image)
    values = {} if image == "cpu" else {"config": {"device": "cuda"}}
    [container] = render(values).only("Deployment")["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"eagle3:{built}"
    deployed = WorkloadSettings().image_tag if image == "cuda" else f"{RELEASE}-cpu"
    assert deployed == built


@pytest.mark.parametrize("index", range(len(PLACES)))
def test_each_place_that_differs_is_named(tree, index):
    """A version changed in one place alone is found, and nothing is packaged; the same tree untouched is fine."""
    assert disagreements(tree) == []
    PLACES[index].write(tree, "9.9.9")
    found = disagreements(tree)
    assert found
    assert any(PLACES[index].path in line for line in found)
    with pytest.raises(ConfigError, match="not packaged"):
        package(tree / "dist", key=None, root=tree)


def test_set_writes_everywhere(tree):
    """`set` leaves only the CHANGELOG to people; its section makes the tree agree."""
    changed = set_version("0.2.0", tree)
    assert set(changed) == {place.path for place in PLACES}
    assert [place.read(tree) for place in PLACES] == ["0.2.0"] * len(PLACES)
    assert json.loads((tree / "package-lock.json").read_text(encoding="utf-8"))["packages"][""]["version"] == "0.2.0"
    assert disagreements(tree) == ["CHANGELOG.md has no section `## [0.2.0] - DATE` with an entry"]
    changelog = (tree / "CHANGELOG.md").read_text(encoding="utf-8")
    entry = "## [0.2.0] - 2027-01-04\n\n### Fixed\n\n- A leak.\n\n## [0.1.0]"
    (tree / "CHANGELOG.md").write_text(changelog.replace("## [0.1.0]", entry, 1), encoding="utf-8")
    assert disagreements(tree) == []
    assert set_version("0.2.0", tree) == []


@pytest.mark.parametrize("version", ["0.2", "v0.2.0", "latest", "0.2.0 ", "0.2.0\n"])
def test_what_is_no_version_is_refused(tree, version):
    """Only MAJOR.MINOR.PATCH is written; the tree stays as it was."""
    with pytest.raises(ConfigError, match=r"MAJOR\.MINOR\.PATCH"):
        set_version(version, tree)
    assert disagreements(tree) == []


def test_charts_are_packaged_with_checksums(tmp_path):
    """Both archives load, hold what a user needs and no test material, and SHA256SUMS fits them."""
    made = package(tmp_path / "dist", key=None)
    assert [path.name for path in made] == [f"{name}-{current()}.tgz" for name in CHARTS] + ["SHA256SUMS"]
    sums = dict(reversed(line.split("  ")) for line in made[-1].read_text(encoding="utf-8").splitlines())
    for path in made[:-1]:
        assert sums[path.name] == hashlib.sha256(path.read_bytes()).hexdigest()
        with helm_python.Chart.load(path) as chart:
            assert chart.version == current()
            assert chart.schema is not None
        with tarfile.open(path) as archive:
            names = {name.partition("/")[2] for name in archive.getnames()}
        assert {"Chart.yaml", "values.yaml", "values.schema.json", "README.md", "templates/NOTES.txt"} <= names


@gpg
def test_signed_charts_verify(tmp_path, keys):
    """Given a key each archive has a provenance file that verifies, and no longer does when the archive changes."""
    made = package(tmp_path / "dist", key=signing_key(environment(keys)))
    archives = [path for path in made if path.suffix == ".tgz"]
    assert [path.suffix for path in made] == [".tgz", ".prov"] * len(CHARTS) + [""]
    for path in archives:
        verified = helm_python.verify(path, keys / "public.gpg")
        assert verified["signed_by"] == ["eagle3 releases <releases@example.com>"]
    archives[0].write_bytes(archives[1].read_bytes())
    with pytest.raises(helm_python.HelmError):
        helm_python.verify(archives[0], keys / "public.gpg")


@gpg
@pytest.mark.parametrize(
    "change",
    [{"HELM_KEY": "nobody"}, {"HELM_PASSPHRASE_FILE": ""}, {"HELM_KEYRING": "/no/such/file"}],
    ids=["unknown key", "locked key", "no keyring"],
)
def test_key_that_cannot_sign_is_refused(tmp_path, keys, change):
    """An unknown or locked key and a missing keyring end with one clear line, never with an unsigned release."""
    with pytest.raises(ConfigError, match=r"could not be packaged|HELM_KEYRING is no file"):
        package(tmp_path / "dist", key=signing_key(environment(keys) | change))
    assert not list(tmp_path.glob("dist/*"))


def test_half_a_key_is_refused():
    """Name and keyring go together; neither means no signature."""
    assert signing_key({}) is None
    for half in ({"HELM_KEY": "a"}, {"HELM_KEYRING": "b"}):
        with pytest.raises(ConfigError, match="go together"):
            signing_key(half)


def test_command_line(tmp_path):
    """`version` prints the version alone; a bad one ends with exit code 2 and one line."""
    command = [sys.executable, "-m", "infra.release"]
    environment = {"PYTHONPATH": f"{ROOT}:{ROOT / 'runtime'}"}

    def run(*more):
        return subprocess.run(
            [*command, *more], cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=120
        )

    assert run("version").stdout == f"{current()}\n"
    refused = run("set", "latest")
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (2, "", 1)
    packaged = run("package", "--out", str(tmp_path / "dist"))
    assert packaged.returncode == 0
    assert packaged.stdout.splitlines()[-1].endswith("SHA256SUMS")
