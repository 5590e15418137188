"""Pods of the coordinator and the hosts, the same for every kind of job."""

from lightkube.models.core_v1 import PodTemplateSpec

from components.steps.trainer.kubernetes.pods import from_field, pod_template
from components.steps.trainer.kubernetes.run import COORDINATOR_PORT, TrainingRun


def coordinator(run: TrainingRun, *, restart_policy: str | None = None) -> PodTemplateSpec:
    """Returns the pod in which ranks rendezvous, and which retries and exports."""
    arguments = ["trainer_module.launch.coordinator", run.job_file, "--hosts", str(run.num_hosts)]
    arguments += ["--port", str(COORDINATOR_PORT), "--service", run.dispatcher]
    return pod_template(run, "coordinator", arguments, restart_policy=restart_policy)


def host(run: TrainingRun, *, index_field: str, restart_policy: str | None = None) -> PodTemplateSpec:
    """Returns the pods with the ranks.

    Args:
        run: of the job.
        index_field: field of the pod with the index of the host.
        restart_policy: of the pod; None if its controller sets it.
    """
    interface = run.launch.launcher.network_interface
    arguments = ["trainer_module.launch.host", run.job_file, "--coordinator", run.coordinator]
    arguments += ["--index", "$(HOST_INDEX)", "--interface", interface]
    index = from_field("HOST_INDEX", index_field)
    return pod_template(run, "host", arguments, env=[index], restart_policy=restart_policy)
