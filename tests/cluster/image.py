"""The image of the tests' pods: an empty root, into which the runtime mounts /usr, Python and the repository."""

import hashlib
import io
import json
import sys
import tarfile
from pathlib import Path

from sangam.trainer_module.native.library import library

PAUSE = "localhost/pause:1"
USER = 10001
_NAME = "registry.example/sangam"
MOUNTED = "/opt/sangam"
"""Where pods see the repository; it may be a folder that a pod's own volumes hide, such as one in /tmp."""
ENVIRONMENT = "/opt/environment"
"""Where pods see the packages of this Python."""
_VENV = "venv"
_FOLDERS = ("usr", "tmp", "etc", "proc", "sys", "dev", "opt", "opt/sangam", "opt/environment", _VENV, f"{_VENV}/bin")
_LINKS = {name: f"usr/{name}" for name in ("bin", "sbin", "lib", "lib64")} | {
    f"{_VENV}/lib": f"{ENVIRONMENT}/lib",
    f"{_VENV}/bin/python": str(Path(sys.executable).resolve()),
}
_TEXTS = {
    "etc/passwd": f"root:x:0:0::/:/bin/sh\nsangam:x:{USER}:{USER}::/tmp:/bin/sh\n",
    "etc/nsswitch.conf": "hosts: files dns\n",
    f"{_VENV}/pyvenv.cfg": f"home = {Path(sys.base_prefix) / 'bin'}\n",
    f"{_VENV}/bin/sangam": f"#!/{_VENV}/bin/python\nfrom sangam.pipelines.cli import main\nmain()\n",
}


def write_image(archive: Path, pause: Path) -> str:
    """Writes an OCI archive with two names for the same small image; returns the reference by digest.

    Args:
        archive: the file to write.
        pause: the program that holds a pod's namespaces, as PAUSE.
    """
    library()  # Pods see this Python's folder, and cannot write to it.
    layer = _layer(pause.read_bytes())
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {
            "User": f"{USER}:{USER}",
            "Env": [f"PATH=/{_VENV}/bin:/usr/bin", f"PYTHONPATH={MOUNTED}", "PYTHONDONTWRITEBYTECODE=1"],
            "WorkingDir": MOUNTED,
            "Entrypoint": ["/pause"],
        },
        "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
    }
    blobs: dict[str, bytes] = {}

    def stored(data: bytes, kind: str) -> dict[str, object]:
        blobs[_digest(data)] = data
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": _digest(data), "size": len(data)}

    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": stored(json.dumps(config).encode(), "config.v1+json"),
        "layers": [stored(layer, "layer.v1.tar")],
    }
    found = stored(json.dumps(manifest).encode(), "manifest.v1+json")
    reference = f"{_NAME}@{found['digest']}"
    names = [{"annotations": {"io.containerd.image.name": name}} for name in (reference, PAUSE)]
    index = {"schemaVersion": 2, "manifests": [found | name for name in names]}
    files = {
        "oci-layout": json.dumps({"imageLayoutVersion": "1.0.0"}).encode(),
        "index.json": json.dumps(index).encode(),
    }
    files |= {f"blobs/{name.replace(':', '/')}": data for name, data in blobs.items()}
    with tarfile.open(archive, "w") as tar:
        for name, data in files.items():
            _add(tar, name, data)
    return reference


def _layer(pause: bytes) -> bytes:
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        for name in _FOLDERS:
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
            tar.addfile(folder)
        for name, target in _LINKS.items():
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, target
            tar.addfile(link)
        for name, content in (*((name, text.encode()) for name, text in _TEXTS.items()), ("pause", pause)):
            _add(tar, name, content)
    return layer.getvalue()


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    file = tarfile.TarInfo(name)
    file.size, file.mode = len(content), 0o755
    tar.addfile(file, io.BytesIO(content))


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"
