"""What is read from images that were built: what they hold, and what is wrong with them."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from tests.security.oci_archive import write_archive

STATUS = """Package: bash
Status: install ok installed
Architecture: amd64
Version: 5.2.15-2+b2

Package: gone
Status: deinstall ok config-files
Architecture: amd64
Version: 1

Package: libssl3
Status: install ok installed
Architecture: amd64
Version: 3.0.17-1~deb12u2
"""
PACKAGES = "opt/sangam/lib/python3.11/site-packages"
LABELS = {
    "io.buildah.version": "1.28.2",
    "org.opencontainers.image.title": "sangam-pipeline",
    "org.opencontainers.image.version": "0.1.0",
    "org.opencontainers.image.created": "2026-03-01T10:00:00Z",
}
LAYERS = [
    {
        "etc/os-release": 'ID=debian\nVERSION_ID="12"\n',
        "var/lib/dpkg/status": STATUS,
        "usr/lib/python3/pip-23.0.1.dist-info/METADATA": "Name: pip\nVersion: 23.0.1\nLicense: MIT\n",
    },
    {
        "opt/sangam/pyvenv.cfg": "home = /usr/local/bin\nversion_info = 3.11.7\n",
        f"{PACKAGES}/numpy-1.26.4.dist-info/METADATA": "Name: numpy\nVersion: 1.26.4\n"
        "Classifier: License :: OSI Approved :: BSD License\n\nA text.\n",
        f"{PACKAGES}/old-1.dist-info/METADATA": "Name: old\nVersion: 1\n",
        f"{PACKAGES}/older/": "",
        f"{PACKAGES}/older/a-1.dist-info/METADATA": "Name: a\nVersion: 1\n",
    },
    {
        f"{PACKAGES}/.wh.old-1.dist-info": "",
        f"{PACKAGES}/older/.wh..wh..opq": "",
        f"{PACKAGES}/Some.Thing-2.dist-info/METADATA": "Name: Some.Thing\nVersion: 2\nLicense-Expression: MIT\n",
    },
]


@pytest.fixture
def bill(tmp_path: Path, repository: Path) -> dict[str, Any]:
    write_archive(tmp_path / "a.oci.tar", LAYERS, {"Labels": LABELS})
    command = [sys.executable, str(repository / "infra" / "images" / "bill.py"), str(tmp_path / "a.oci.tar")]
    texts = [subprocess.run(command, check=True, capture_output=True, text=True, timeout=30).stdout for _ in range(2)]
    assert texts[0] == texts[1]
    assert JsonStrictValidator(SchemaVersion.V1_5).validate_str(texts[0]) is None
    found: dict[str, Any] = json.loads(texts[0])
    return found


def test_a_bill_lists_the_system_python_and_packages_pip_included(bill: dict[str, Any]) -> None:
    assert [component["purl"] for component in bill["components"]] == [
        "pkg:deb/debian/bash@5.2.15-2+b2?arch=amd64&distro=debian-12",
        "pkg:deb/debian/libssl3@3.0.17-1~deb12u2?arch=amd64&distro=debian-12",
        "pkg:generic/python@3.11.7",
        "pkg:pypi/numpy@1.26.4",
        "pkg:pypi/pip@23.0.1",
        "pkg:pypi/some-thing@2",
    ]
    licensed = [found for found in bill["components"] if "licenses" in found]
    licenses = {found["name"]: found["licenses"][0]["license"]["name"] for found in licensed}
    assert licenses == {"python": "PSF-2.0", "numpy": "BSD License", "pip": "MIT", "Some.Thing": "MIT"}


def test_a_bill_names_its_image(bill: dict[str, Any]) -> None:
    about = bill["metadata"]["component"]
    assert (about["type"], about["name"], about["version"]) == ("container", "sangam-pipeline", "0.1.0")
    assert about["bom-ref"].startswith("sha256:")
    assert bill["metadata"]["timestamp"] == "2026-03-01T10:00:00Z"


SETTINGS: dict[str, Any] = {
    "User": "10001:10001",
    "Cmd": ["sangam", "--help"],
    "Labels": {**LABELS, "org.opencontainers.image.revision": "a", "org.opencontainers.image.licenses": "Apache-2.0"},
}
COMPILED = {
    f"{PACKAGES}/{package}/__pycache__/__init__.cpython-311.pyc": ""
    for package in ("sangam", "sangam/schemas", "sangam/trainer_module", "tensorflow", "tfx")
}


def _check(folder: Path, repository: Path, pipeline: Any, trainer: Any, again: Any = None) -> tuple[int, list[str]]:
    for build, layers in (("first", pipeline), ("second", again or pipeline)):
        (folder / build).mkdir()
        write_archive(folder / build / "sangam-pipeline.oci.tar", *layers)
        write_archive(folder / build / "sangam-trainer.oci.tar", *trainer)
    script = repository / "infra" / "images" / "check.py"
    command = [sys.executable, str(script), str(folder / "first"), str(folder / "second")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.stderr == ""
    return done.returncode, done.stdout.splitlines()


GOOD = ([COMPILED, {"opt/sangam/bin/sangam": "#!"}], SETTINGS)


def test_images_that_are_as_they_have_to_be_pass(tmp_path: Path, repository: Path) -> None:
    code, lines = _check(tmp_path, repository, GOOD, GOOD)
    assert (code, lines[-1]) == (0, "both images are as they have to be")
    assert len([line for line in lines if line.startswith("  layer sha256:")]) == 4


def test_two_builds_that_differ_are_found_with_the_files(tmp_path: Path, repository: Path) -> None:
    other = ([COMPILED, {"opt/sangam/bin/sangam": "#!/"}], SETTINGS)
    code, lines = _check(tmp_path, repository, GOOD, GOOD, other)
    assert code == 1
    assert [line.split(" (")[0] for line in lines if line.startswith("pipeline: ") and " files, " not in line] == [
        "pipeline: two builds of one commit are two images",
        "pipeline: /opt/sangam/bin/sangam: differs",
        "pipeline: files that differ: 1 of 6",
    ]


@pytest.mark.parametrize(
    ("layers", "settings", "found"),
    [
        ([{**COMPILED, f"{PACKAGES}/tests/": ""}, {}], {}, f"/{PACKAGES}/tests: must not be there"),
        ([{**COMPILED, "etc/pip.conf": "[global]"}, {}], {}, "/etc/pip.conf: must not be there"),
        ([{**COMPILED, "opt/sangam/open!666": ""}, {}], {}, "/opt/sangam/open: anybody may write to it (got mode 666)"),
        ([COMPILED, {}], {"Cmd": ["bash"]}, "must print help as 10001:10001 (got ['bash'] as 10001:10001)"),
        ([COMPILED, {}], {"User": ""}, "must print help as 10001:10001 (got ['sangam', '--help'] as )"),
        ([COMPILED, {}], {"Labels": LABELS}, "lacks the label revision"),
        ([{}, {}], {}, f"/{PACKAGES}/tensorflow: is not compiled"),
    ],
)
def test_an_image_that_is_not_as_it_has_to_be_is_found(
    tmp_path: Path, repository: Path, layers: list[dict[str, str]], settings: dict[str, Any], found: str
) -> None:
    code, lines = _check(tmp_path, repository, (layers, {**SETTINGS, **settings}), GOOD)
    assert code == 1
    assert f"pipeline: {found}" in lines


def test_images_that_do_not_share_their_packages_are_found(tmp_path: Path, repository: Path) -> None:
    other = ([{**COMPILED, "opt/sangam/a": ""}, {"opt/sangam/bin/sangam": "#!"}], SETTINGS)
    code, lines = _check(tmp_path, repository, GOOD, other)
    assert code == 1
    assert lines[-1].startswith("pipeline and trainer: must share the layer of the packages")


def test_the_check_says_at_once_what_it_lacks(tmp_path: Path, repository: Path) -> None:
    (tmp_path / "requirements.runtime.lock").touch()
    (tmp_path / "bin").mkdir()
    for tool in ("bash", "df", "dirname", "mkdir", "sed", "tail", "tr"):
        (tmp_path / "bin" / tool).symlink_to(shutil.which(tool) or tool)
    done = subprocess.run(
        ["bash", str(repository / "infra" / "images" / "check.sh")],
        cwd=tmp_path,
        env={"PATH": str(tmp_path / "bin")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    for lacking in ("buildah (", "debootstrap (", "Python 3.11 in .venv (make setup)"):
        assert lacking in done.stderr
    assert len(done.stderr.splitlines()) == 1
