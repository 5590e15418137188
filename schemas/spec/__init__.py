"""The whole spec of a ranker, and the parts that ingestion and training depend on."""

import hashlib
import json
from typing import Annotated, Any

from pydantic import Field

from schemas.spec.alerts import Alerts
from schemas.spec.base import ColumnName, FrozenModel, Name
from schemas.spec.beam import Beam, LocalBeam
from schemas.spec.cluster import Cluster, SpecCluster
from schemas.spec.cost import Cost
from schemas.spec.data import Logs
from schemas.spec.drift import Drift
from schemas.spec.features import (
    AgeFeature,
    CrossFeature,
    Feature,
    HistoryFeature,
    Key,
    MatchFeature,
    NumericFeature,
    VectorFeature,
)
from schemas.spec.input import Input
from schemas.spec.keep import Keep
from schemas.spec.models import Model
from schemas.spec.monitoring import Monitoring
from schemas.spec.online import Online
from schemas.spec.optimizers import RowOptimizer
from schemas.spec.release import Evaluation, Gate, Push
from schemas.spec.serving import Export, Serving
from schemas.spec.sync import InStep
from schemas.spec.tables import Table
from schemas.spec.tasks import Task
from schemas.spec.training import Training
from schemas.spec.tuning import Tuning


class Inputs(FrozenModel):
    """The part of a spec that says what an example is: ingestion's columns and Transform depend on nothing else."""

    features: Annotated[dict[Name, Feature], Field(min_length=1)]
    tasks: Annotated[dict[Name, Task], Field(min_length=1)]
    event_time: ColumnName | None = None
    """Column with the time of the event, seconds since 1970 (UTC): rows expire by it."""
    keys: dict[Name, Key] = Field(default_factory=dict)

    def column_of(self, name: str) -> str:
        """Returns the column of the logs that holds the values of a feature or a key.

        Raises:
            ValueError: for a feature made of several columns.
        """
        reader = self.keys[name] if name in self.keys else self.features[name]
        if isinstance(reader, CrossFeature | AgeFeature | MatchFeature | HistoryFeature):
            raise ValueError(
                f"features.{name}: has no column of its own (got kind {reader.kind}); it is made of others"
            )
        return reader.column or name

    def label_of(self, task: str) -> str:
        """Returns the column of the logs that holds a task's label."""
        return self.tasks[task].label or task

    def table_of(self, feature: str) -> str | None:
        """Returns the table of an embedded feature, or None for a feature of floats."""
        spec = self.features[feature]
        if isinstance(spec, NumericFeature | VectorFeature | AgeFeature | MatchFeature | HistoryFeature):
            return None
        return spec.table

    def inputs(self) -> "Inputs":
        """Returns only this part."""
        return Inputs(features=self.features, tasks=self.tasks, event_time=self.event_time, keys=self.keys)

    def table_tags(self) -> dict[str, int]:
        """Returns a number from 1 for every table that a feature reads: the high bits of its keys."""
        tables = {table for table in map(self.table_of, self.features) if table}
        return {table: tag for tag, table in enumerate(sorted(tables), start=1)}


class RankerSpec(Inputs):
    """The part of a spec that a trained model depends on. Changing a gate or the push target retrains nothing."""

    name: Name
    tables: dict[Name, Table] = Field(default_factory=dict)
    model: Model
    training: Training
    cluster: Cluster = Cluster()
    export: Export = Export()

    def optimizer_of(self, table: str) -> RowOptimizer:
        """Returns the optimizer of a table's rows."""
        return self.tables[table].optimizer or self.training.embedding_optimizer

    @property
    def num_parameter_servers(self) -> int:
        """Processes that hold the rows; 0 where the ranks hold them."""
        return 0 if isinstance(self.training.sync, InStep) else self.cluster.parameter_servers or 1


def _or_auto(schema: dict[str, Any]) -> None:
    schema["anyOf"].insert(0, {"const": "auto"})


class Spec(RankerSpec):
    """A ranker: its data, features, tasks, model, training, export, gates and push target."""

    data: Logs
    input: Input = Input()
    cluster: SpecCluster = SpecCluster()
    beam: Beam = LocalBeam()
    """Where the data steps and the evaluator run. Not part of the digest: it changes no result."""
    drift: Drift | None = None
    evaluation: Evaluation = Evaluation()
    gates: Annotated[tuple[Gate, ...], Field(min_length=1)]
    serving: Serving = Serving()
    push: Push
    cost: Cost | None = None
    """Prices, with which runs say what they cost. Not part of the digest: it changes no result."""
    keep: Keep | None = None
    """What stays in the pipeline root of local runs. Not part of the digest: it changes no result."""
    monitoring: Monitoring | None = None
    """Endpoints for Prometheus. Not part of the digest: they change no result."""
    alerts: Alerts | None = None
    online: Online | None = None
    """Training between the daily runs; `sangam online` needs it, and nothing else reads it."""
    tune: Annotated[Tuning | None, Field(json_schema_extra=_or_auto)] = None
    intended_use: str = ""
    """For the model card: who may use the model for what."""

    @property
    def transforms_ahead(self) -> bool:
        """Whether examples pass Transform's graph before training: its tables of each day are there only then."""
        return self.input.transform == "ahead" or any(
            isinstance(feature, HistoryFeature) for feature in self.features.values()
        )

    def ranker(self) -> RankerSpec:
        """Returns the part that a trained model depends on."""
        parts = {key: getattr(self, key) for key in RankerSpec.model_fields}
        return RankerSpec.model_validate({**parts, "cluster": self.cluster.job()})


def digest(part: FrozenModel) -> str:
    """Returns the sha256 of a model's canonical JSON: equal for equal values, however the YAML was written."""
    canonical = json.dumps(
        part.model_dump(mode="json", exclude={"beam", "cost", "keep", "monitoring"}),
        sort_keys=True,
        separators=(",", ":"),
    )
    return hashlib.sha256(canonical.encode()).hexdigest()
