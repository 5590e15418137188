"""Writes the bill of materials of an image, as CycloneDX: `python3 infra/images/bill.py sangam-pipeline.oci.tar`.

It lists what the image's own files say: the packages of Debian or Ubuntu, Python, and every Python package, with pip
and what packages carry inside. The same image gives the same bytes.
"""

import email
import json
import re
import sys
import urllib.parse
import uuid
from pathlib import Path
from typing import Any

import archive

_DPKG = "var/lib/dpkg/status"
_RELEASE = ("etc/os-release", "usr/lib/os-release")
_VIRTUAL = "pyvenv.cfg"
_METADATA = re.compile(r"\.(dist|egg)-info/(METADATA|PKG-INFO)$")
_LICENSE = "License :: "
_OURS = "org.opencontainers.image."


def is_read(path: str) -> bool:
    """Says whether a file tells of something installed."""
    return path == _DPKG or path in _RELEASE or path.endswith(f"/{_VIRTUAL}") or _METADATA.search(path) is not None


def bill(image: archive.Image) -> dict[str, Any]:
    """Returns the bill of an image."""
    given = image.config["config"].get("Labels") or {}
    labels = {name[len(_OURS) :]: text for name, text in given.items() if name.startswith(_OURS)}
    about: dict[str, Any] = {
        "type": "container",
        "bom-ref": image.digest,
        "name": labels.get("title", "image"),
        "version": labels.get("version", image.digest),
        "properties": [{"name": f"label:{name}", "value": text} for name, text in sorted(labels.items())],
    }
    metadata: dict[str, Any] = {"component": about}
    if "created" in labels:
        metadata["timestamp"] = labels["created"]
    found = [*_of_the_system(image.kept), *_pythons(image.kept), *_packages(image.kept)]
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, image.digest)}",
        "version": 1,
        "metadata": metadata,
        "components": sorted(found, key=lambda component: str(component["bom-ref"])),
    }


def _component(kind: str, name: str, version: str, purl: str, path: str, license: str = "") -> dict[str, Any]:
    component: dict[str, Any] = {
        "type": kind,
        "bom-ref": f"{purl}#{path}",
        "name": name,
        "version": version,
        "purl": purl,
        "properties": [{"name": "path", "value": f"/{path}"}],
    }
    if license:
        component["licenses"] = [{"license": {"name": license}}]
    return component


def _of_the_system(kept: dict[str, bytes]) -> list[dict[str, Any]]:
    release = next((kept[path].decode() for path in _RELEASE if kept.get(path)), "")
    named = dict(re.findall(r'^(\w+)="?([^"\n]*)"?$', release, re.MULTILINE))
    system, number = named.get("ID", "debian"), named.get("VERSION_ID", "")
    components = []
    for text in kept.get(_DPKG, b"").decode().split("\n\n"):
        package = email.message_from_string(text)
        if package.get("Status", "").endswith(" installed"):
            name, version, machine = (str(package[key]) for key in ("Package", "Version", "Architecture"))
            purl = f"pkg:deb/{system}/{_quoted(name)}@{_quoted(version)}?arch={machine}&distro={system}-{number}"
            components.append(_component("library", name, version, purl, _DPKG))
    return components


def _pythons(kept: dict[str, bytes]) -> list[dict[str, Any]]:
    components = []
    for path in (path for path in kept if path.endswith(_VIRTUAL)):
        settings = dict(re.findall(r"^(\w+) *= *(\S+)$", kept[path].decode(), re.MULTILINE))
        version = settings.get("version_info") or settings["version"]
        home = f"{settings['home'].lstrip('/')}/python3"
        purl = f"pkg:generic/python@{version}"
        components.append(_component("application", "python", version, purl, home, "PSF-2.0"))
    return components


def _packages(kept: dict[str, bytes]) -> list[dict[str, Any]]:
    components = []
    for path in (path for path in kept if _METADATA.search(path)):
        package = email.message_from_bytes(kept[path])
        name, version = str(package["Name"]), str(package["Version"])
        purl = f"pkg:pypi/{_quoted(re.sub(r'[-_.]+', '-', name).lower())}@{_quoted(version)}"
        components.append(_component("library", name, version, purl, path, _license(package)))
    return components


def _license(package: "email.message.Message") -> str:
    expression, text = str(package.get("License-Expression", "")), str(package.get("License", "")).strip()
    classified = [line.rpartition(" :: ")[2] for line in package.get_all("Classifier", []) if line.startswith(_LICENSE)]
    # Some put the whole text there.
    return expression or "; ".join(sorted(classified)) or (text if len(text) < 100 and "\n" not in text else "")


def _quoted(text: str) -> str:
    return urllib.parse.quote(text, safe="+~:")


def main() -> None:
    """Prints the bill of the archive that is named on the command line."""
    image = archive.read(Path(sys.argv[1]), is_read)
    json.dump(bill(image), sys.stdout, indent=1, sort_keys=True)
    print()


if __name__ == "__main__":
    main()
