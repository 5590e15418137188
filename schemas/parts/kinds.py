"""The registry of parts: a class that fills a role has a kind, and a spec names it by that kind."""

import inspect
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ClassVar, Literal, SupportsIndex, get_args

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, TypeAdapter, ValidationError
from pydantic_core import CoreSchema, InitErrorDetails, PydanticKnownError, core_schema

from sangam.schemas.errors import UserError
from sangam.schemas.parts.base import FrozenModel, Name
from sangam.schemas.parts.importing import import_part

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

    def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple[Any, ...]:
        """Pickles a part of others so that a worker finds its module, also beside a spec."""
        if self.is_ours:
            return super().__reduce_ex__(protocol)
        return _unpickled, (type(self).__module__, self.role, self.kind, self.model_dump_json())


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
_NAME: TypeAdapter[str] = TypeAdapter(Name)
_KNOWN_ERRORS = frozenset(get_args(core_schema.ErrorType))


def _unpickled(module: str, role: str, kind: str, document: str) -> Part:
    import_part(module)
    return _KINDS[role][kind].model_validate_json(document)


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
    lines = []
    for each in error.errors(include_url=False):
        told, context = each["type"], each.get("ctx", {})
        if told not in _KNOWN_ERRORS:
            # A validator of others may raise an error of a type of its own.
            told, context = "value_error", {"error": ValueError(each["msg"])}
        lines.append(InitErrorDetails(type=told, loc=(kind, *each["loc"]), input=each["input"], ctx=context))
    return ValidationError.from_exception_data(error.title, lines, input_type="json")


class AnyKind:
    """Marks a field of a model that takes any registered kind of a role."""

    def __init__(self, role: type[Part], word: Literal["", "kind", "name"] = ""):
        """Takes the role, and what a word in place of a mapping is: a kind whose other keys are left out, or a name."""
        self._role, self._word = role, word

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Returns the schema of the field: the kind is looked up when a value is read."""
        del source, handler
        written = core_schema.plain_serializer_function_ser_schema(self._written, info_arg=True)
        return core_schema.no_info_plain_validator_function(
            self._read, serialization=written if self._word == "kind" else None
        )

    def _read(self, value: Any) -> Part | str:
        if isinstance(value, self._role):
            return value
        kinds = kinds_of(self._role)
        if isinstance(value, str) and self._word == "name":
            return _NAME.validate_python(value)
        if isinstance(value, str) and self._word == "kind":
            if value not in (words := _words(kinds)):
                raise PydanticKnownError("literal_error", {"expected": _quoted(words)})
            value = {"kind": value}
        if not isinstance(value, dict):
            raise PydanticKnownError("model_attributes_type")
        if "kind" not in value:
            raise PydanticKnownError("union_tag_not_found", {"discriminator": "'kind'"})
        kind = value["kind"]
        if not isinstance(kind, str) or kind not in kinds:
            context = {"discriminator": "'kind'", "tag": str(kind), "expected_tags": _quoted(kinds)}
            raise PydanticKnownError("union_tag_invalid", context)
        try:
            # As JSON: the strict types of Python have no tuple for a list.
            return kinds[kind].model_validate_json(json.dumps(value))
        except ValidationError as error:
            raise _under(kind, error) from None

    def _written(self, part: Part, info: core_schema.SerializationInfo) -> Any:
        is_word = part.kind in _words({part.kind: type(part)}) and part == type(part)(kind=part.kind)
        return part.kind if is_word else part.model_dump(mode=info.mode)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Returns the union of the product's kinds and those of `listing`."""
        del schema
        shown = {PRODUCT, *_listed.get()}
        kinds = {kind: part for kind, part in kinds_of(self._role).items() if part.__module__.split(".")[0] in shown}
        choices = {kind: part.__pydantic_core_schema__ for kind, part in kinds.items()}
        # A role may have no kind of the product.
        union = handler(core_schema.tagged_union_schema(choices, discriminator="kind")) if choices else _any_kind()
        if not self._word:
            return union
        word = {"type": "string", "enum": _words(kinds)} if self._word == "kind" else _NAME.json_schema()
        return {"anyOf": [word, union]}


def _any_kind() -> dict[str, Any]:
    kind = {"title": "kind", "type": "string", "description": "Kind of a part in a module that `parts` names."}
    return {"type": "object", "properties": {"kind": kind}, "required": ["kind"]}


def _words(kinds: Mapping[str, type[Part]]) -> list[str]:
    """Returns the kinds without required keys, which may be written as a word."""
    return [
        kind
        for kind, part in kinds.items()
        if not any(field.is_required() for key, field in part.model_fields.items() if key != "kind")
    ]


def _quoted(kinds: Iterable[str]) -> str:
    return ", ".join(map(repr, kinds))
