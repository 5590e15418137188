"""The request for a search, checked before anything heavy is imported, and the search's identity."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sangam.components.caching.code_digest import code_digest
from sangam.pipelines.local.request import RunRequest, check_request
from sangam.pipelines.outside import check_parts
from sangam.schemas.derived.search import PreparedSearch, search_of
from sangam.schemas.errors import UserError
from sangam.schemas.loading import Parsed, parse_spec
from sangam.schemas.spec import Spec
from sangam.schemas.spec.tuning import Tuning

IDENTITY_FILE, STUDY_FILE = "search.json", "study.sqlite"
_HOW_LONG = {"trials", "minutes"}


@dataclass(frozen=True)
class SearchRequest:
    """One search.

    Attributes:
        spec_path: path of the spec, as the user gave it.
        parsed: the spec as read from the file.
        prepared: the spec's search, with the requested number of trials and minutes.
        run: run of the steps that write the examples.
        identity: settings that all trials share, by dotted path: a change of spec, ranges or code starts a new search.
        jobs: trials at a time.
    """

    spec_path: Path
    parsed: Parsed
    prepared: PreparedSearch
    run: RunRequest
    identity: Mapping[str, Any]
    jobs: int

    @property
    def tune(self) -> Tuning:
        """The section `tune`, with all ranges."""
        return self.prepared.tune

    @property
    def searches(self) -> Path:
        """Folder of all searches of this ranker."""
        return self.run.layout.tune(self.parsed.spec.name)

    @property
    def folder(self) -> Path:
        """Folder of this search."""
        text = json.dumps(self.identity, sort_keys=True)
        return self.searches / hashlib.sha256(text.encode()).hexdigest()[:8]


def check_tune(
    spec_path: Path,
    date: str | None,
    data: str | Path,
    root: Path,
    *,
    trials: int | None,
    jobs: int,
    minutes: float | None = None,
) -> SearchRequest:
    """Checks and returns the search.

    Raises:
        UserError: the spec has no section `tune`, or a run would reject the request.
    """
    parsed = parse_spec(spec_path)
    tune = parsed.spec.tune
    if tune is None:
        raise UserError(
            f"{spec_path}: tune: is missing; write tune: auto for a prepared search, or the ranges to search over, as "
            "in docs/tuning.md: "
            "tune: {ranges: {training.dense_optimizer.learning_rate: {kind: float, low: 1e-4, high: 1e-2, log: true}}}"
        )
    asked = {key: value for key, value in (("trials", trials), ("minutes", minutes)) if value is not None}
    prepared = search_of(parsed.spec, tune.model_copy(update=asked))
    run = run_of_examples(parsed.spec, date, data, root)
    return SearchRequest(spec_path, parsed, prepared, run, _identity(parsed.spec, prepared.tune, run), jobs)


def run_of_examples(spec: Spec, date: str | None, data: str | Path, root: Path) -> RunRequest:
    """Checks and returns the run of the steps that write examples."""
    # Trials train from scratch, so they need the examples of all days. A search sends no alerts and removes nothing.
    training = spec.training.model_copy(update={"mode": "full"})
    changes = {"training": training, "alerts": None, "keep": None, "monitoring": None}
    check_parts(spec)
    return check_request(spec.model_copy(update=changes), date, data, root)


_CODE = ("sangam.trainer_module.transforms.preprocessing", "sangam.trainer_module.launch.launcher")
"""What a search's trials depend on."""


def _identity(spec: Spec, tune: Tuning, run: RunRequest) -> dict[str, Any]:
    parts = {
        **{name: spec.model_dump(mode="json")[name] for name in ("data", "tables", "model", "training")},
        **spec.inputs().model_dump(mode="json"),
        "cluster": {name: getattr(spec.cluster, name) for name in ("ranks", "parameter_servers", "data_workers")},
        "tune": tune.model_dump(mode="json", exclude=_HOW_LONG),
        "--date": str(run.date or ""),
        "--data": str(run.data_root),
        "code": code_digest(
            "sangam.trainer_module.transforms.preprocessing", "sangam.trainer_module.launch.launcher", parts=spec.parts
        ),
    }
    return dict(_leaves(parts, ""))


def what_is_new(request: SearchRequest) -> list[str]:
    """Returns the paths that differ from the last search of this ranker; empty if there is none."""
    others = sorted(request.searches.glob(f"*/{IDENTITY_FILE}"), key=lambda path: path.stat().st_mtime)
    if not others:
        return []
    before, now = json.loads(others[-1].read_text()), request.identity
    return sorted(path for path in before.keys() | now.keys() if before.get(path) != now.get(path))


def _leaves(node: Any, path: str) -> list[tuple[str, Any]]:
    if not isinstance(node, Mapping) or not node:
        return [(path, node)]
    return [leaf for key, child in node.items() for leaf in _leaves(child, f"{path}.{key}" if path else key)]
