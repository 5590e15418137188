"""The network of a run: Services for name resolution, and a policy that isolates its pods."""

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

from sangam.components.steps.trainer.kubernetes.run import (
    CLIENT_LABEL,
    COORDINATOR_PORT,
    DATA_WORKER_PORT,
    DISPATCHER_PORT,
    INPUT_SERVICE_LABEL,
    Component,
    TrainingRun,
)

_DNS_PORT = 53


def services(run: TrainingRun) -> list[Service]:
    """Returns a headless Service for each kind of pods that other pods connect to."""
    result = [_service(run, "coordinator", COORDINATOR_PORT)]
    if run.cluster.own_data_workers:
        result.append(_service(run, "dispatcher", DISPATCHER_PORT))
        result.append(_service(run, "data-worker", DATA_WORKER_PORT))
    return result


def _service(run: TrainingRun, component: Component, port: int) -> Service:
    return Service(
        metadata=ObjectMeta(name=run.service(component), labels=run.labels(component)),
        spec=ServiceSpec(
            clusterIP="None",
            ports=[ServicePort(name="main", port=port, targetPort=port)],
            # A name must resolve as soon as its pod has an address: all pods start at the same time.
            publishNotReadyAddresses=True,
            selector=run.labels(component),
        ),
    )


def network_policy(run: TrainingRun) -> NetworkPolicy:
    """Returns a policy that allows only traffic between pods of the run, to a standing input service, and DNS.

    If the spec has `monitoring`, clients may connect to the metrics ports, and to no others.

    Data and checkpoints are on volumes, which the node mounts, so storage needs no rule. DNS is allowed to any address:
    no selector matches a cache on the node (NodeLocal DNSCache).
    """
    same_run = [NetworkPolicyPeer(podSelector=LabelSelector(matchLabels=run.selector))]
    joined = []
    if run.cluster.input_service is not None:
        # By label: policies do not match names, and a service's workers have separate addresses.
        standing = LabelSelector(matchLabels={INPUT_SERVICE_LABEL: "true"})
        joined = [NetworkPolicyPeer(namespaceSelector=LabelSelector(), podSelector=standing)]
    dns = [NetworkPolicyPort(port=_DNS_PORT, protocol=protocol) for protocol in ("UDP", "TCP")]
    return NetworkPolicy(
        metadata=ObjectMeta(name=run.name, labels=run.selector),
        spec=NetworkPolicySpec(
            egress=[NetworkPolicyEgressRule(to=same_run + joined), NetworkPolicyEgressRule(ports=dns)],
            ingress=[NetworkPolicyIngressRule(from_=same_run), *_scraping(run)],
            podSelector=LabelSelector(matchLabels=run.selector),
            policyTypes=["Ingress", "Egress"],
        ),
    )


def _scraping(run: TrainingRun) -> list[NetworkPolicyIngressRule]:
    """Returns the rules for Prometheus: pods with the label of clients, here or in a namespace with that label."""
    ports = run.metrics_ports("host")
    if not ports:
        return []
    labelled = LabelSelector(matchLabels={CLIENT_LABEL: "true"})
    clients = [
        NetworkPolicyPeer(podSelector=labelled),
        NetworkPolicyPeer(namespaceSelector=labelled, podSelector=labelled),
    ]
    last = ports[-1] if len(ports) > 1 else None
    return [
        NetworkPolicyIngressRule(from_=clients, ports=[NetworkPolicyPort(port=ports[0], endPort=last, protocol="TCP")])
    ]
