"""Log files with equal content, whose rows would be read twice."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import BinaryIO

from sangam.components.logs.files.listing import first_problems
from sangam.components.logs.files.resolve import DataFile
from sangam.components.logs.readers import formats
from sangam.schemas.errors import UserError
from sangam.schemas.spec.data import Logs


def of_equal_sizes(files: Sequence[DataFile]) -> list[DataFile]:
    """Returns the files whose content may equal another's."""
    number = Counter(file.facts.size_bytes for file in files)
    return [file for file in files if number[file.facts.size_bytes] > 1]


def notes_on_equal_files(
    files: Sequence[DataFile], digests: Mapping[str, str], logs: Logs, open_file: Callable[[str], BinaryIO]
) -> list[str]:
    """Returns a note if files with rows have the content of others.

    Args:
        files: files of the main log.
        digests: sha256 of the files' content, by path.
        logs: the spec's data section.
        open_file: opens a path for reading.

    Raises:
        UserError: there are such files, and the spec does not allow them.
    """
    first: dict[str, DataFile] = {}
    pairs = [
        (file, same)
        for file in files
        if file.path in digests and (same := first.setdefault(digests[file.path], file)) is not file
    ]
    # Files without rows may well be equal.
    with_rows = {same.path: _has_rows(same, logs, open_file) for _, same in pairs}
    pairs = [(file, same) for file, same in pairs if with_rows[same.path]]
    if not pairs:
        return []
    if logs.equal_files == "error":
        problems = [
            f"{file.path}: has the same content as {same.path} (got sha256 {digests[file.path][:12]} in {_where(file)} "
            f"and {_where(same)}); its rows would count twice: remove one, or set `equal_files: read` under data"
            for file, same in pairs
        ]
        raise UserError("\n".join(first_problems(problems)))
    file, same = pairs[0]
    return [
        f"{len(pairs)} files have the content of others, and their rows count twice: {file.path} that of {same.path}"
    ]


def _has_rows(file: DataFile, logs: Logs, open_file: Callable[[str], BinaryIO]) -> bool:
    with open_file(file.path) as opened:
        return not formats.inspect(logs, opened, file.path, ()).is_empty


def _where(file: DataFile) -> str:
    return f"{file.split} {file.day}" if file.day else file.split
