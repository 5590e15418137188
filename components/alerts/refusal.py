"""The text of an alert on a refused model."""

from collections.abc import Iterable

from components.reports.evaluation import GateVerdict
from components.reports.serving import Check


def refusal(gates: Iterable[tuple[str, GateVerdict]], checks: Iterable[Check]) -> str:
    """Returns a line for every gate and every serving check that has failed."""
    refused = [f"{task}: {gate.reason}" for task, gate in gates if not gate.passed]
    refused += [f"serving check {check.name}: {check.reason}" for check in checks if not check.passed]
    return "\n".join(refused)


def refusing_steps(gates: Iterable[tuple[str, GateVerdict]], checks: Iterable[Check]) -> str:
    """Returns the names of the steps that have refused, separated by commas."""
    passed_by_step = {
        "evaluator": all(gate.passed for _, gate in gates),
        "infra_validator": all(check.passed for check in checks),
    }
    return ",".join(step for step, passed in passed_by_step.items() if not passed)
