"""What the Kubeflow Pipelines server of tests holds, and the checks that the real one makes (kubeflow/pipelines,
backend/api/v2beta1/*.proto for the fields, backend/src/apiserver/server for what is refused, model for the columns)."""

import base64
import datetime
import itertools
import json
import re
from collections.abc import Callable
from typing import Any

import yaml

from tests.fakes.kfp_tasks import NO_TIME, UNFINISHED, Plot, tasks_of

Record = dict[str, Any]

_CONFIG = {"parameters", "pipeline_root"}
_REFERENCE = {"pipeline_id", "pipeline_version_id"}
FIELDS: dict[str, set[str]] = {
    "pipeline": {"pipeline_id", "display_name", "description", "created_at", "namespace", "error"},
    "experiment": {"experiment_id", "display_name", "description", "created_at", "namespace", "storage_state"},
    "run": {
        *("experiment_id", "run_id", "display_name", "storage_state", "description", "pipeline_version_id"),
        *("pipeline_spec", "pipeline_version_reference", "runtime_config", "service_account", "created_at"),
        *("scheduled_at", "finished_at", "state", "error", "run_details", "recurring_run_id", "state_history"),
    },
    "recurring_run": {
        *("recurring_run_id", "display_name", "description", "pipeline_version_id", "pipeline_spec"),
        *("pipeline_version_reference", "runtime_config", "service_account", "max_concurrency", "trigger", "mode"),
        *("created_at", "updated_at", "status", "error", "no_catchup", "namespace", "experiment_id"),
    },
}
_KEYS = {"display_name", "name", "created_at", "description", "namespace", "state", "recurring_run_id"}
COLUMNS: dict[str, dict[str, int]] = {
    "pipeline": {"display_name": 128},
    "version": {"display_name": 127},
    "experiment": {"display_name": 128, "description": 255},
    "run": {"display_name": 255, "description": 255, "service_account": 255},
    "recurring_run": {"display_name": 255, "description": 255, "service_account": 255},
}
"""Most characters of the columns of varchar; descriptions of pipelines and versions are texts without a limit."""
PIPELINE_RUNNER = "pipeline-runner"


class Refused(Exception):
    """An answer that is not 200."""

    def __init__(self, status: int, message: str):
        self.status, self.message = status, message
        super().__init__(message)


class Store:
    """Pipelines, versions, experiments, recurring runs and runs, by id."""

    def __init__(self, now: Callable[[], datetime.datetime]):
        self.now, self._ids = now, itertools.count(1)
        self.multi_user = False
        self.tag_name = "2.16.1"
        """The release that it answers as: from 2.17 each node has tries, and workflows go after an hour."""
        self.default_account = PIPELINE_RUNNER
        """DEFAULTPIPELINERUNNERSERVICEACCOUNT of ml-pipeline."""
        self.max_page_size = 200
        self.pipelines: dict[str, Record] = {}
        self.versions: dict[str, Record] = {}
        self.experiments: dict[str, Record] = {}
        self.recurring: dict[str, Record] = {}
        self.runs: dict[str, Record] = {}
        self.killed: list[str] = []
        """Runs that were still going when the recurring run that they belong to was deleted."""
        self.plans: dict[str, list[str]] = {}
        """States that a run goes through, one every time it is looked at, by a part of its name or its date."""
        self.plots: dict[str, Plot] = {}
        """How far the steps of a run have come, by its id."""
        self.orphans: list[Record] = []
        """ScheduledWorkflows without a row in the database: no request of the API lists or deletes them."""
        self.without_workflow: set[str] = set()
        """Runs whose workflow Kubernetes has deleted: they never end."""

    @property
    def _release(self) -> tuple[int, ...]:
        return tuple(map(int, self.tag_name.split(".")[:2]))

    def stamp(self) -> str:
        return self.now().astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def new_id(self, kind: str) -> str:
        return f"{kind}-{next(self._ids):04d}"

    def health(self) -> Record:
        answer = {"commit_sha": "0" * 40, "tag_name": self.tag_name}
        return {**answer, "multi_user": self.multi_user, "pipeline_store": "database"}

    def create_pipeline(self, body: Record) -> Record:
        known(body, FIELDS["pipeline"])
        self._named(body)
        if any(there["display_name"] == body["display_name"] for there in self.pipelines.values()):
            raise Refused(409, f"Already exist error: The name {body['display_name']} already exist")
        fits("pipeline", body)
        made = {**body, "pipeline_id": self.new_id("pipeline"), "created_at": self.stamp()}
        self.pipelines[made["pipeline_id"]] = made
        return made

    def pipeline_named(self, name: str) -> Record:
        for found in self.pipelines.values():
            if found["display_name"] == name:
                return found
        raise Refused(404, f"ResourceNotFoundError: Pipeline {name} not found.")

    def upload_version(self, pipeline_id: str, name: str, description: str, text: str) -> Record:
        if pipeline_id not in self.pipelines:
            raise Refused(400, "Failed to create a pipeline version")
        if any(v["display_name"] == name and v["pipeline_id"] == pipeline_id for v in self.versions.values()):
            raise Refused(409, "Failed to create a pipeline version")
        try:
            spec = next(iter(yaml.safe_load_all(text)))
            parameters = spec["root"]["inputDefinitions"]["parameters"]
        except (yaml.YAMLError, KeyError, TypeError):
            raise Refused(400, "Failed to create a pipeline version: invalid pipeline spec") from None
        fits("version", {"display_name": name})
        made = {
            "pipeline_id": pipeline_id,
            "pipeline_version_id": self.new_id("version"),
            "display_name": name,
            "description": description,
            "created_at": self.stamp(),
            "pipeline_spec": spec,
        }
        self.versions[made["pipeline_version_id"]] = made
        made["_parameters"] = set(parameters)
        return made

    def create_experiment(self, body: Record) -> Record:
        known(body, FIELDS["experiment"])
        self._named(body)
        if any(there["display_name"] == body["display_name"] for there in self.experiments.values()):
            raise Refused(409, f"Already exist error: experiment {body['display_name']}")
        fits("experiment", body)
        made = {
            **body,
            "experiment_id": self.new_id("experiment"),
            "created_at": self.stamp(),
            "storage_state": "AVAILABLE",
        }
        self.experiments[made["experiment_id"]] = made
        return made

    def create_recurring(self, body: Record) -> Record:
        known(body, FIELDS["recurring_run"])
        self._launchable(body)
        if body.get("mode") not in ("ENABLE", "DISABLE"):
            raise Refused(400, f"Invalid recurring run mode {body.get('mode')}")
        if not 1 <= int(body.get("max_concurrency", 0)) <= 10:
            raise Refused(400, "The max concurrency of the recurring run is out of range. Support 1-10.")
        trigger = body.get("trigger") or {}
        known(trigger, {"cron_schedule", "periodic_schedule"})
        cron = trigger.get("cron_schedule") or {}
        known(cron, {"start_time", "end_time", "cron"})
        if not re.fullmatch(r"\d+ \d+ \d+ \* \* \*", cron.get("cron", "")):
            raise Refused(400, "Schedule cron is not a supported format")
        made = {
            **body,
            "recurring_run_id": self.new_id("recurring"),
            "created_at": self.stamp(),
            "status": "ENABLED" if body["mode"] == "ENABLE" else "DISABLED",
            "service_account": self._account_of_schedule(body),
        }
        del made["mode"]
        try:
            fits("recurring_run", made)
        except Refused:
            # It creates the ScheduledWorkflow first and the row afterwards, and takes nothing back.
            self.orphans.append(made)
            raise
        self.recurring[made["recurring_run_id"]] = made
        return made

    def set_enabled(self, recurring_run_id: str, is_enabled: bool) -> Record:
        self.get(self.recurring, recurring_run_id)["status"] = "ENABLED" if is_enabled else "DISABLED"
        return {}

    def delete_recurring(self, recurring_run_id: str) -> Record:
        self.get(self.recurring, recurring_run_id)
        del self.recurring[recurring_run_id]
        for run in self.runs.values():
            # The workflow is owned by the schedule: Kubernetes deletes it too, and the run never ends.
            if run.get("recurring_run_id") == recurring_run_id:
                self.without_workflow.add(run["run_id"])
                if run["state"] in UNFINISHED:
                    self.killed.append(run["run_id"])
        return {}

    def _account_of_schedule(self, body: Record) -> str:
        """Returns the account of a schedule's runs: from 2.5 to 2.16 the default, whatever was asked for.

        The compiler has set the default before the API server looks whether there is none (pull request 13325).
        """
        is_ignored = (2, 5) <= self._release < (2, 17)
        return self.default_account if is_ignored else str(body.get("service_account") or self.default_account)

    def create_run(self, body: Record, **more: str) -> Record:
        known(body, FIELDS["run"] - {"run_id", "state", "recurring_run_id"})
        self._launchable(body)
        fits("run", body)
        made = {**body, "run_id": self.new_id("run"), "created_at": self.stamp(), "state": "PENDING"}
        made |= {"service_account": body.get("service_account") or self.default_account}
        made |= {"scheduled_at": self.stamp(), "finished_at": "1970-01-01T00:00:00Z", **more}
        self.runs[made["run_id"]] = made
        return made

    def fire(self, recurring_run_id: str) -> Record:
        """Starts the run of a schedule, as the controller of scheduled workflows does."""
        schedule = self.recurring[recurring_run_id]
        shared = ("experiment_id", "pipeline_version_reference", "runtime_config", "service_account")
        body = {"display_name": f"fired-{next(self._ids)}", **{name: schedule[name] for name in shared}}
        return self.create_run(body, recurring_run_id=recurring_run_id)

    def look_at(self, run_id: str) -> Record:
        """Returns a run with its tasks, after the next step of its plan."""
        run = self.get(self.runs, run_id)
        self.report()
        plan = self._plan(run)
        if run["state"] in UNFINISHED and plan and run_id not in self.without_workflow:
            self.set_state(run_id, plan.pop(0))
        plot = self.plots.get(run_id, Plot())
        tasks = tasks_of(run["state"], plot, run["created_at"], self.stamp(), has_tries=self._release >= (2, 17))
        run["run_details"] = {"task_details": [{**task, "run_id": run_id} for task in tasks]}
        return run

    def set_state(self, run_id: str, state: str) -> None:
        run = self.runs[run_id]
        run["state"] = state
        run["finished_at"] = NO_TIME if state in UNFINISHED else self.stamp()

    def terminate(self, run_id: str) -> Record:
        """Ends a run: Argo's workflow fails of its deadline, and so does the run, once the agent reports it."""
        if self.get(self.runs, run_id)["state"] not in UNFINISHED - {"CANCELING"}:
            raise Refused(400, f"Failed to terminate a run {run_id}. Row not found")
        self.set_state(run_id, "CANCELING")
        if run_id in self.without_workflow:
            raise Refused(500, f"Failed to terminate run {run_id} due to error terminating its workflow")
        return {}

    def report(self) -> None:
        """Notes what Kubernetes has done meanwhile, as the persistence agent does."""
        for run_id, run in self.runs.items():
            if run["state"] == "CANCELING" and run_id not in self.without_workflow:
                self.set_state(run_id, "FAILED")
            if run["state"] not in UNFINISHED and self._age_s(run) > self.workflow_ttl_s:
                self.without_workflow.add(run_id)

    @property
    def workflow_ttl_s(self) -> int:
        """Seconds for which Kubernetes keeps the workflow of a run that has ended, and with it its pods."""
        return 3600 if self._release >= (2, 17) else 86_400

    def _age_s(self, run: Record) -> float:
        ended = datetime.datetime.fromisoformat(run["finished_at"].replace("Z", "+00:00"))
        return (self.now() - ended).total_seconds()

    def retry(self, run_id: str) -> None:
        """Starts a failed run again, as the button of Kubeflow's pages does; without its workflow it cannot."""
        self.report()
        if run_id in self.without_workflow and self._age_s(self.runs[run_id]) > self.workflow_ttl_s:
            raise Refused(500, f"Failed to retry run {run_id}: its workflow is gone")
        self.set_state(run_id, "RUNNING")
        self.plans[run_id] = ["RUNNING", "SUCCEEDED"]

    def get(self, records: dict[str, Record], key: str) -> Record:
        if key not in records:
            raise Refused(404, f"ResourceNotFoundError: {key} not found.")
        return records[key]

    def page(self, found: list[Record], query: dict[str, str], key: str) -> Record:
        """Returns a page as the real server does; its token holds what the list was asked for."""
        wanted = filters(query.get("filter", ""))
        descending = _descending(query.get("sort_by", ""))
        found = [
            record
            for record in found
            if all((str(record.get(name)) == value) == is_equal for name, value, is_equal in wanted)
        ]
        found.sort(key=lambda record: (record["created_at"], record[key]), reverse=descending)
        asked = json.dumps([sorted(wanted), descending])
        start = 0
        if query.get("page_token"):
            token = json.loads(base64.b64decode(query["page_token"]))
            if token["asked"] != asked:
                raise Refused(400, "page token does not match the supplied sort by and/or filtering criteria.")
            start = next((at for at, record in enumerate(found) if record[key] == token["next"]), len(found))
        size = min(int(query.get("page_size") or 20), self.max_page_size)
        rest = found[start + size : start + size + 1]
        token_text = json.dumps({"asked": asked, "next": rest[0][key]}) if rest else ""
        return {
            "records": found[start : start + size],
            "total_size": len(found),
            "next_page_token": base64.b64encode(token_text.encode()).decode(),
        }

    def _plan(self, run: Record) -> list[str]:
        date = (run.get("runtime_config") or {}).get("parameters", {}).get("date", "")
        if run["run_id"] in self.plans:
            return self.plans[run["run_id"]]
        for part, plan in self.plans.items():
            if part == date or part in run["display_name"]:
                return plan
        self.plans[run["run_id"]] = ["RUNNING", "SUCCEEDED"]
        return self.plans[run["run_id"]]

    def _named(self, body: Record) -> None:
        if not body.get("display_name"):
            raise Refused(400, "name is required")
        if self.multi_user and not body.get("namespace"):
            raise Refused(400, "Namespace cannot be empty in multi-user mode")

    def _launchable(self, body: Record) -> None:
        if not body.get("display_name"):
            raise Refused(400, "name is empty")
        if body.get("experiment_id") not in self.experiments:
            raise Refused(400, f"experiment {body.get('experiment_id')!r} not found")
        reference = body.get("pipeline_version_reference") or {}
        known(reference, _REFERENCE)
        version = self.versions.get(reference.get("pipeline_version_id", ""))
        if version is None or version["pipeline_id"] != reference.get("pipeline_id"):
            raise Refused(400, f"pipeline version {reference} not found")
        config = body.get("runtime_config") or {}
        known(config, _CONFIG)
        if unknown := set(config.get("parameters", {})) - version["_parameters"]:
            raise Refused(400, f"the pipeline has no parameters {sorted(unknown)}")


def known(document: Record, fields: set[str]) -> None:
    """Refuses fields that the message does not have, as protojson does."""
    for name in document:
        if name not in fields:
            raise Refused(400, f'proto: (line 1:2): unknown field "{name}"')


def fits(kind: str, record: Record) -> None:
    """Refuses what the database has no room for, in its words."""
    for field, most in COLUMNS[kind].items():
        if len(record.get(field) or "") > most:
            column = "".join(part.capitalize() for part in field.split("_"))
            said = f"Error 1406 (22001): Data too long for column '{column}' at row 1"
            raise Refused(500, f"InternalServerError: {said}: {said}")


def filters(text: str) -> list[tuple[str, str, bool]]:
    """Returns field, value, and whether they must be equal or must not."""
    if not text:
        return []
    document = json.loads(text)
    known(document, {"predicates"})
    wanted = []
    for predicate in document["predicates"]:
        known(predicate, {"operation", "key", "stringValue", "string_value"})
        if predicate["operation"] not in ("EQUALS", "NOT_EQUALS"):
            raise Refused(400, f"invalid predicate operation: {predicate['operation']}")
        if predicate["key"] not in _KEYS:
            raise Refused(400, f'no support for filtering on unrecognized field "{predicate["key"]}"')
        value = predicate.get("stringValue", predicate.get("string_value"))
        wanted.append((predicate["key"], value, predicate["operation"] == "EQUALS"))
    return wanted


def _descending(text: str) -> bool:
    words = text.lower().split()
    if len(words) > 2 or (words and words[0] not in _KEYS) or words[1:] not in ([], ["asc"], ["desc"]):
        raise Refused(400, f"Received invalid sort by format {text!r}")
    return words[1:] == ["desc"]
