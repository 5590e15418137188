"""The manifest: the file that makes a folder of arrays a checkpoint, and lists its contents."""

import json
import re
import zlib
from pathlib import Path
from typing import Literal

from pydantic import Field

from sangam.schemas.contracts.calibration import Calibration
from sangam.schemas.contracts.formats import refuse_other_format
from sangam.schemas.errors import UserError
from sangam.schemas.parts.base import FrozenModel
from sangam.trainer_module.checkpoint.files import CheckpointError, DamagedError, FileRecord
from sangam.trainer_module.input.position import Position

FORMAT: Literal[1] = 1
MANIFEST = "manifest.json"
_REMEDY = "another version has written it: train from scratch with training.mode: full"
_SAFE = re.compile(r"[A-Za-z0-9_-]+")


class GroupLayout(FrozenModel):
    """A group of tables that share a physical table; see `sangam.trainer_module.embedding`."""

    dim: int
    optimizer: str
    tables: dict[str, int]
    """Tags of the tables, the high bits of their keys, by name."""
    width: int
    tracks_usage: bool


class WeightLayout(FrozenModel):
    """A dense weight; `blocks` as in `sangam.schemas.parts.weight.Weight`."""

    name: str
    shape: tuple[int, ...]
    blocks: tuple[tuple[tuple[str, int], ...] | None, ...] = ()


class Manifest(FrozenModel):
    """The contents of a checkpoint."""

    format: Literal[1] = FORMAT
    step: int
    ranks: int
    servers: int = 0
    """Number of parameter servers, which wrote the rows; 0: the ranks wrote them."""
    spec_digest: str
    job_digest: str
    """Digest of everything that decides the result of the job: only an equal job resumes from here."""
    seed: int
    days: tuple[str, ...]
    """All days trained on, those of the base included."""
    position: Position
    dense_precision: str = "float32"
    """Precision of the dense layers; never `auto`."""
    best_step: int | None = None
    """Step of the best epoch's checkpoint, which may become the result; None without early stopping."""
    calibrations: dict[str, Calibration] = Field(default_factory=dict)
    """Calibrations by task, fitted once training has ended."""
    groups: dict[str, GroupLayout]
    weights: tuple[WeightLayout, ...]
    files: dict[str, FileRecord] = Field(default_factory=dict)

    @property
    def owners(self) -> int:
        """Processes that owned and wrote the rows."""
        return self.servers or self.ranks


def record_of(directory: Path, manifest: Manifest, file: str) -> FileRecord:
    """Returns the record of a file.

    Raises:
        DamagedError: when the checkpoint should hold the file and does not.
    """
    if file not in manifest.files:
        raise DamagedError(f"{directory}: lacks {file}; the checkpoint is damaged: start from another one")
    return manifest.files[file]


def rows_file(rank: int, group: str, array: str) -> str:
    """Returns the name of an owner's `keys`, `rows`, `blocks` or, under its own name, other array of a group."""
    return f"rank-{rank:05d}.{_safe(group)}.{_safe(array)}.npy"


def batches_file(rank: int) -> str:
    """Returns the name of a rank's list of the pool's batches it has trained on."""
    return f"rank-{rank:05d}.batches.npy"


def dense_file(moment: str) -> str:
    """Returns the name of the file of all dense weights, or one moment of them: the weights of the manifest in turn."""
    return f"dense.{_safe(moment)}.npy"


def extra_file(name: str) -> str:
    """Returns the name of the file of an array that is equal on all ranks."""
    return f"all.{_safe(name)}.npy"


def _safe(name: str) -> str:
    if not _SAFE.fullmatch(name):
        raise ValueError(f"checkpoint: a name becomes part of a file's (got {name!r}); letters, digits, _ and - only")
    return name


def encode(manifest: Manifest) -> bytes:
    """Returns the manifest's file: one line of JSON, and its checksum on the next."""
    body = manifest.model_dump_json().encode()
    return body + _seal(body)


def _seal(body: bytes) -> bytes:
    return b"\n" + json.dumps({"crc32": zlib.crc32(body)}).encode() + b"\n"


def read_manifest(directory: Path) -> Manifest:
    """Reads a checkpoint's manifest.

    Raises:
        CheckpointError: when there is none, it is damaged, or of another format.
    """
    path = directory / MANIFEST
    try:
        content = path.read_bytes()
    except OSError as error:
        raise CheckpointError(
            f"{directory}: is no checkpoint (got {error.strerror} for {MANIFEST}); name a folder that holds one"
        ) from error
    body = content.split(b"\n", 1)[0]
    if content != body + _seal(body):
        raise DamagedError(
            f"{path}: is not what was written (got {len(content)} bytes whose checksum differs); the checkpoint is "
            "damaged: restore it from a backup, or start from another one"
        )
    try:
        refuse_other_format(path, json.loads(body), FORMAT, _REMEDY)
        return Manifest.model_validate_json(body)
    except UserError as error:
        raise CheckpointError(str(error)) from None
    except ValueError as error:  # Also pydantic's.
        raise CheckpointError(f"{path}: cannot be read (got {error}); {_REMEDY}") from error
