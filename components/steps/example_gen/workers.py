"""Reads and converts the log files of a group on a worker of Beam, and writes their examples."""

from collections.abc import Iterator
from dataclasses import replace

import apache_beam as beam
import numpy as np
import pyarrow as pa
from pydantic import BaseModel, ConfigDict

from sangam.components.examples.writer import BlockWriter
from sangam.components.logs.joining.joined_rows import JoinedFolder, read_joined
from sangam.components.logs.negatives.collecting import Catalogs, read_catalog
from sangam.components.logs.negatives.sampled_rows import SampledRows, with_created
from sangam.components.logs.request import Request, relative
from sangam.components.logs.rows.conversion import convert, without
from sangam.components.logs.rows.counts import FileCounts
from sangam.components.logs.rows.file_counting import FileCounting
from sangam.components.logs.rows.limits import limits_of
from sangam.components.logs.rows.sampling import sampled, sampling_of
from sangam.components.logs.rows.shares import share_of
from sangam.components.steps.example_gen.file_groups import FileGroup
from sangam.schemas.errors import UserError


class GroupCounts(BaseModel):
    """A worker's result for a group of files.

    Attributes:
        folder: folder of the files that it wrote.
        names: names of these files.
        counts: counts of each log file.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    folder: str
    names: tuple[str, ...]
    counts: tuple[FileCounts, ...]


class ReadAndWrite(beam.DoFn):
    """Writes the examples of a group of files in the order of the logs, and returns `GroupCounts` as JSON.

    A data error becomes part of the counts, as Beam would wrap, retry, and show only one exception. The executor raises
    all errors after the pipeline.
    """

    def __init__(self, request: Request, joined: JoinedFolder | None, catalogs: Catalogs):
        """Takes the request to ingestion, and the location of the sources' columns and of the candidates, if any."""
        self._request, self._joined, self._catalogs = request, joined, catalogs

    def process(self, group: FileGroup) -> Iterator[str]:
        """Writes one group."""
        counts = []
        with BlockWriter(group.folder, group.day, group.number) as writer:
            for path in group.paths:
                counting = FileCounting(group.split, path)
                try:
                    for batch in self._batches(group, path, counting):
                        writer.write(batch)
                except UserError as mistake:
                    counting.error = str(mistake)
                except OSError as error:
                    counting.error = f"{path}: cannot be read (got: {error}); make sure that nothing removes it"
                counts.append(counting.counts())
        yield GroupCounts(folder=group.folder, names=tuple(writer.names), counts=tuple(counts)).model_dump_json()

    def _batches(self, group: FileGroup, path: str, counting: FileCounting) -> Iterator[pa.RecordBatch]:
        """Yields a file's rows, converted and sampled."""
        request, negatives = self._request, self._request.logs.negatives
        limits = limits_of(request.logs, group.day)
        sampling = sampling_of(request.inputs, group.split)
        samples = self._samples(group)
        share, file_name, first_row = share_of(request.logs, group.split), relative(path, request), 0
        for rows, is_left_out in read_joined(request.logs, request.columns, path, self._joined):
            places = np.arange(first_row, first_row + rows.batch.num_rows)
            first_row += rows.batch.num_rows
            if share:
                rows, is_left_out, places = share.of(rows, is_left_out, places, file_name)
            if negatives:
                rows = replace(rows, batch=with_created(rows.batch, negatives))
            converted = without(convert(rows.batch, request.columns, path, places, limits), is_left_out)
            if samples:
                converted = samples.known(converted)
            counting.add(rows, converted)
            if samples:
                counting.add_pairs(samples.pairs(converted.batch))
                for added in samples.add(converted.batch):
                    sampled_rows = added.batch.num_rows - added.num_positives
                    counting.add_candidates(added.num_positives, sampled_rows, added.num_without)
                    yield added.batch
            elif sampling:
                after_sampling = sampled(converted.batch, places[converted.rows], sampling, file_name)
                counting.add_sampled(after_sampling)
                yield after_sampling.batch
            else:
                yield converted.batch

    def _samples(self, group: FileGroup) -> SampledRows | None:
        negatives = self._request.logs.negatives
        if negatives is None:
            return None
        catalog = read_catalog(*self._catalogs[group.day or group.split])
        return SampledRows(negatives, self._request.inputs, catalog, group.split, group.day)
