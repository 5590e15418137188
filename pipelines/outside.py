"""The check of parts of others before anything runs; it loads TensorFlow only for a spec that has some."""

from sangam.schemas.checks.parts import outside_parts
from sangam.schemas.spec import Spec


def check_parts(spec: Spec) -> None:
    """Traces the parts of others once.

    Raises:
        UserError: one is wrong, or could not be exported; with its file and line.
    """
    if any(True for _ in outside_parts(spec)):
        from sangam.trainer_module.tracing import trace

        trace(spec.ranker())
