"""The StatefulSets of a run: parameter servers, and the tf.data service's dispatcher and workers.

Each pod has a number or a name that outlives it. The set recreates every lost pod.
"""

from lightkube.models.apps_v1 import StatefulSetSpec
from lightkube.models.core_v1 import PodTemplateSpec
from lightkube.models.meta_v1 import LabelSelector, ObjectMeta
from lightkube.resources.apps_v1 import StatefulSet

from sangam.components.steps.trainer.kubernetes.pods import from_field, pod_template
from sangam.components.steps.trainer.kubernetes.run import DATA_WORKER_PORT, DISPATCHER_PORT, Component, TrainingRun
from sangam.components.steps.trainer.kubernetes.training_pods import parameter_server
from sangam.schemas.contracts.monitoring import EVERYWHERE

_MODULE = "sangam.trainer_module.launch.data_service"
_JOURNAL = "/journal"
_INDEX_FIELD = "metadata.labels['apps.kubernetes.io/pod-index']"


def parameter_servers(run: TrainingRun) -> list[StatefulSet]:
    """Returns the parameter servers; empty for ranks that hold the rows.

    An MPIJob has one template for all its Workers, so they are not part of the job. They have no Service:
    ranks read a server's address from a file.
    """
    if not run.servers:
        return []
    return [_stateful_set(run, "parameter-server", run.servers, parameter_server(run, _INDEX_FIELD))]


def service_pool(run: TrainingRun) -> list[StatefulSet]:
    """Returns dispatcher and workers; empty for ranks that read the data themselves, or from a standing service."""
    workers = run.cluster.own_data_workers
    if not workers:
        return []
    metrics = _metrics(run)
    # The journal outlives the container, so a restarted dispatcher continues; if its pod is lost, the attempt fails.
    dispatcher = [_MODULE, "dispatcher", "--port", str(DISPATCHER_PORT), "--work-dir", _JOURNAL, *metrics]
    advertised = f"$(POD_NAME).{run.service('data-worker')}:{DATA_WORKER_PORT}"
    worker = [_MODULE, "worker", "--dispatcher", run.dispatcher]
    worker += ["--port", str(DATA_WORKER_PORT), "--advertise", advertised, *metrics]
    return [
        _stateful_set(run, "dispatcher", 1, pod_template(run, "dispatcher", dispatcher, scratch={"journal": _JOURNAL})),
        _stateful_set(
            run,
            "data-worker",
            workers,
            pod_template(run, "data-worker", worker, env=[from_field("POD_NAME", "metadata.name")]),
        ),
    ]


def _metrics(run: TrainingRun) -> list[str]:
    if run.metrics_port is None:
        return []
    return ["--metrics-port", str(run.metrics_port), "--metrics-host", EVERYWHERE]


def _stateful_set(run: TrainingRun, component: Component, replicas: int, template: PodTemplateSpec) -> StatefulSet:
    return StatefulSet(
        metadata=ObjectMeta(name=run.service(component), labels=run.labels(component)),
        spec=StatefulSetSpec(
            podManagementPolicy="Parallel",
            replicas=replicas,
            selector=LabelSelector(matchLabels=run.labels(component)),
            serviceName=run.service(component),
            template=template,
        ),
    )
