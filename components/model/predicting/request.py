"""What a job that scores files does: the files, how they are read, and what the predictions have beside scores."""

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from sangam.components.logs.files.light_storage import open_light
from sangam.components.logs.files.listing import THREADS, first_problems
from sangam.components.logs.readers import formats
from sangam.components.logs.readers.batches import Inspection
from sangam.components.logs.readers.jsonl import lines_of
from sangam.components.model.places import Place
from sangam.components.model.predicting.output import Output
from sangam.components.model.predicting.part import LOGS, Scoring
from sangam.components.model.predicting.sources import Format, Source, format_of, sources_of
from sangam.schemas.contracts.export import Description
from sangam.schemas.derived.columns import serving_columns
from sangam.schemas.errors import UserError
from sangam.schemas.parts.columns import Column
from sangam.schemas.problems import listed
from sangam.schemas.spec import Spec
from sangam.schemas.spec.data import Logs, SplitLogs


@dataclass(frozen=True)
class Job:
    """Files to score.

    Attributes:
        scoring: how.
        sources: files that have rows.
        empty: files without rows, which get no part.
        output: where the parts go.
    """

    scoring: Scoring
    sources: tuple[Source, ...]
    empty: tuple[Source, ...]
    output: Output


def job_of(
    place: Place,
    described: Description,
    spec: Spec | None,
    data: str,
    output: str,
    *,
    keep: Sequence[str] | None,
    file_format: Format | None,
) -> Job:
    """Returns the job of a user's request.

    Args:
        place: place of the model.
        described: its description.
        spec: its spec, for the dialect of CSV and the forms of columns; None: defaults.
        data: a file, a folder or a pattern.
        output: folder for the predictions.
        keep: columns of the files that the predictions have too; None: see `_kept`.
        file_format: format of the files; None: by their suffixes.

    Raises:
        UserError: with the problems of all files, at most ten in full.
    """
    sources = sources_of(data)
    if any(source.path.startswith(f"{output.rstrip('/')}/") for source in sources):
        raise UserError(f"--output: the rows are in it (got {output}, for {data}); choose another folder")
    own = serving_columns(described.ranker)
    logs = _logs(spec, file_format or format_of(sources), {column.name for column in own})
    with ThreadPoolExecutor(THREADS) as threads:
        found = list(threads.map(lambda source: _inspected(logs, source, own), sources))
    if problems := [problem for each in found for problem in each.problems]:
        raise UserError("\n".join(first_problems(problems)))
    full = [(source, each) for source, each in zip(sources, found, strict=True) if not each.is_empty]
    if not full:
        raise UserError(f"DATA: has no rows (got {len(sources)} empty files); give files with rows")
    kept = _kept(described, keep, [(source, each.columns or _first_keys(source.path)) for source, each in full])
    scoring = Scoring(model=place.address, model_sha256=place.sha256(), keep=kept, logs=LOGS.dump_json(logs).decode())
    empty = [source for source, each in zip(sources, found, strict=True) if each.is_empty]
    return Job(scoring, tuple(source for source, _ in full), tuple(empty), Output(output))


def _logs(spec: Spec | None, file_format: Format, own: set[str]) -> Logs:
    """Returns how the files are read: as the spec's logs, with forms for the model's columns alone."""
    splits = SplitLogs.Splits(train="*", eval="*")
    given = spec.data if spec else SplitLogs(kind="splits", format=file_format, splits=splits)
    forms = {name: form for name, form in given.columns.items() if name in own}
    return given.model_copy(update={"format": file_format, "columns": forms})


def _inspected(logs: Logs, source: Source, own: Sequence[Column]) -> Inspection:
    try:
        with open_light(source.path) as file:
            return formats.inspect(logs, file, source.path, own)
    except OSError as error:
        return Inspection(problems=(f"{source.path}: cannot be opened (got: {error}); check its permissions",))


def _first_keys(path: str) -> tuple[str, ...]:
    """Returns the keys of the first line of a file of JSON whose values are no lists or objects."""
    with open_light(path) as file:
        first = json.loads(next(lines_of(file, path), b"{}"))
    return tuple(key for key, value in first.items() if not isinstance(value, list | dict))


def _kept(
    described: Description, keep: Sequence[str] | None, columns: Sequence[tuple[Source, Sequence[str]]]
) -> tuple[str, ...]:
    """Returns the columns that the predictions have too.

    By default they are those that the model does not read, and its ids, as far as all files have them: what is needed
    to know the rows. Columns with the name of a task are labels, whose place the predictions take.
    """
    in_all = [name for name in columns[0][1] if all(name in names for _, names in columns)]
    if keep is None:
        own = {column.name: column for column in serving_columns(described.ranker)}
        is_id = {name for name, column in own.items() if column.is_id and not column.is_list}
        return tuple(name for name in in_all if name not in described.tasks and (name not in own or name in is_id))
    for name in keep:
        if name in described.tasks:
            raise UserError(f"--keep: is the name of a task (got '{name}'); leave it out, or rename the column")
        if absent := [(source, names) for source, names in columns if name not in names]:
            source, names = absent[0]
            raise UserError(f"--keep: no such column in {source.path} (got '{name}'); it has {listed(list(names))}")
    return tuple(dict.fromkeys(keep))
