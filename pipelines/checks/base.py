"""`sangam validate --base`: the parts of a base that incremental training would keep, reanalyze or drop.

Reads only JSON files: the record of the blessed model or of the run, the checkpoint's manifest, and the statistics
beside Transform's graph. Nothing here imports TensorFlow.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sangam.components.registry.base import base_for
from sangam.components.registry.record import read_records
from sangam.components.steps.transform.code import transform_code
from sangam.schemas.contracts.root import Root, RunFolder
from sangam.schemas.contracts.statistics import (
    FILE_NAME,
    Comparison,
    Statistics,
    compared,
    is_analyzed,
    parse_statistics,
)
from sangam.schemas.contracts.training_job import JOB_FILE, read_job
from sangam.schemas.derived.weights import dense_weights
from sangam.schemas.errors import UserError
from sangam.schemas.spec import Spec
from sangam.trainer_module.checkpoint.fit import Fit, fit
from sangam.trainer_module.checkpoint.layout import weight_layouts
from sangam.trainer_module.checkpoint.manifest import MANIFEST, Manifest, read_manifest

_CHECKPOINT = "checkpoint"
_AFTER_ALL_DAYS = "9999-12-31"


@dataclass(frozen=True)
class Base:
    """The model that incremental training starts from.

    Attributes:
        checkpoint: folder of the checkpoint.
        graph: folder of the Transform graph.
    """

    checkpoint: Path
    graph: Path


@dataclass(frozen=True)
class Difference:
    """The parts of a base that a spec keeps or drops: weights and tables (`fit`), and statistics of features."""

    manifest: Manifest
    fit: Fit
    statistics: Comparison


def find_base(folder: Path, name: str) -> Base:
    """Returns the base that the next date would start from in a root, or the model that a run has trained.

    Args:
        folder: a root, or the folder of a run.
        name: name of the ranker.

    Raises:
        UserError: the folder is neither, or holds no base.
    """
    if RunFolder(folder).summary.is_file():
        return _base_of_run(folder)
    records = Path(Root(str(folder)).blessed(name))
    if not records.is_dir():
        raise UserError(
            f"--base: holds no blessed model of '{name}' (got {folder}); give the root of runs of {name}, or the "
            "folder of one run, ROOT/runs/RUN"
        )
    choice = base_for(
        read_records(folder, name),
        before=_AFTER_ALL_DAYS,
        exists=lambda uri: Path(uri, _CHECKPOINT, MANIFEST).is_file(),
    )
    if choice.base is None:
        raise UserError(
            f"--base: no checkpoint of a blessed '{name}' is left (got {folder}); the next run trains from scratch"
        )
    return Base(Path(choice.base.checkpoint_uri) / _CHECKPOINT, Path(choice.base.transform_graph_uri))


def _base_of_run(folder: Path) -> Base:
    jobs = sorted(folder.rglob(JOB_FILE))
    if not jobs:
        raise UserError(
            f"--base: the run took its model from the cache (got {folder}); give the run that trained it, or the root"
        )
    job = read_job(jobs[-1])
    return Base(Path(job.final_checkpoint), Path(job.transform_graph))


def difference(spec: Spec, base: Base) -> Difference:
    """Returns the parts of a base that a spec keeps or drops.

    Raises:
        CheckpointError: the checkpoint is missing or damaged, or a table of the same name has a different layout.
        UserError: the file of statistics is damaged, or of another format.
    """
    manifest = read_manifest(base.checkpoint)
    statistics, lost = _statistics(base.graph / FILE_NAME)
    comparison = compared(spec, statistics, code=transform_code(parts=spec.parts), lost=lost)
    layouts = weight_layouts(dense_weights(spec))
    kept = fit(manifest, spec, layouts, tuple(comparison.changed), source=str(base.checkpoint))
    return Difference(manifest, kept, comparison)


def _statistics(file: Path) -> tuple[Statistics | None, str]:
    if not file.is_file():
        return None, f"the statistics of the features are gone ({file})"
    return parse_statistics(str(file), file.read_bytes()), ""


def lines(spec: Spec, changes: Difference) -> Iterator[str]:
    """Yields the lines to print: parts that are kept, analyzed, started fresh and dropped, by kind."""
    days = changes.manifest.days
    yield f"base: step {changes.manifest.step}" + (f", trained on {days[0]} to {days[-1]}" if days else "")
    statistics = changes.statistics
    if statistics.lost:
        yield f"note: {statistics.lost}: no statistics are kept"
    yield from _by_kind("keeps", [*changes.fit.loaded, *_named(spec, statistics.kept)])
    analyzed = [f"statistics.{name} (new)" for name in statistics.new if is_analyzed(spec, name)]
    for name, what in statistics.changed.items():
        if is_analyzed(spec, name):
            analyzed.append(f"statistics.{name}" + ("" if statistics.lost else f" ({what})"))
    yield from _by_kind("analyzes", analyzed)
    yield from _by_kind("starts fresh", changes.fit.new)
    yield from _by_kind("drops", [*changes.fit.dropped, *(f"statistics.{name}" for name in statistics.dropped)])


def _named(spec: Spec, names: Iterable[str]) -> list[str]:
    return [f"statistics.{name}" for name in names if is_analyzed(spec, name)]


def _by_kind(verb: str, names: Sequence[str]) -> Iterator[str]:
    for kind in ("tables", "weights", "statistics"):
        of_kind = [name.removeprefix(f"{kind}.") for name in names if name.startswith(f"{kind}.")]
        if of_kind:
            yield f"{verb} {kind}: {', '.join(of_kind)}"
