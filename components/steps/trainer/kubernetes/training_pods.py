"""Pods of the coordinator, the hosts and the parameter servers, the same for every kind of job."""

from dataclasses import dataclass

from lightkube.models.core_v1 import PodTemplateSpec

from sangam.components.steps.trainer.kubernetes.pods import from_field, pod_template
from sangam.components.steps.trainer.kubernetes.run import COORDINATOR_PORT, TrainingRun


@dataclass(frozen=True)
class TrainingPods:
    """The pods of a job, which sets their restart policy.

    Attributes:
        coordinator: pod in which ranks rendezvous, and which retries and exports.
        host: pod with ranks.
    """

    coordinator: PodTemplateSpec
    host: PodTemplateSpec


def training_pods(run: TrainingRun, index_field: str) -> TrainingPods:
    """Returns the pods of a job.

    Args:
        run: run of the job.
        index_field: field of a host's pod with the host's index.
    """
    arguments = ["sangam.trainer_module.launch.coordinator", run.job_file, "--hosts", str(run.num_hosts)]
    arguments += ["--port", str(COORDINATOR_PORT), "--service", run.dispatcher]
    env = [from_field("HOST_INDEX", index_field)]
    return TrainingPods(
        pod_template(run, "coordinator", arguments), pod_template(run, "host", _host_arguments(run), env=env)
    )


def parameter_server(run: TrainingRun, index_field: str) -> PodTemplateSpec:
    """Returns the template of parameter servers' pods: to the coordinator they are hosts after those with ranks.

    Args:
        run: run of the job.
        index_field: field of the pod with the number of the server.
    """
    arguments = [*_host_arguments(run), "--after", str(run.num_hosts)]
    return pod_template(run, "parameter-server", arguments, env=[from_field("HOST_INDEX", index_field)])


def _host_arguments(run: TrainingRun) -> list[str]:
    interface = run.launch.launcher.network_interface
    arguments = ["sangam.trainer_module.launch.host", run.job_file, "--coordinator", run.coordinator]
    return [*arguments, "--index", "$(HOST_INDEX)", "--interface", interface]
