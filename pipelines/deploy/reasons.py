"""Why a run on Kubeflow failed: the server does not say, and the step's entry point leaves it in the pipeline root."""

from pathlib import Path

from components.record.kubeflow import read_steps
from pipelines.deploy.records import KubeflowRun
from schemas.contracts.root import Root

_DEFAULT_NAMESPACE = "kubeflow"
_UNSUCCESSFUL = ("failed", "canceled")


def reason_of(run: KubeflowRun, root: Path | None = None) -> str:
    """Returns why a run did not succeed; empty if it did, or where that cannot be known.

    Args:
        run: run with its steps.
        root: where this machine mounts the pipeline root; None: where the pods do.
    """
    if run.state not in _UNSUCCESSFUL:
        return ""
    step = run.failed_step
    said = (step.error if step else "") or run.error
    if said or not (root or run.pipeline_root):
        return said
    ended = read_steps(Root(str(root or run.pipeline_root)).run(run.id))
    names = [step.name.replace("-", "_")] if step else sorted(ended)
    return "; ".join(ended[name].error for name in names if name in ended and ended[name].error)


def log_command(run_id: str, namespace: str) -> str:
    """Returns the command that prints the reason from the logs of a run's pods."""
    where = f"-n {namespace or _DEFAULT_NAMESPACE} -c main -l pipeline/runid={run_id}"
    return f"kubectl logs {where} --tail=-1 | grep '^error:'"


def pods_command(run_id: str, namespace: str) -> str:
    """Returns the command that says what the pods of a run wait for."""
    return f"kubectl describe pods -n {namespace or _DEFAULT_NAMESPACE} -l pipeline/runid={run_id}"
