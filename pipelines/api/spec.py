"""A spec in Python: loaded, drafted, changed, planned."""

import copy
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sangam.components.reports.spec_file import yaml_of
from sangam.schemas import loading
from sangam.schemas.derived.plan import Plan
from sangam.schemas.derived.plan import plan as plan_of
from sangam.schemas.errors import UserError
from sangam.schemas.host.files import write_whole
from sangam.schemas.loading.documents import Document, whole
from sangam.schemas.loading.documents import with_values as document_with_values
from sangam.schemas.problems import Problem, SpecError
from sangam.schemas.spec import Spec as Declared
from sangam.schemas.spec import digest

_NAME = "spec"
"""Place of errors in a spec without a file."""


@dataclass(frozen=True)
class Spec:
    """A valid spec of a ranker; what loads one raises SpecError with all problems.

    >>> spec = sangam.Spec.load("clicks.yaml")
    >>> spec.name
    'clicks'

    Attributes:
        declared: the typed spec, with all defaults: `spec.declared.training.epochs`.
        text: YAML, with the comments of a file or a draft.
    """

    declared: Declared
    text: str = field(repr=False, compare=False)
    _document: Document = field(repr=False, compare=False)

    @classmethod
    def load(cls, path: "str | os.PathLike[str]") -> "Spec":
        """Loads a YAML file.

        >>> sangam.Spec.load("clicks.yaml").declared.tasks.keys()
        dict_keys(['clicked'])

        Raises:
            SpecError: with the line of each problem.
        """
        file = Path(path)
        parsed = loading.parse_spec(file)
        return cls(parsed.spec, file.read_text(encoding="utf-8-sig"), parsed.document)

    @classmethod
    def from_yaml(cls, text: str, name: str = "spec") -> "Spec":
        """Loads YAML text; `name` is its place in errors.

        >>> sangam.Spec.from_yaml(Path("clicks.yaml").read_text()).name
        'clicks'

        Raises:
            SpecError: with the line of each problem.
        """
        parsed = loading.parse_text(text, name)
        return cls(parsed.spec, text, parsed.document)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> "Spec":
        """Loads plain data: what the YAML would say, as dicts and lists.

        >>> sangam.Spec.from_dict(sangam.Spec.load("clicks.yaml").to_dict()).name
        'clicks'

        Raises:
            SpecError: with each problem.
        """
        parsed = loading.parse_document(document, _NAME)
        return cls(parsed.spec, yaml_of(parsed.document), parsed.document)

    @classmethod
    def draft(cls, logs: "str | os.PathLike[str]", name: str, labels: Sequence[str] = ()) -> "Spec":
        """Drafts a spec from logs as `sangam init` does; its text says why each line is so.

        >>> spec = sangam.Spec.draft("logs", "clicks", labels=["clicked"])
        >>> sorted(spec.declared.features)
        ['hour', 'item', 'price', 'user']

        Args:
            logs: folder of the logs, one file, or the address of one.
            name: name of the ranker.
            labels: columns to predict; left out, they are guessed.

        Raises:
            UserError: the logs cannot be read, no spec describes their layout, or no column is a label.
        """
        from sangam.pipelines.drafting import draft

        return cls.from_yaml(draft(os.fspath(logs), name, labels).text)

    @property
    def name(self) -> str:
        """The name of the ranker.

        >>> spec.name
        'clicks'
        """
        return self.declared.name

    @property
    def digest(self) -> str:
        """The sha256 of what it says, however it is written.

        >>> spec.digest == sangam.Spec.from_dict(spec.to_dict()).digest
        True
        """
        return digest(self.declared)

    def to_dict(self, *, defaults: bool = False) -> dict[str, Any]:
        """Returns it as plain data: as it is written, or, to read it, with all defaults.

        >>> spec.to_dict()["name"], spec.to_dict(defaults=True)["export"]["form"]
        ('clicks', 'stock')
        """
        return whole(self.declared) if defaults else copy.deepcopy(self._document)

    def with_values(self, values: Mapping[str, Any]) -> "Spec":
        """Returns a copy with values set at dotted paths; a list is replaced as a whole.

        >>> spec.with_values({"training.epochs": 2}).declared.training.epochs
        2

        Raises:
            SpecError: with each problem.
        """
        try:
            return Spec.from_dict(document_with_values(self._document, whole(self.declared), values))
        except KeyError as error:
            path = error.args[0]
            allowed = "give a path through keys; a list is replaced as a whole"
            raise SpecError(Path(_NAME), [Problem(tuple(path.split(".")), "is not a mapping", allowed)]) from None

    def save(self, path: "str | os.PathLike[str]") -> Path:
        """Writes its text into a YAML file, whole or not at all, and returns the file.

        >>> spec.save("again.yaml")
        PosixPath('again.yaml')

        Raises:
            UserError: the file cannot be written.
        """
        file = Path(path)
        try:
            write_whole(file, self.text)
        except OSError as error:
            raise UserError(f"path: cannot be written (got {file}: {error.strerror}); choose another place") from None
        return file

    def plan(
        self, rows: Mapping[str, int] | None = None, ranks: int | None = None, parameter_servers: int | None = None
    ) -> Plan:
        """Returns the memory of its tables and processes, as `sangam plan` prints it.

        >>> plan = spec.plan(rows={"users": 1_000_000, "items": 1000})
        >>> plan.tables["users"].total_bytes > 1e7
        True

        Args:
            rows: rows by table; a table that is not named has the rows of its capacity.
            ranks: number of ranks; None: as declared.
            parameter_servers: number of parameter servers; None: as declared.

        Raises:
            UserError: there is no such table, or no number for one; the options of the command are named.
        """
        return plan_of(
            self.declared, rows=rows or {}, ranks=ranks or self.declared.cluster.ranks, servers=parameter_servers
        )

    def __repr__(self) -> str:
        return f"Spec({self.name}, {self.digest[:8]})"


GivenSpec = Spec | str | os.PathLike[str] | Mapping[str, Any]
"""A spec, the path of its file, or plain data."""


def spec_of(given: GivenSpec) -> Spec:
    """Returns the spec of a path or of plain data.

    Raises:
        SpecError: with all problems.
    """
    match given:
        case Spec():
            return given
        case Mapping():
            return Spec.from_dict(given)
        case _:
            return Spec.load(given)


def validate(spec: GivenSpec) -> list[Problem]:
    """Returns all problems of a spec; none if it is valid.

    >>> wrong = spec.to_dict() | {"model": {"kind": "mmo"}}
    >>> [problem.loc for problem in sangam.validate(wrong)]
    [('model', 'kind')]

    Args:
        spec: a spec, the path of its file, or plain data.
    """
    try:
        spec_of(spec)
    except SpecError as error:
        return list(error.problems)
    return []
