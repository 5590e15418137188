"""Mistakes in parts of others: in what they declare, before anything is computed, and what they find themselves."""

from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import Any, get_args

from pydantic import BaseModel

from sangam.schemas.derived.model_inputs import model_inputs
from sangam.schemas.errors import UserError
from sangam.schemas.parts.calls import told
from sangam.schemas.parts.columns import Column
from sangam.schemas.parts.importing import module_of
from sangam.schemas.parts.judging import Direction, Metric, Slice, TaskKind
from sangam.schemas.parts.kinds import Part, outside_kinds, place_of
from sangam.schemas.parts.roles import Architecture, Encoder, Feature, Interaction, Loss
from sangam.schemas.parts.weight import Weight
from sangam.schemas.problems import Loc, Problem, listed
from sangam.schemas.spec import RankerSpec, Spec
from sangam.schemas.spec.features import SequenceFeature


def declaration_problems(spec: Spec) -> Iterator[Problem]:
    """Yields every mistake in the declarations of features; later checks call them without care."""
    packages = {module_of(name).split(".")[0] for name in spec.parts}
    for loc, part in outside_parts(spec):
        if type(part).__module__.split(".")[0] not in packages:
            yield Problem(
                (*loc, "kind"),
                f"is of a module that parts does not name (got '{part.kind}' of {type(part).__module__})",
                "add the module to parts, where other processes find it; a class of a notebook needs a module first",
            )
        if isinstance(part, Feature):
            name = str(loc[-1])
            yield from _declared(loc, part, partial(_some, part.reads, name), Column)
            for method, kinds in ((part.width, int), (part.is_list, bool), (part.table_name, str | None)):
                yield from _declared(loc, part, partial(_alone, method), kinds)
        elif isinstance(part, Slice):
            yield from _declared(loc, part, partial(_some, part.reads), Column)
        elif isinstance(part, Metric):
            yield from _words(loc, part, "direction", Direction)
            yield from _words(loc, part, "task_kinds", TaskKind)


def part_problems(spec: Spec) -> Iterator[Problem]:
    """Yields the mistakes in parts of others that depend on the features."""
    if not (parts := list(outside_parts(spec))):
        return
    inputs, tasks = model_inputs(spec.ranker()), tuple(spec.tasks)
    for loc, part in parts:
        match part:
            case Interaction():
                yield from _declared(loc, part, partial(part.weights, inputs), Weight)
                yield from _declared(loc, part, partial(part.outputs, inputs), tuple)
                yield from _own(loc, part, part.problems, inputs)
                yield from _ensemble(spec, part)
            case Architecture():
                seen = part.interaction.outputs(inputs) if part.interaction else inputs.blocks
                yield from _declared(loc, part, partial(part.weights, seen, tasks), Weight)
                yield from _own(loc, part, part.problems, inputs, tasks)
                yield from _ensemble(spec, part)
            case Encoder():
                feature = spec.features[str(loc[1])]
                assert isinstance(feature, SequenceFeature)
                size = spec.tables[feature.table].dim, feature.max_length
                yield from _declared(loc, part, partial(part.weights, *size), Weight)
                yield from _own(loc, part, part.problems, *size)
            case Loss():
                yield from _read(spec, loc, part)
            case Feature():
                yield from _own(loc, part, part.problems)


def outside_parts(spec: RankerSpec) -> Iterator[tuple[Loc, Part]]:
    """Yields the parts of a spec that are not the product's, with their places."""
    # Most processes know none, and specs may have thousands of features.
    return _below((), spec) if any(outside_kinds()) else iter(())


def _below(loc: Loc, node: Any) -> Iterator[tuple[Loc, Part]]:
    match node:
        case BaseModel():
            if isinstance(node, Part) and not node.is_ours:
                yield loc, node
            for name in type(node).model_fields:
                yield from _below((*loc, name), getattr(node, name))
        case dict():
            for key, value in node.items():
                yield from _below((*loc, key), value)
        case tuple():
            for position, value in enumerate(node):
                yield from _below((*loc, position), value)


def _some(method: Callable[..., Any], *arguments: Any) -> Any:
    if not (found := method(*arguments)):
        raise ValueError(f"`{method.__name__}` returned nothing")
    return found


def _alone(method: Callable[[], Any]) -> list[Any]:
    return [method()]


def _words(loc: Loc, part: Part, name: str, of: Any) -> Iterator[Problem]:
    """Yields a mistake if a declaration raises, or has anything but the words of a type."""
    words = get_args(of)

    def declare() -> Any:
        return getattr(part, name)

    declare.__name__ = name
    try:
        found = told(part, declare)
    except UserError as error:
        yield _problem(loc, error)
        return
    given = [found] if isinstance(found, str) else found if isinstance(found, Collection) else [found]
    if not given or any(each not in words for each in given):
        yield Problem(loc, f"{place_of(type(part))}: declares no such {name} (got {found!r})", f"of: {listed(words)}")


def _declared(loc: Loc, part: Part, declare: Callable[[], Any], of: Any) -> Iterator[Problem]:
    """Yields a mistake if a declaration raises, or has anything but objects of a class."""
    try:
        found = told(part, lambda: list(declare()))
    except UserError as error:
        yield _problem(loc, error)
        return
    if wrong := [each for each in found if not isinstance(each, of)]:
        name = getattr(of, "__name__", str(of))
        yield Problem(loc, f"{place_of(type(part))}: declares what is no {name} (got {wrong[0]!r})", f"a {name}")


def _own(loc: Loc, part: Part, method: Callable[..., Iterator[Problem]], *arguments: Any) -> Iterator[Problem]:
    """Yields the mistakes that a part finds in itself."""
    try:
        found = told(part, lambda: list(method(*arguments)))
    except UserError as error:
        yield _problem(loc, error)
        return
    for each in found:
        yield Problem((*loc, *each.loc), each.what, each.allowed)


def _read(spec: Spec, loc: Loc, loss: Loss) -> Iterator[Problem]:
    ones = [name for name, feature in spec.features.items() if feature.table_name() and not feature.is_list()]
    yield from _declared(loc, loss, loss.reads, str)
    for name in loss.reads():
        if name not in ones:
            yield Problem(loc, f"no such feature of one id (got '{name}')", f"features of one id: {listed(ones)}")


def _ensemble(spec: Spec, part: Interaction | Architecture) -> Iterator[Problem]:
    if spec.model.members > 1 and not part.takes_ensembles:
        yield Problem(
            ("model", "ensemble"),
            f"{part.role} '{part.kind}' does not say that its products know of members (got {spec.model.members})",
            "leave it out; or compute the part with the layers of sangam.parts.layers and set takes_ensembles",
        )


def _problem(loc: Loc, error: UserError) -> Problem:
    what, _, remedy = str(error).rpartition("; ")
    return Problem(loc, what, remedy)
