"""`sangam validate --base`: what an incremental training of a spec would keep of a base, analyze anew and drop.

From plain data alone: the record of the blessing or of the run, the checkpoint's manifest, the statistics beside
Transform's graph. Nothing here imports TensorFlow.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from components.registry.base import base_for
from components.registry.record import ENTRY, BlessedModel, mark_withdrawn
from components.registry.versions import WITHDRAWN
from components.steps.transform.code import transform_code
from schemas.contracts.statistics import FILE_NAME, Comparison, Statistics, compared, is_analyzed
from schemas.contracts.training_job import JOB_FILE, read_job
from schemas.derived.weights import dense_weights
from schemas.errors import UserError
from schemas.spec import Spec
from trainer_module.checkpoint.fit import Fit, fit
from trainer_module.checkpoint.layout import weight_layouts
from trainer_module.checkpoint.manifest import MANIFEST, Manifest, read_manifest

_BLESSED, _CHECKPOINT, _SUMMARY = "blessed", "checkpoint", "summary.json"
_AFTER_ALL_DAYS = "9999-12-31"


@dataclass(frozen=True)
class Known:
    """What a base has left.

    Attributes:
        checkpoint: its folder.
        graph: folder of Transform's graph.
    """

    checkpoint: Path
    graph: Path


@dataclass(frozen=True)
class Difference:
    """What becomes of a base: weights and tables, and statistics of features."""

    manifest: Manifest
    fit: Fit
    statistics: Comparison


def find_base(given: Path, name: str) -> Known:
    """Returns the base in a root, the one that the next date would start from, or what a run has trained.

    Args:
        given: a root or a run's folder.
        name: of the ranker.

    Raises:
        UserError: neither, or one that holds no base.
    """
    if (given / _SUMMARY).is_file():
        return _of_run(given)
    records = given / _BLESSED / name
    if not records.is_dir():
        raise UserError(
            f"--base: holds no blessed model of '{name}' (got {given}); give a root that {name} was run in, or the "
            "folder of a run, ROOT/runs/RUN"
        )
    read = [model for file in sorted(records.iterdir()) if ENTRY.match(file.name) and (model := _read(file))]
    models = mark_withdrawn(read, lambda target: (found.name for found in (given / target).glob(f"{WITHDRAWN}/*")))
    choice = base_for(models, before=_AFTER_ALL_DAYS, is_there=lambda uri: Path(uri, _CHECKPOINT, MANIFEST).is_file())
    if choice.base is None:
        raise UserError(f"--base: no blessed checkpoint of '{name}' is left (got {given}); the next run trains anew")
    return Known(Path(choice.base.checkpoint_uri) / _CHECKPOINT, Path(choice.base.transform_graph_uri))


def _of_run(folder: Path) -> Known:
    jobs = sorted(folder.rglob(JOB_FILE))
    if not jobs:
        raise UserError(
            f"--base: the run has trained nothing itself (got {folder}); give the run that did, or the root"
        )
    job = read_job(jobs[-1])
    return Known(Path(job.final_checkpoint), Path(job.transform_graph))


def _read(file: Path) -> BlessedModel | None:
    """Returns a record; None where a number was taken for one that is being written."""
    try:
        content = file.read_bytes()
        return BlessedModel.model_validate_json(content) if content else None
    except (OSError, ValidationError) as error:
        raise UserError(f"{file}: not a readable record of a blessed model (got {error}); restore it") from error


def difference(spec: Spec, base: Known) -> Difference:
    """Returns what becomes of a base.

    Raises:
        CheckpointError: it is gone or damaged, or a table of the same name has other rows.
        UserError: the file of statistics is damaged.
    """
    manifest = read_manifest(base.checkpoint)
    statistics, lost = _statistics(base.graph / FILE_NAME)
    comparison = compared(spec, statistics, code=transform_code(), lost=lost)
    layouts = weight_layouts(dense_weights(spec))
    told = fit(manifest, spec, layouts, tuple(comparison.changed), source=str(base.checkpoint))
    return Difference(manifest, told, comparison)


def _statistics(file: Path) -> tuple[Statistics | None, str]:
    if not file.is_file():
        return None, f"the statistics of the features are gone ({file})"
    try:
        return Statistics.model_validate_json(file.read_bytes()), ""
    except ValidationError as error:
        raise UserError(f"{file}: is not what this version writes (got {error}); train with mode: full") from error


def sentences(spec: Spec, found: Difference) -> Iterator[str]:
    """Yields what to tell: what is kept, analyzed, begun anew and dropped, by kind."""
    days = found.manifest.days
    yield f"base: step {found.manifest.step}" + (f", knows the days {days[0]} to {days[-1]}" if days else "")
    statistics = found.statistics
    if statistics.lost:
        yield f"note: {statistics.lost}: no statistics are kept"
    yield from _of_kinds("keeps", [*found.fit.loaded, *_named(spec, statistics.kept)])
    anew = [f"statistics.{name} (new)" for name in statistics.new if is_analyzed(spec, name)]
    for name, what in statistics.changed.items():
        if is_analyzed(spec, name):
            anew.append(f"statistics.{name}" + ("" if statistics.lost else f" ({what})"))
    yield from _of_kinds("analyses", anew)
    yield from _of_kinds("starts anew", found.fit.new)
    yield from _of_kinds("drops", [*found.fit.dropped, *(f"statistics.{name}" for name in statistics.dropped)])


def _named(spec: Spec, names: Iterable[str]) -> list[str]:
    return [f"statistics.{name}" for name in names if is_analyzed(spec, name)]


def _of_kinds(verb: str, names: Sequence[str]) -> Iterator[str]:
    for kind in ("tables", "weights", "statistics"):
        of_kind = [name.removeprefix(f"{kind}.") for name in names if name.startswith(f"{kind}.")]
        if of_kind:
            yield f"{verb} {kind}: {', '.join(of_kind)}"
