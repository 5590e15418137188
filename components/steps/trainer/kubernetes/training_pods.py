"""Pods of the coordinator, the hosts and the parameter servers, the same for every kind of job."""

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
    env = [from_field("HOST_INDEX", index_field)]
    return pod_template(run, "host", _host_arguments(run), env=env, restart_policy=restart_policy)


def parameter_server(run: TrainingRun, *, index_field: str) -> PodTemplateSpec:
    """Returns the pods with a parameter server each: to the coordinator they are hosts behind those with ranks.

    Args:
        run: of the job.
        index_field: field of the pod with the number of the server.
    """
    arguments = [*_host_arguments(run), "--after", str(run.num_hosts)]
    return pod_template(run, "parameter-server", arguments, env=[from_field("HOST_INDEX", index_field)])


def _host_arguments(run: TrainingRun) -> list[str]:
    interface = run.launch.launcher.network_interface
    arguments = ["trainer_module.launch.host", run.job_file, "--coordinator", run.coordinator]
    return [*arguments, "--index", "$(HOST_INDEX)", "--interface", interface]
