"""Reads an OCI archive of an image: its settings, its layers, its files. Needs nothing but Python."""

import hashlib
import json
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any

_INDEX = "application/vnd.oci.image.index.v1+json"
_READABLE = (".tar", ".tar+gzip")
_DELETED = ".wh."
_EMPTIED = ".wh..wh..opq"
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class File:
    """One entry of an image, after all layers; its content is the sha256 of a file, or the target of a link."""

    kind: str
    mode: int
    owner: tuple[int, int]
    modified_s: int
    bytes: int
    content: str


@dataclass(frozen=True)
class Image:
    """What an archive holds.

    Attributes:
        digest: of the manifest.
        config: the image's settings: architecture, command, environment, labels, history.
        layers: digest and compressed size of each.
        files: by path, without a leading slash.
        kept: contents of the files that were asked for, by path.
    """

    digest: str
    config: dict[str, Any]
    layers: list[tuple[str, int]]
    files: dict[str, File]
    kept: dict[str, bytes]


def read(path: Path, keep: Callable[[str], bool] = lambda path: False) -> Image:
    """Reads a whole image.

    Args:
        path: of the archive.
        keep: says of a path whether the file's contents are wanted.
    """
    with tarfile.open(path) as archive:
        described = _json(archive, "index.json")["manifests"][0]
        while described.get("mediaType") == _INDEX:
            described = _json(archive, _blob(described))["manifests"][0]
        manifest = _json(archive, _blob(described))
        image = Image(described["digest"], _json(archive, _blob(manifest["config"])), [], {}, {})
        for layer in manifest["layers"]:
            if not layer["mediaType"].endswith(_READABLE):
                raise SystemExit(f"{path}: a layer cannot be read (got {layer['mediaType']}); tar or gzip")
            image.layers.append((layer["digest"], layer["size"]))
            _apply(_open(archive, _blob(layer)), image, keep)
        return image


def _blob(described: dict[str, Any]) -> str:
    return f"blobs/{described['digest'].replace(':', '/')}"


def _open(archive: tarfile.TarFile, name: str) -> IO[bytes]:
    found = archive.extractfile(name)
    assert found is not None, name
    return found


def _json(archive: tarfile.TarFile, name: str) -> dict[str, Any]:
    with _open(archive, name) as file:
        found: dict[str, Any] = json.load(file)
    return found


def _apply(blob: IO[bytes], image: Image, keep: Callable[[str], bool]) -> None:
    with blob, tarfile.open(fileobj=blob, mode="r|*") as layer:
        for member in layer:
            path = str(PurePosixPath("/", member.name))[1:]
            name = PurePosixPath(path).name
            folder = path[: len(path) - len(name)]
            if name == _EMPTIED:
                _remove(image, folder)
            elif name.startswith(_DELETED):
                gone = folder + name[len(_DELETED) :]
                _remove(image, f"{gone}/")
                image.files.pop(gone, None)
                image.kept.pop(gone, None)
            else:
                image.files[path], content = _file(layer, member, keep(path))
                if content is not None:
                    image.kept[path] = content


def _remove(image: Image, start: str) -> None:
    for path in [path for path in image.files if path.startswith(start)]:
        del image.files[path]
        image.kept.pop(path, None)


def _file(layer: tarfile.TarFile, member: tarfile.TarInfo, is_wanted: bool) -> tuple[File, bytes | None]:
    kind = next(kind for kind in ("reg", "dir", "sym", "lnk", "dev", "fifo") if getattr(member, f"is{kind}")())
    content, kept = member.linkname, None
    if kind == "reg":
        digest, parts = hashlib.sha256(), []
        file = layer.extractfile(member)
        while part := file.read(_CHUNK_BYTES) if file else b"":
            digest.update(part)
            parts += [part] if is_wanted else []
        content, kept = digest.hexdigest(), b"".join(parts) if is_wanted else None
    return File(kind, member.mode, (member.uid, member.gid), int(member.mtime), member.size, content), kept
