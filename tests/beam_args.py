"""Beam's arguments of a step that runs in its own process."""

from sangam.pipelines.beam import engine_args
from sangam.schemas.spec.beam import Local

BEAM_ARGS = engine_args(Local())
