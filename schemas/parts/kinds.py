"""The registry of parts: a class that fills a role has a kind, and a spec names it by that kind."""

import inspect
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ClassVar, get_args

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationError
from pydantic_core import CoreSchema, InitErrorDetails, PydanticKnownError, core_schema

from sangam.schemas.errors import UserError
from sangam.schemas.parts.base import FrozenModel

PRODUCT = "sangam"
"""Top package of the kinds that need no `parts:` in a spec."""


class Part(FrozenModel):
    """A part of a ranker: its fields are its keys in the spec.

    A class below a role that declares `kind: Literal["name"]` registers that kind when it is defined.
    """

    kind: str
    """Name of the kind in the spec."""

    role: ClassVar[str] = ""
    """Name of the role, as in an error: `interaction`."""
    compute: ClassVar[str] = ""
    """Method that a class of others defines; the product's kinds have theirs in `trainer_module` or `components`."""

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """Registers a class with a kind."""
        super().__pydantic_init_subclass__(**kwargs)
        if cls.role and (kind := _kind_of(cls)):
            _register(cls, kind)

    @property
    def is_ours(self) -> bool:
        """Whether this part is a kind of the product."""
        return is_ours(type(self))


def is_ours(part: type[Part]) -> bool:
    """Says whether a class is a kind of the product."""
    return part.__module__.split(".")[0] == PRODUCT


_listed: ContextVar[frozenset[str]] = ContextVar("listed", default=frozenset())


@contextmanager
def listing(parts: Iterable[str]) -> Iterator[None]:
    """Lets JSON Schemas have the kinds of these modules' packages, besides the product's."""
    token = _listed.set(frozenset(part.split(".")[0] for part in parts))
    try:
        yield
    finally:
        _listed.reset(token)


_KINDS: dict[str, dict[str, type[Part]]] = {}


def kinds_of(role: type[Part]) -> dict[str, type[Part]]:
    """Returns the classes that fill a role, by kind."""
    return dict(_KINDS.get(role.role, {}))


def outside_kinds() -> Iterator[type[Part]]:
    """Yields the registered classes that are not the product's."""
    for kinds in _KINDS.values():
        yield from (part for part in kinds.values() if not is_ours(part))


def _kind_of(part: type[Part]) -> str:
    """Returns the kind that a class itself declares; "" for one that is above kinds, or only inherits its kind."""
    values = get_args(part.model_fields["kind"].annotation) if "kind" in part.__annotations__ else ()
    return str(values[0]) if len(values) == 1 else ""


def _register(part: type[Part], kind: str) -> None:
    known = _KINDS.setdefault(part.role, {})
    other = known.get(kind)
    if other is not None and (other.__module__, other.__qualname__) != (part.__module__, part.__qualname__):
        raise UserError(
            f"{place_of(part)}: kind '{kind}' of role '{part.role}' is taken (got it again, from "
            f"{place_of(other)}); give one of them another kind"
        )
    if part.compute and not is_ours(part) and not _defines(part):
        raise UserError(
            f"{place_of(part)}: has no method `{part.compute}` (got class {part.__name__} with kind '{kind}'); define "
            f"it as docs/parts.md says for role '{part.role}'"
        )
    known[kind] = part


def _defines(part: type[Part]) -> bool:
    return any(part.compute in vars(base) and not is_ours(base) for base in part.__mro__ if issubclass(base, Part))


def place_of(part: type[Part]) -> str:
    """Returns file and line of a class, or its dotted name where it has no file."""
    try:
        return f"{inspect.getsourcefile(part)}:{inspect.getsourcelines(part)[1]}"
    except (OSError, TypeError):
        return f"{part.__module__}.{part.__qualname__}"


def _under(kind: str, error: ValidationError) -> ValidationError:
    """Returns an error whose places begin with the kind, as pydantic has it for a union."""
    lines = [
        InitErrorDetails(type=each["type"], loc=(kind, *each["loc"]), input=each["input"], ctx=each.get("ctx", {}))
        for each in error.errors(include_url=False)
    ]
    return ValidationError.from_exception_data(error.title, lines, input_type="json")


class AnyKind:
    """Marks a field of a model that takes any registered kind of a role."""

    def __init__(self, role: type[Part]):
        self._role = role

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Returns the schema of the field: the kind is looked up when a value is read."""
        del source, handler
        return core_schema.no_info_plain_validator_function(self._read)

    def _read(self, value: Any) -> Part:
        if isinstance(value, self._role):
            return value
        if not isinstance(value, dict):
            raise PydanticKnownError("model_attributes_type")
        kinds = kinds_of(self._role)
        if "kind" not in value:
            raise PydanticKnownError("union_tag_not_found", {"discriminator": "'kind'"})
        kind = value["kind"]
        if not isinstance(kind, str) or kind not in kinds:
            expected = ", ".join(repr(each) for each in kinds)
            context = {"discriminator": "'kind'", "tag": str(kind), "expected_tags": expected}
            raise PydanticKnownError("union_tag_invalid", context)
        try:
            # As JSON: the strict types of Python have no tuple for a list.
            return kinds[kind].model_validate_json(json.dumps(value))
        except ValidationError as error:
            raise _under(kind, error) from None

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Returns the union of the product's kinds and those of `listing`."""
        del schema
        shown = {PRODUCT, *_listed.get()}
        kinds = {kind: part for kind, part in kinds_of(self._role).items() if part.__module__.split(".")[0] in shown}
        choices = {kind: part.__pydantic_core_schema__ for kind, part in kinds.items()}
        return handler(core_schema.tagged_union_schema(choices, discriminator="kind"))
