"""Resolves the baseline before the cache lookup: a new baseline means a new evaluation."""

from tfx.orchestration.portable import data_types

from sangam.components.caching.driver import AddingDriver
from sangam.components.registry.blessed import baseline_for, read_all
from sangam.components.steps.evaluator.models.baseline_days import evaluation_days
from sangam.schemas.contracts.root import Root


class Driver(AddingDriver):
    """Adds `baseline_uri` to the exec properties; empty if there is no blessed model."""

    def added(self, execution_info: data_types.ExecutionInfo) -> dict[str, str]:
        """Looks up the baseline in the registry."""
        properties = execution_info.exec_properties
        models = read_all(Root(properties["pipeline_root"]).blessed(properties["name"]))
        inputs = execution_info.input_dict
        baseline = baseline_for(inputs["model"][0].uri, models, evaluation_days(inputs["examples"][0]))
        return {"baseline_uri": baseline or ""}
