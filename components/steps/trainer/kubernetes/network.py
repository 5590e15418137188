"""Who finds and reaches whom: names for what must be found, and a policy that shuts the run off from all others."""

from lightkube.models.core_v1 import ServicePort, ServiceSpec
from lightkube.models.meta_v1 import LabelSelector, ObjectMeta
from lightkube.models.networking_v1 import (
    NetworkPolicyEgressRule,
    NetworkPolicyIngressRule,
    NetworkPolicyPeer,
    NetworkPolicyPort,
    NetworkPolicySpec,
)
from lightkube.resources.core_v1 import Service
from lightkube.resources.networking_v1 import NetworkPolicy

from components.steps.trainer.kubernetes.run import (
    COORDINATOR_PORT,
    DATA_WORKER_PORT,
    DISPATCHER_PORT,
    Component,
    TrainingRun,
)

_DNS_PORT = 53


def services(run: TrainingRun) -> list[Service]:
    """Returns a headless Service for all that others of the run must find."""
    found = [_service(run, "coordinator", COORDINATOR_PORT)]
    if run.cluster.data_workers:
        found.append(_service(run, "dispatcher", DISPATCHER_PORT))
        found.append(_service(run, "data-worker", DATA_WORKER_PORT))
    return found


def _service(run: TrainingRun, component: Component, port: int) -> Service:
    return Service(
        metadata=ObjectMeta(name=run.service(component), labels=run.labels(component)),
        spec=ServiceSpec(
            clusterIP="None",
            ports=[ServicePort(name="main", port=port, targetPort=port)],
            # A name must lead to its pod as soon as that has an address: all of them start at the same time.
            publishNotReadyAddresses=True,
            selector=run.labels(component),
        ),
    )


def network_policy(run: TrainingRun) -> NetworkPolicy:
    """Returns the rule: pods of the run speak with pods of the run, and ask for names; no one else gets in or out.

    Data and checkpoints lie on volumes, which the node mounts, not the pod, so storage needs no opening here. DNS is
    allowed to any address: a cache on the node (NodeLocal DNSCache) has none that a selector could name.
    """
    same_run = [NetworkPolicyPeer(podSelector=LabelSelector(matchLabels=run.selector))]
    dns = [NetworkPolicyPort(port=_DNS_PORT, protocol=protocol) for protocol in ("UDP", "TCP")]
    return NetworkPolicy(
        metadata=ObjectMeta(name=run.name, labels=run.selector),
        spec=NetworkPolicySpec(
            egress=[NetworkPolicyEgressRule(to=same_run), NetworkPolicyEgressRule(ports=dns)],
            ingress=[NetworkPolicyIngressRule(from_=same_run)],
            podSelector=LabelSelector(matchLabels=run.selector),
            policyTypes=["Ingress", "Egress"],
        ),
    )
