"""The spec of a ranker, and the parts on which ingestion and training depend."""

import hashlib
import json
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from sangam.schemas.parts.base import ColumnName, FrozenModel, ModuleName, Name
from sangam.schemas.parts.importing import import_parts
from sangam.schemas.spec.alerts import Alerts
from sangam.schemas.spec.beam import Beam, LocalBeam
from sangam.schemas.spec.cluster import Cluster, SpecCluster
from sangam.schemas.spec.cost import Cost
from sangam.schemas.spec.data import Logs, Parts, ServedLogs, SplitLogs, TableLogs
from sangam.schemas.spec.drift import Drift
from sangam.schemas.spec.events import EventId
from sangam.schemas.spec.features import (
    AgeFeature,
    CrossFeature,
    Feature,
    HistoryFeature,
    Key,
    MatchFeature,
    SequenceFeature,
)
from sangam.schemas.spec.input import Input
from sangam.schemas.spec.keep import Keep
from sangam.schemas.spec.models import Model
from sangam.schemas.spec.monitoring import Monitoring
from sangam.schemas.spec.online import Online
from sangam.schemas.spec.optimizers import RowOptimizer
from sangam.schemas.spec.release import AnyGate, Evaluation, Gate, PriceGate, Push, SkewGate
from sangam.schemas.spec.serving import Export, Serving
from sangam.schemas.spec.sync import MAX_SHARING, InStep, Transport
from sangam.schemas.spec.tables import Table
from sangam.schemas.spec.tasks import BinaryTask, Task
from sangam.schemas.spec.training import Training
from sangam.schemas.spec.tuning import Tuning


class Inputs(FrozenModel):
    """The part of a spec that defines an example: ingestion's columns and Transform depend on nothing else."""

    parts: Annotated[tuple[ModuleName, ...], AfterValidator(import_parts)] = Field(
        default=(), exclude_if=lambda parts: parts == ()
    )
    """Modules with parts of your own, beside the spec or installed, or names of entry points; docs/parts.md."""
    features: Annotated[dict[Name, Feature], Field(min_length=1)]
    """Inputs of the model, by name; docs/features.md."""
    tasks: Annotated[dict[Name, Task], Field(min_length=1)]
    """Predictions of the model, by name; docs/training.md."""
    event_time: ColumnName | None = None
    """Column with the time of the event, in seconds since 1970 (UTC). Rows expire and sources are joined by it; a
    column in another unit stops the run."""
    keys: dict[Name, Key] = Field(default_factory=dict)
    """Columns that only group and slice examples in evaluation, by name; docs/evaluation.md."""

    def column_of(self, name: str) -> str:
        """Returns the column of the logs that holds the values of a feature or a key.

        Raises:
            ValueError: for a feature of several columns.
        """
        if name in self.keys:
            return self.keys[name].column or name
        feature = self.features[name]
        if isinstance(feature, CrossFeature | AgeFeature | MatchFeature | HistoryFeature):
            raise ValueError(f"features.{name}: has no column of its own (got kind {feature.kind}); it combines others")
        return feature.reads(name)[0].name

    def label_of(self, task: str) -> str:
        """Returns the column of the logs that holds a task's label."""
        return self.tasks[task].label or task

    def table_of(self, feature: str) -> str | None:
        """Returns the table of an embedded feature, or None for a feature of floats."""
        return self.features[feature].table_name()

    def features_of(self, table: str) -> tuple[str, ...]:
        """Returns the features that read a table."""
        return tuple(name for name in self.features if self.table_of(name) == table)

    def tables_of(self, feature: str) -> tuple[str, ...]:
        """Returns all tables of a feature: its own, and those of the further ids of its events."""
        own, declared = self.table_of(feature), self.features[feature]
        beside = declared.beside.values() if isinstance(declared, SequenceFeature) else ()
        return (*([own] if own else []), *(part.table for part in beside if isinstance(part, EventId)))

    def inputs(self) -> "Inputs":
        """Returns only this part."""
        return Inputs.model_validate({name: getattr(self, name) for name in Inputs.model_fields})

    def table_tags(self) -> dict[str, int]:
        """Returns a number from 1 for every table that a feature reads; it is the high bits of the table's keys."""
        tables = {table for feature in self.features for table in self.tables_of(feature)}
        return {table: tag for tag, table in enumerate(sorted(tables), start=1)}


class RankerSpec(Inputs):
    """The part of a spec on which a trained model depends. A changed gate or push target retrains nothing."""

    name: Name
    """Name of the ranker, and of its pushed models, blessings and checkpoints."""
    tables: dict[Name, Table] = Field(default_factory=dict)
    """Embedding tables, by name; several features may share one; docs/tables.md."""
    model: Model
    """Architecture; docs/models.md."""
    training: Training
    """Mode, optimizers, epochs, batches and checkpoints of training; docs/training.md."""
    cluster: Cluster = Cluster()
    """Processes and limits of the training job."""
    export: Export = Export()
    """Form of the exported model; docs/serving.md."""

    def optimizer_of(self, table: str) -> RowOptimizer:
        """Returns the optimizer of a table's rows."""
        return self.tables[table].optimizer or self.training.embedding_optimizer

    @property
    def num_parameter_servers(self) -> int:
        """Number of processes that hold the rows; 0 where the ranks hold them."""
        return 0 if isinstance(self.training.sync, InStep) else self.cluster.parameter_servers or 1

    def transport(self, *, ranks_here: int) -> Transport | None:
        """Returns how the ranks communicate; None: there is one, or they communicate through parameter servers.

        Args:
            ranks_here: number of ranks on this machine.
        """
        sync, ranks = self.training.sync, self.cluster.ranks
        if not isinstance(sync, InStep) or ranks == 1:
            return None
        if sync.transport != "auto":
            return sync.transport
        return "shared_memory" if ranks_here == ranks <= MAX_SHARING else "tcp"


def _or_auto(schema: dict[str, Any]) -> None:
    schema["anyOf"].insert(0, {"const": "auto"})


class Spec(RankerSpec):
    """A ranker: its data, features, tasks, model, training, export, gates and push target."""

    data: Logs
    """Logs by day, of served requests, in named splits or as one table, joined sources, and bounds on bad values;
    docs/data.md."""
    input: Input = Input()
    """Place where examples are transformed; docs/training.md#where-examples-are-transformed."""
    cluster: SpecCluster = SpecCluster()
    """Processes of the training job, and on Kubernetes the pods, volumes and retries of each step; docs/kubeflow.md."""
    beam: Beam = LocalBeam()
    """Engine of the data steps and the evaluator. It changes no result; docs/engines.md."""
    drift: Drift | None = None
    """Bounds on the distance between new values and those of training; docs/evaluation.md. Left out: no bounds."""
    evaluation: Evaluation = Evaluation()
    """Slices, groups, lists and confidence intervals; docs/evaluation.md."""
    gates: Annotated[tuple[AnyGate, ...], Field(min_length=1)]
    """Bounds on metrics that a model must meet to be blessed; docs/evaluation.md."""
    serving: Serving = Serving()
    """Bounds on the size and the latency of the model, and the log of its requests; docs/serving.md."""
    push: Push
    """Destination of a blessed model."""
    cost: Cost | None = None
    """Prices of machines, for the cost of runs and plans. It changes no result; docs/planning.md#cost."""
    keep: Keep | None = None
    """Limits on runs, models and checkpoints in the root of local runs. It changes no result; docs/runs.md#what-stays.
    Left out: everything stays."""
    monitoring: Monitoring | None = None
    """Endpoints for Prometheus. It changes no result; docs/monitoring.md. Left out: no endpoints."""
    alerts: Alerts | None = None
    """Webhook for failed runs, refused models, warnings and days without a push; docs/daily.md. Left out: no alerts."""
    online: Online | None = None
    """Training between the daily runs, by `sangam online`; docs/online.md."""
    tune: Annotated[Tuning | None, Field(json_schema_extra=_or_auto)] = None
    """Search of `sangam tune`; `auto` is short for `{auto: true}`; docs/tuning.md."""
    intended_use: str = ""
    """Text for the model card: users and uses that the model is meant for."""

    @property
    def logs(self) -> Parts:
        """The logs as ingestion reads them: a table's rows lie by day or split."""
        return self.data.parts if isinstance(self.data, ServedLogs | TableLogs) else self.data

    @property
    def validates_on_train_rows(self) -> bool:
        """Whether validation holds out train rows, the newest or a share, and has no files of its own."""
        if isinstance(self.data, TableLogs):
            return self.data.validation is not None
        return self.data.splits.held_out > 0 if isinstance(self.data, SplitLogs) else self.data.validation_days > 0

    @property
    def validates_on_newest_rows(self) -> bool:
        """Whether validation holds out the newest train rows, which tell what older ones do not."""
        if isinstance(self.data, SplitLogs) or (isinstance(self.data, TableLogs) and self.data.time is None):
            return False
        return self.validates_on_train_rows

    @property
    def logs_with_tables(self) -> Parts:
        """The logs with all tables that features come from: those of served requests are not joined."""
        return self.data.with_tables if isinstance(self.data, ServedLogs) else self.logs

    @property
    def quality_gates(self) -> tuple[Gate, ...]:
        """The gates of metrics."""
        return tuple(gate for gate in self.gates if isinstance(gate, Gate))

    @property
    def price_gate(self) -> PriceGate | None:
        """The gate of the price of serving; None without one."""
        return next((gate for gate in self.gates if isinstance(gate, PriceGate)), None)

    @property
    def skew_gates(self) -> tuple[SkewGate, ...]:
        """The gates of skew."""
        return tuple(gate for gate in self.gates if isinstance(gate, SkewGate))

    @property
    def transforms_ahead(self) -> bool:
        """Whether examples pass Transform's graph before training; history features need its tables of each day."""
        return self.input.transform == "ahead" or any(
            isinstance(feature, HistoryFeature) for feature in self.features.values()
        )

    def ranker(self) -> RankerSpec:
        """Returns the part on which a trained model depends."""
        parts = {key: getattr(self, key) for key in RankerSpec.model_fields}
        return RankerSpec.model_validate({**parts, "tasks": self._trained_tasks(), "cluster": self.cluster.job()})

    def _trained_tasks(self) -> dict[str, Task]:
        """Returns the tasks with the share of negatives that the train split has: data.negatives sets it as well."""
        negatives = self.data.negatives
        return {
            name: task.model_copy(update={"keep_negatives": negatives.kept})
            if negatives and isinstance(task, BinaryTask) and self.label_of(name) == negatives.label
            else task
            for name, task in self.tasks.items()
        }


def digest(part: FrozenModel) -> str:
    """Returns the sha256 of a model's canonical JSON: equal for equal values, however the YAML was written."""
    canonical = json.dumps(
        part.model_dump(mode="json", exclude={"beam", "cost", "keep", "monitoring"}),
        sort_keys=True,
        separators=(",", ":"),
    )
    return hashlib.sha256(canonical.encode()).hexdigest()
