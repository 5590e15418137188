"""Mistakes in modes of training: modes and settings without effect, settings that a mode does not support."""

from collections.abc import Iterator

from sangam.schemas.problems import Loc, Problem
from sangam.schemas.spec import Spec
from sangam.schemas.spec.cluster import PodsLauncher, SpecCluster
from sangam.schemas.spec.sync import Async, InStep, Served, Shadow, Stale
from sangam.schemas.spec.training import GradNormBalance

_SYNC: Loc = ("training", "sync")


def sync_problems(spec: Spec) -> Iterator[Problem]:
    """Yields every mistake of `training.sync`, and of the number of parameter servers."""
    sync, servers = spec.training.sync, spec.cluster.parameter_servers
    if isinstance(sync, InStep):
        if servers is not None:
            yield Problem(
                ("cluster", "parameter_servers"),
                f"has no effect: with training.sync of kind sync the ranks hold the rows (got {servers})",
                "remove it, or declare training.sync: {kind: stale}, shadow or async",
            )
        if sync.transport in ("shared_memory", "tcp"):
            yield from _declared(sync.transport, spec.cluster)
        return
    if not spec.table_tags():
        yield from _without_rows(sync)
    if isinstance(sync, Shadow | Async) and isinstance(spec.training.loss_balance, GradNormBalance):
        yield Problem(
            ("training", "loss_balance"),
            f"gradnorm compares the tasks' gradients of the global batch (got training.sync {sync.kind}, where "
            "every rank makes steps of its own)",
            "use uncertainty, or training.sync: {kind: stale}",
        )
    if isinstance(sync, Shadow | Async) and spec.training.average is not None:
        yield Problem(
            ("training", "average"),
            f"averages dense weights over steps of all ranks together (got training.sync {sync.kind}, where "
            "every rank makes steps of its own)",
            "remove it, or use training.sync: {kind: stale} or sync",
        )
    if isinstance(sync, Stale) and spec.cluster.ranks == 1 and "compare_every_steps" in sync.model_fields_set:
        yield Problem(
            (*_SYNC, "compare_every_steps"),
            f"has no effect: there is one rank (got {sync.compare_every_steps})",
            "remove it, or raise cluster.ranks",
        )
    if isinstance(sync, Shadow):
        yield from _averaging(sync, spec.cluster.ranks)


def _declared(transport: str, cluster: SpecCluster) -> Iterator[Problem]:
    if cluster.ranks == 1:
        yield Problem(
            (*_SYNC, "transport"),
            f"has no effect: there is one rank (got {transport})",
            "remove it, or raise cluster.ranks",
        )
    if transport != "shared_memory":
        return
    if isinstance(cluster.launcher, PodsLauncher) and cluster.launcher.ranks_per_host < cluster.ranks:
        yield Problem(
            (*_SYNC, "transport"),
            f"needs all ranks on one machine (got shared_memory, and {cluster.launcher.ranks_per_host} of "
            f"{cluster.ranks} ranks on each host)",
            "use tcp, or set cluster.launcher.ranks_per_host to cluster.ranks",
        )


def _without_rows(sync: Served) -> Iterator[Problem]:
    """Yields settings of rows. Without rows, servers still average dense weights (`shadow`) or hold them (`async`)."""
    if isinstance(sync, Stale):
        yield Problem(
            (*_SYNC, "kind"),
            "has no effect: no feature reads a table, and only rows would be stale (got stale)",
            "remove training.sync, or use shadow or async",
        )
        return
    rows_only = ("staleness", "wire") if isinstance(sync, Shadow) else ("wire",)
    for name in rows_only:
        if name in sync.model_fields_set:
            yield Problem(
                (*_SYNC, name),
                f"has no effect: no feature reads a table (got {getattr(sync, name)})",
                "remove it: it applies to rows",
            )


def _averaging(sync: Shadow, ranks: int) -> Iterator[Problem]:
    if ranks == 1:
        yield Problem(
            (*_SYNC, "kind"),
            "has no effect: one rank has no other dense weights to average with (got shadow, and cluster.ranks 1)",
            "raise cluster.ranks, or use stale or async",
        )
    if sync.block_momentum and sync.algorithm != "bmuf":
        yield Problem(
            (*_SYNC, "block_momentum"),
            f"has no effect with algorithm {sync.algorithm} (got {sync.block_momentum})",
            "remove it, or use algorithm: bmuf",
        )
    if sync.every_steps is not None and sync.least_interval_s:
        yield Problem(
            (*_SYNC, "least_interval_s"),
            f"has no effect: with every_steps nothing is exchanged in the background (got {sync.least_interval_s}, and "
            f"every_steps {sync.every_steps})",
            "remove one of them",
        )
