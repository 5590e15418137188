"""Writes small OCI archives, as `docker`, `podman` and `buildah` write large ones."""

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def write_archive(path: Path, layers: Sequence[Mapping[str, str]], config: Mapping[str, Any] | None = None) -> None:
    """Writes an image of layers that are given as path to text.

    A path that ends in "/" is a folder; one that ends in "!666" has this mode.
    """
    with tarfile.open(path, "w") as archive:
        described = [_add(archive, gzip.compress(_tar(layer), mtime=0)) for layer in layers]
        for layer in described:
            layer["mediaType"] = "application/vnd.oci.image.layer.v1.tar+gzip"
        settings = _add(archive, json.dumps({"config": dict(config or {})}).encode())
        manifest = _add(archive, json.dumps({"config": settings, "layers": described}).encode())
        _write(archive, "index.json", json.dumps({"manifests": [manifest]}).encode())


def _add(archive: tarfile.TarFile, blob: bytes) -> dict[str, Any]:
    digest = hashlib.sha256(blob).hexdigest()
    _write(archive, f"blobs/sha256/{digest}", blob)
    return {"digest": f"sha256:{digest}", "size": len(blob)}


def _tar(files: Mapping[str, str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as layer:
        for name, text in files.items():
            _write(layer, name, text.encode())
    return buffer.getvalue()


def _write(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    path, _, mode = name.partition("!")
    member = tarfile.TarInfo(path.rstrip("/"))
    member.mode, member.size = int(mode or "644", 8), len(content)
    if name.endswith("/"):
        member.type, member.mode = tarfile.DIRTYPE, 0o755
    archive.addfile(member, io.BytesIO(content))
