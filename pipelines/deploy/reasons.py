"""The reasons of failed runs on Kubeflow: read from the pipeline root, since the server does not store them."""

from pathlib import Path

from sangam.components.record.journal import read_task
from sangam.components.record.kubeflow import read_steps
from sangam.pipelines.deploy.records import KubeflowRun
from sangam.schemas.contracts.root import Root

_DEFAULT_NAMESPACE = "kubeflow"
_UNSUCCESSFUL = ("failed", "canceled")


def reason_of(run: KubeflowRun, root: Path | None = None) -> str:
    """Returns the reason why a run did not succeed; empty if it did, or if the reason is unknown.

    Args:
        run: run with its steps.
        root: mount point of the pipeline root on this machine; None: the path in the pods.
    """
    if run.state not in _UNSUCCESSFUL:
        return ""
    step = run.failed_step
    said = (step.error if step else "") or run.error
    if said or not (root or run.pipeline_root):
        return said
    folder = Root(str(root or run.pipeline_root)).run(run.id)
    # The server's step is a task, which has the name of the last of its steps.
    ended = read_task(folder.tasks / step.name.replace("-", "_")).steps if step else read_steps(folder)
    return "; ".join(each.error for each in ended.values() if each.error)


def log_command(run_id: str, namespace: str) -> str:
    """Returns the command that prints the reason from the logs of a run's pods."""
    where = f"-n {namespace or _DEFAULT_NAMESPACE} -c main -l pipeline/runid={run_id}"
    return f"kubectl logs {where} --tail=-1 | grep '^error:'"


def pods_command(run_id: str, namespace: str) -> str:
    """Returns the command that shows why the pods of a run wait."""
    return f"kubectl describe pods -n {namespace or _DEFAULT_NAMESPACE} -l pipeline/runid={run_id}"
