"""The calls to Kubeflow Pipelines v2beta1 that Sangam needs. After a lost answer, the object is looked up before it is
created again, so that nothing is created twice."""

import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import kfp_server_api as generated

from sangam.pipelines.deploy.columns import check_room
from sangam.pipelines.deploy.errors import ApiError, Conflict, NotFound, Transient
from sangam.pipelines.deploy.records import (
    FINISHED,
    KubeflowRun,
    Pipeline,
    Schedule,
    Version,
    pipeline_of,
    run_of,
    schedule_of,
    version_of,
)
from sangam.pipelines.deploy.transport import ATTEMPTS, BACKOFF, Sleep, Transport
from sangam.pipelines.provenance import VERSION
from sangam.schemas.errors import UserError

_PAGE = 200
"""The server's largest page size."""
_FIRST_ATTEMPTS = 3
_V2_HEALTH, _V1_HEALTH = "/apis/v2beta1/healthz", "/apis/v1beta1/healthz"
_NEWEST_FIRST = "created_at desc"

Made = TypeVar("Made")


@dataclass(frozen=True)
class Launch:
    """The settings of a run or a recurring run, apart from its name.

    Attributes:
        experiment_id: experiment of the run.
        pipeline_id: pipeline of the version.
        version_id: version to run.
        parameters: parameters of the pipeline, without the date.
        service_account: service account of its pods; empty: the server's default.
    """

    experiment_id: str
    pipeline_id: str
    version_id: str
    parameters: dict[str, str]
    service_account: str = ""

    def fields(self) -> dict[str, Any]:
        """Returns the fields that runs and recurring runs have in common."""
        reference = generated.V2beta1PipelineVersionReference(
            pipeline_id=self.pipeline_id, pipeline_version_id=self.version_id
        )
        return {
            "experiment_id": self.experiment_id,
            "pipeline_version_reference": reference,
            "runtime_config": generated.V2beta1RuntimeConfig(parameters=self.parameters),
            "service_account": self.service_account or None,
        }


class Api:
    """One server, one namespace."""

    def __init__(self, transport: Transport, namespace: str, sleep: Sleep):
        """Stores the transport and the namespace; sends no request."""
        configuration = generated.Configuration(host=transport.host)
        client = generated.ApiClient(configuration)
        client.rest_client = transport
        client.user_agent = f"sangam/{VERSION}"
        self.host, self.namespace = transport.host, namespace
        self._transport, self._sleep = transport, sleep
        self._pipelines = generated.PipelineServiceApi(client)
        self._uploads = generated.PipelineUploadServiceApi(client)
        self._experiments = generated.ExperimentServiceApi(client)
        self._schedules = generated.RecurringRunServiceApi(client)
        self._runs = generated.RunServiceApi(client)

    def check(self) -> None:
        """Checks that this is a server of Kubeflow Pipelines v2.

        Raises:
            ApiError: it is not, or cannot be reached.
            UserError: a namespace is missing, or given to a server without users.
        """
        try:
            # Few attempts: usually the address is wrong, and a user waits for the answer.
            answer = self._transport.request("GET", f"{self.host}{_V2_HEALTH}", attempts=_FIRST_ATTEMPTS)
        except NotFound:
            raise ApiError(self._wrong_server()) from None
        has_users = bool(json.loads(answer.data or b"{}").get("multi_user"))
        if has_users and not self.namespace:
            raise UserError(
                f"--namespace: is missing (got none); Kubeflow at {self.host} has several users: give the namespace "
                "of the profile that the pipeline runs in"
            )
        if self.namespace and not has_users:
            raise UserError(
                f"--namespace: has no effect (got {self.namespace}); Kubeflow at {self.host} runs everything in its "
                "own namespace: leave it out"
            )

    def _wrong_server(self) -> str:
        try:
            self._transport.GET(f"{self.host}{_V1_HEALTH}")
        except ApiError:
            return (
                f"--host: is not Kubeflow Pipelines v2 (got {self.host}, no {_V2_HEALTH}); give the address of "
                "ml-pipeline, or of Kubeflow with the path /pipeline"
            )
        return (
            f"--host: is Kubeflow Pipelines v1 (got {self.host}, {_V1_HEALTH} but no {_V2_HEALTH}); "
            "Sangam needs a backend of version 2.0 or later"
        )

    def server_version(self) -> str:
        """Returns the release of Kubeflow Pipelines, such as 2.16.1; `unknown` if the answer lacks it."""
        answer = self._transport.GET(f"{self.host}{_V2_HEALTH}")
        return str(json.loads(answer.data or b"{}").get("tag_name") or "unknown")

    def find_pipeline(self, name: str) -> Pipeline | None:
        """Returns the pipeline of a name."""
        try:
            return pipeline_of(self._pipelines.pipeline_service_get_pipeline_by_name(name, **self._in_namespace()))
        except NotFound:
            return None

    def make_pipeline(self, name: str, description: str) -> tuple[Pipeline, bool]:
        """Returns the pipeline of a name, created if there is none, and whether it was created."""
        check_room("pipeline", name=name)
        body = generated.V2beta1Pipeline(display_name=name, description=description, **self._in_namespace())
        return self._make_once(
            lambda: self.find_pipeline(name),
            lambda: pipeline_of(self._pipelines.pipeline_service_create_pipeline(body)),
        )

    def find_version(self, pipeline_id: str, name: str) -> Version | None:
        """Returns the version of a name."""
        listed = self._pages(
            self._pipelines.pipeline_service_list_pipeline_versions, "pipeline_versions", pipeline_id, filter=_is(name)
        )
        return next((version_of(got) for got in listed if got.display_name == name), None)

    def get_version(self, pipeline_id: str, version_id: str) -> Version | None:
        """Returns a version."""
        try:
            return version_of(self._pipelines.pipeline_service_get_pipeline_version(pipeline_id, version_id))
        except NotFound:
            return None

    def versions(self, pipeline_id: str) -> int:
        """Returns how many versions a pipeline has."""
        return sum(
            1
            for _ in self._pages(
                self._pipelines.pipeline_service_list_pipeline_versions, "pipeline_versions", pipeline_id
            )
        )

    def make_version(self, pipeline_id: str, name: str, description: str, compiled: str) -> tuple[Version, bool]:
        """Returns the version of a name, uploaded if there is none, and whether it was uploaded."""
        check_room("pipeline version", name=name)

        def upload() -> Version:
            with tempfile.TemporaryDirectory() as folder:
                file = Path(folder) / f"{name}.yaml"
                file.write_text(compiled, encoding="utf-8")
                got = self._uploads.upload_pipeline_version(
                    str(file), name=name, pipelineid=pipeline_id, description=description
                )
            return version_of(got)

        return self._make_once(lambda: self.find_version(pipeline_id, name), upload)

    def make_experiment(self, name: str) -> str:
        """Returns the id of the experiment of a name, created if there is none."""
        check_room("experiment", name=name)
        body = generated.V2beta1Experiment(display_name=name, **self._in_namespace())
        return self._make_once(
            lambda: self.find_experiment(name),
            lambda: str(self._experiments.experiment_service_create_experiment(body).experiment_id),
        )[0]

    def find_experiment(self, name: str) -> str | None:
        """Returns the id of the experiment of a name."""
        listed = self._pages(
            self._experiments.experiment_service_list_experiments,
            "experiments",
            filter=_is(name),
            **self._in_namespace(),
        )
        return next((str(got.experiment_id) for got in listed if got.display_name == name), None)

    def schedules(self, pipeline_id: str) -> list[Schedule]:
        """Returns all recurring runs of a pipeline, also those that Sangam did not create, oldest first."""
        # Not every 2.x server can filter by pipeline (model/job.go of its API server).
        listed = self._pages(
            self._schedules.recurring_run_service_list_recurring_runs, "recurring_runs", **self._in_namespace()
        )
        return [schedule for schedule in map(schedule_of, listed) if schedule.pipeline_id == pipeline_id]

    def make_disabled_schedule(
        self, name: str, launch: Launch, cron: str, description: str, known: frozenset[str]
    ) -> Schedule:
        """Creates a recurring run, disabled: one run at a time, without catch-up.

        Args:
            name: name of the recurring run.
            launch: settings of its runs.
            cron: cron expression of its start times.
            description: description for the user.
            known: ids of existing recurring runs, to tell them from the new one.
        """
        check_room("recurring run", name=name, description=description, service_account=launch.service_account)
        body = generated.V2beta1RecurringRun(
            display_name=name,
            description=description,
            mode="DISABLE",
            max_concurrency="1",
            no_catchup=True,
            trigger=generated.V2beta1Trigger(cron_schedule=generated.V2beta1CronSchedule(cron=cron)),
            **self._in_namespace(),
            **launch.fields(),
        )

        def find() -> Schedule | None:
            new = [schedule for schedule in self.schedules(launch.pipeline_id) if schedule.id not in known]
            return next((schedule for schedule in new if schedule.name == name), None)

        return self._make_once(
            find, lambda: schedule_of(self._schedules.recurring_run_service_create_recurring_run(body))
        )[0]

    def enable(self, schedule_id: str) -> None:
        """Lets a recurring run start runs."""
        self._schedules.recurring_run_service_enable_recurring_run(schedule_id)

    def disable(self, schedule_id: str) -> None:
        """Stops a recurring run from starting runs; runs in progress continue."""
        try:
            self._schedules.recurring_run_service_disable_recurring_run(schedule_id)
        except NotFound:
            return

    def delete_schedule(self, schedule_id: str) -> None:
        """Deletes a recurring run and its runs in progress: check for those first."""
        try:
            self._schedules.recurring_run_service_delete_recurring_run(schedule_id)
        except NotFound:
            return

    def runs(self, pipeline_id: str, experiment_id: str | None = None) -> Iterator[KubeflowRun]:
        """Yields the runs of a pipeline, newest first, without their steps."""
        scope = {"experiment_id": experiment_id} if experiment_id else self._in_namespace()
        listed = self._pages(self._runs.run_service_list_runs, "runs", sort_by=_NEWEST_FIRST, **scope)
        return (run for run in map(run_of, listed) if run.pipeline_id == pipeline_id)

    def unfinished_runs(self, pipeline_id: str) -> list[KubeflowRun]:
        """Returns the runs of a pipeline that have not finished."""
        # Not a filter by unfinished states: a new run may have no state yet.
        unfinished = _filter(*(("NOT_EQUALS", "state", state.upper()) for state in FINISHED))
        listed = self._pages(self._runs.run_service_list_runs, "runs", filter=unfinished, **self._in_namespace())
        return [run for run in map(run_of, listed) if run.pipeline_id == pipeline_id and run.is_unfinished]

    def runs_named(self, name: str, experiment_id: str) -> list[KubeflowRun]:
        """Returns the runs of a name, oldest first."""
        listed = self._pages(self._runs.run_service_list_runs, "runs", experiment_id=experiment_id, filter=_is(name))
        runs = [run_of(got) for got in listed if got.display_name == name]
        return sorted(runs, key=lambda run: (run.created_at is None, run.created_at, run.id))

    def get_run(self, run_id: str) -> KubeflowRun:
        """Returns a run with its steps."""
        return run_of(self._runs.run_service_get_run(run_id))

    def make_run(self, name: str, launch: Launch, known: frozenset[str]) -> KubeflowRun:
        """Returns the run of a name that is not among `known`, started if there is none."""
        check_room("run", name=name, service_account=launch.service_account)
        body = generated.V2beta1Run(display_name=name, **launch.fields())
        made, _ = self._make_once(
            lambda: self.settle(name, launch.experiment_id, known),
            lambda: run_of(self._runs.run_service_create_run(body)),
        )
        return self.settle(name, launch.experiment_id, known) or made

    def settle(self, name: str, experiment_id: str, known: frozenset[str]) -> KubeflowRun | None:
        """Keeps one run of a name and terminates the others; ignores `known` runs, which had finished before.

        There are several runs if two clients started the run at once, or if the server started it long after the
        request timed out: it starts the workflow first, and stores the run afterwards (`CreateRun`,
        backend/src/apiserver/resource/resource_manager.go of kubeflow/pipelines). Every client keeps the same run: a
        run that succeeded, else the oldest unfinished one.
        """
        runs = [run for run in self.runs_named(name, experiment_id) if run.id not in known]
        # Oldest first; `min` returns the first of equals.
        kept = min(runs, key=lambda run: (run.state != "succeeded", not run.is_unfinished), default=None)
        for run in runs:
            # A run that is being canceled may never finish if Kubernetes has deleted its workflow.
            if run != kept and run.is_unfinished and run.state != "canceling":
                self._terminate(run.id)
        return kept

    def _terminate(self, run_id: str) -> None:
        try:
            self._runs.run_service_terminate_run(run_id)
        except Transient:
            raise
        except ApiError:
            # An earlier try may have set the state and then failed because the workflow is missing.
            if self.get_run(run_id).state not in (*FINISHED, "canceling"):
                raise

    def _make_once(self, find: Callable[[], Made | None], make: Callable[[], Made]) -> tuple[Made, bool]:
        """Returns what `find` returns, or else what `make` creates, and whether it was created."""
        existing = find()
        if existing is not None:
            return existing, False
        for attempt in range(ATTEMPTS):
            try:
                return make(), True
            except (Conflict, Transient) as error:
                if isinstance(error, Transient) and not error.may_have_happened:
                    raise
                # The server may still be creating it: wait before the look-up.
                self._sleep(BACKOFF.wait_s(attempt, error.wait_s if isinstance(error, Transient) else None))
                existing = find()
                if existing is not None:
                    return existing, True
                if attempt == ATTEMPTS - 1:
                    raise
        raise AssertionError("unreachable")

    def _in_namespace(self) -> dict[str, str]:
        return {"namespace": self.namespace} if self.namespace else {}

    def _pages(self, listing: Callable[..., Any], field: str, *arguments: str, **options: Any) -> Iterator[Any]:
        token = ""
        while True:
            page = listing(*arguments, page_size=_PAGE, **({"page_token": token} if token else {}), **options)
            yield from getattr(page, field) or []
            token = page.next_page_token or ""
            if not token:
                return


def _is(name: str) -> str:
    return _filter(("EQUALS", "display_name", name))


def _filter(*predicates: tuple[str, str, str]) -> str:
    """Returns a filter that requires all predicates: (operation, key, value)."""
    listed = [{"operation": operation, "key": key, "stringValue": value} for operation, key, value in predicates]
    return json.dumps({"predicates": listed})
