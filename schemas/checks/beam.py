"""Contradictions in the section `beam`."""

from collections.abc import Iterator
from typing import get_args

from sangam.schemas.derived.sharing import groups
from sangam.schemas.problems import Problem
from sangam.schemas.spec import Spec
from sangam.schemas.spec.beam import AnyEngine, BeamStepName, engine_of


def beam_problems(spec: Spec) -> Iterator[Problem]:
    """Yields every mistake of the section."""
    steps = spec.beam.steps
    everywhere = _settings(spec.beam)
    for name, engine in steps.items():
        if _settings(engine) == everywhere:
            yield Problem(
                ("beam", "steps", name),
                f"has no effect: all steps use this engine (got runner {engine.runner})",
                "remove it",
            )
    if set(steps) == set(get_args(BeamStepName)) and everywhere != {"runner": "local", "processes": 1}:
        yield Problem(
            ("beam", "runner"),
            f"has no effect: every step has an engine of its own (got {spec.beam.runner})",
            "leave a step out of beam.steps",
        )
    for number, group in enumerate(groups(spec)):
        members = [name for name in get_args(BeamStepName) if name in group]
        different = [name for name in members if _of(spec, name) != _of(spec, members[0])]
        if different:
            yield Problem(
                ("cluster", "share_processes", number),
                f"run on different engines (got {members[0]}: {engine_of(spec.beam, members[0]).runner}, "
                f"{different[0]}: {engine_of(spec.beam, different[0]).runner})",
                "give the steps of a group one engine in beam.steps, or remove one from the group",
            )


def _of(spec: Spec, name: BeamStepName) -> dict[str, object]:
    return _settings(engine_of(spec.beam, name))


def _settings(engine: AnyEngine) -> dict[str, object]:
    return engine.model_dump(exclude={"steps"})
