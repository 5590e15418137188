"""The check of parts of others before anything runs; it loads NumPy or TensorFlow only for a spec that has some."""

from sangam.schemas.checks.parts import outside_parts
from sangam.schemas.spec import Spec


def check_parts(spec: Spec) -> None:
    """Tries the parts of others once, and traces those of the trainer.

    Raises:
        UserError: one is wrong, or could not be exported; with its file and line.
    """
    if any(True for _ in outside_parts(spec)):
        from sangam.components.trials import try_parts

        try_parts(spec)
    ranker = spec.ranker()
    if any(True for _ in outside_parts(ranker)):
        from sangam.trainer_module.tracing import trace

        trace(ranker)
