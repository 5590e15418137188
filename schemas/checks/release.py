"""Mistakes in evaluation, gates, export, drift and push target."""

import re
from collections.abc import Iterator, Mapping, Sequence

from sangam.schemas.checks.promotion import shadow_problems
from sangam.schemas.checks.skew import skew_problems
from sangam.schemas.contracts.root import NAMES
from sangam.schemas.derived.columns import feature_columns, features_of_new_ids
from sangam.schemas.derived.ids import id_columns
from sangam.schemas.problems import Loc, Problem, listed, nearest
from sangam.schemas.spec import Spec
from sangam.schemas.spec.drift import DriftBounds, measures_of
from sangam.schemas.spec.features import IdFeature
from sangam.schemas.spec.metrics import (
    at_k,
    direction,
    fits,
    is_known,
    known_metrics,
    largest,
    metrics_of,
    needs_weights,
    without_weights,
)
from sangam.schemas.spec.release import Confidence, DirectoryPush, Gate, Grouping, Listing, PriceGate, SkewGate

_BOUNDS = ("at_least", "at_most", "max_drop", "max_rise", "min_gain")


def release_problems(spec: Spec) -> Iterator[Problem]:
    """Yields every mistake in the parts of a spec that judge and push a model."""
    for check in (_keys, _gates, _evaluation, _slices, _export, _drift, _push, _alerts):
        yield from check(spec)


def _keys(spec: Spec) -> Iterator[Problem]:
    used = {name for names in spec.evaluation.slice_names for name in names}
    used |= {name for gate in spec.quality_gates for name in (*(gate.slice or ()), *(gate.each or ()))}
    used |= {part.by for part in _groupings(spec).values() if part.by}
    negatives = spec.data.negatives
    read = {negatives.user, negatives.item, *negatives.within} if negatives else set()
    read |= {column.name for part in spec.evaluation.sliced_by.values() for column in part.reads()}
    used |= {name for name, key in spec.keys.items() if (key.column or name) in read}
    features = {column.name: name for name in spec.features for column in feature_columns(spec, name)}
    ids = {spec.column_of(name): name for name, feature in spec.features.items() if isinstance(feature, IdFeature)}
    labels = {spec.label_of(task): task for task in spec.tasks}
    for name, key in spec.keys.items():
        loc, column = ("keys", name), key.column or name
        if name in spec.features or name in spec.tasks:
            yield Problem(loc, f"is also the name of a feature or task (got '{name}')", "give it another name")
        elif column in ids:
            yield Problem(
                loc, f"reads the column of feature '{ids[column]}' (got '{column}')", "name the feature instead"
            )
        elif column in features and not _has_ids(spec, features[column], column):
            yield Problem(
                loc,
                f"reads the column of feature '{features[column]}' (got '{column}')",
                "a key is a column with one id per row: name another column",
            )
        elif column in labels:
            yield Problem(loc, f"reads the label of task '{labels[column]}' (got '{column}')", "name another column")
        elif column == spec.event_time:
            yield Problem(loc, f"reads the column of event_time (got '{column}')", "name another column")
        elif name not in used:
            yield Problem(
                loc, f"has no effect: nothing groups by it (got '{name}')", "remove it, or name it in evaluation"
            )


def _has_ids(spec: Spec, feature: str, name: str) -> bool:
    return any(c.is_id and not c.is_list for c in feature_columns(spec, feature) if c.name == name)


def _groupings(spec: Spec) -> Mapping[str, Grouping | Listing | Confidence]:
    evaluation = spec.evaluation
    parts = {"group": evaluation.group, "list": evaluation.list, "confidence": evaluation.confidence}
    return {name: part for name, part in parts.items() if part is not None}


def _groupable(spec: Spec) -> list[str]:
    return [*(name for name, feature in spec.features.items() if isinstance(feature, IdFeature)), *spec.keys]


def _not_sliceable(spec: Spec, loc: Loc, name: str) -> Iterator[Problem]:
    if name not in spec.evaluation.sliced_by:
        yield from _not_groupable(spec, loc, name, [*spec.evaluation.sliced_by])


def _not_groupable(spec: Spec, loc: Loc, name: str, others: Sequence[str] = ()) -> Iterator[Problem]:
    known = [*_groupable(spec), *others]
    if name in spec.features and name not in known:
        yield Problem(
            loc,
            f"is a feature of kind {spec.features[name].kind} (got '{name}')",
            f"examples are grouped by features of kind id and by keys: {listed(known)}",
        )
    elif name not in known:
        what = f"no such feature of kind id, and no key (got '{name}')"
        yield Problem(loc, what, f"{nearest(name, known)}one of: {listed(known)}")


def _gates(spec: Spec) -> Iterator[Problem]:
    seen: dict[tuple[object, ...], int] = {}
    for index, gate in enumerate(spec.gates):
        loc = ("gates", index)
        if isinstance(gate, PriceGate):
            yield from _price(spec, loc, gate)
            continue
        if isinstance(gate, SkewGate):
            yield from skew_problems(spec, loc, gate)
            continue
        task = spec.tasks.get(gate.task)
        if task is None:
            yield Problem(
                (*loc, "task"), f"no such task (got '{gate.task}')", f"tasks of the spec: {listed(list(spec.tasks))}"
            )
            continue
        declared = spec.evaluation.metrics
        if not is_known(gate.metric, declared):
            known = known_metrics(declared)
            hint = nearest(gate.metric, known)
            yield Problem(
                (*loc, "metric"), f"no such metric (got '{gate.metric}')", f"{hint}one of: {', '.join(known)}"
            )
            continue
        if needs_weights(gate.metric) and task.example_weight is None:
            yield Problem(
                (*loc, "metric"),
                f"task '{gate.task}' has no example_weight (got '{gate.metric}')",
                f"declare tasks.{gate.task}.example_weight, or judge {without_weights(gate.metric)}",
            )
            continue
        if not fits(gate.metric, task, declared):
            yield Problem(
                (*loc, "metric"),
                f"task '{gate.task}' is {task.kind} (got '{gate.metric}')",
                f"one of: {', '.join(metrics_of(task, declared))}",
            )
            continue
        slice_ = tuple(sorted((gate.slice or {}).items()))
        first = seen.setdefault((gate.task, gate.metric, slice_, gate.each, gate.new_id), index)
        if first != index:
            yield Problem(
                loc,
                f"bounds {gate.metric} of task '{gate.task}', as gates[{first}] does (got a second one)",
                "put all bounds into one gate",
            )
        yield from _bounds(spec, loc, gate)
        yield from _slice_of(spec, loc, gate)
        yield from _needs(spec, loc, gate)


def _price(spec: Spec, loc: Loc, gate: PriceGate) -> Iterator[Problem]:
    if gate is not spec.price_gate:
        yield Problem(loc, "bounds the price, as an earlier gate does (got a second one)", "leave one of them out")
    if spec.cost is None or spec.cost.serving_core_hour is None:
        yield Problem(
            (*loc, "serving"), "needs a price (got none)", "declare cost.serving_core_hour, the price of a core's hour"
        )


def _bounds(spec: Spec, loc: Loc, gate: Gate) -> Iterator[Problem]:
    given = [name for name in _BOUNDS if getattr(gate, name) is not None]
    if not given:
        yield Problem(loc, "has no effect: it has no bound (got none)", f"give one of: {', '.join(_BOUNDS)}")
    evaluation = spec.evaluation
    better = direction(gate.metric, evaluation.directions)
    most = largest(gate.metric, evaluation.metrics)
    wrong = {"higher": ("at_most", "max_rise"), "lower": ("at_least", "max_drop"), "target": _BOUNDS[2:]}[better]
    use = {
        "higher": "higher is better: at_least, max_drop, min_gain",
        "lower": "lower is better: at_most, max_rise, min_gain",
        "target": "it is best at 1: at_least and at_most",
    }[better]
    for name in given:
        value = getattr(gate, name)
        if name in wrong:
            yield Problem((*loc, name), f"does not fit {gate.metric} (got {value:g})", use)
        elif most is not None and value > most:
            yield Problem((*loc, name), f"can never hold for {gate.metric} (got {value:g})", f"at most {most:g}")
        elif better == "lower" and value < 0 and without_weights(gate.metric) not in evaluation.metrics:
            yield Problem((*loc, name), f"can never hold for {gate.metric} (got {value:g})", "at least 0")
    if gate.at_least is not None and gate.at_most is not None and gate.at_least > gate.at_most:
        yield Problem(
            (*loc, "at_most"), f"is below at_least (got {gate.at_most:g} under at_least {gate.at_least:g})", "raise it"
        )


def _slice_of(spec: Spec, loc: Loc, gate: Gate) -> Iterator[Problem]:
    given = [name for name in ("slice", "each", "new_id") if getattr(gate, name) is not None]
    if len(given) > 1:
        yield Problem((*loc, given[1]), f"is a second slice (got {' and '.join(given)})", "write a gate for each")
    for name, value in (gate.slice or {}).items():
        yield from _not_sliceable(spec, (*loc, "slice", name), name)
        sliced = spec.features.get(name) or spec.keys.get(name)
        kind = "string" if name in spec.evaluation.sliced_by else getattr(sliced, "type", "")
        wanted = {"string": str, "int": int}.get(kind)
        if wanted and not isinstance(value, wanted):
            yield Problem(
                (*loc, "slice", name),
                f"is not of type {kind} (got {value!r})",
                "write it as in the logs",
            )
    for position, name in enumerate(gate.each or ()):
        yield from _not_sliceable(spec, (*loc, "each", position), name)
    if gate.each and len(set(gate.each)) != len(gate.each):
        yield Problem((*loc, "each"), f"names a feature twice (got {list(gate.each)})", "once each")
    new_ids = spec.evaluation.new_ids
    wanted_ids = features_of_new_ids(spec) if new_ids is None else list(new_ids)
    if gate.new_id is not None and gate.new_id not in wanted_ids:
        yield Problem(
            (*loc, "new_id"), f"is not measured (got '{gate.new_id}')", f"features of new_ids: {listed(wanted_ids)}"
        )


def _needs(spec: Spec, loc: Loc, gate: Gate) -> Iterator[Problem]:
    if gate.judge == "bound" and spec.evaluation.confidence.replicates == 0:
        yield Problem(
            (*loc, "judge"),
            "needs confidence intervals (got 'bound' with evaluation.confidence.replicates 0)",
            "declare replicates, for example 100; or judge: point",
        )
    if gate.metric == "gauc" and spec.evaluation.group is None:
        yield Problem((*loc, "metric"), "needs groups (got 'gauc')", "declare evaluation.group, for example {by: user}")
    ranked = at_k(gate.metric)
    if ranked:
        listing = spec.evaluation.list
        if listing is None or ranked[1] not in listing.k:
            yield Problem(
                (*loc, "metric"),
                f"is not measured (got '{gate.metric}')",
                f"declare evaluation.list with {ranked[1]} among its k",
            )


def _evaluation(spec: Spec) -> Iterator[Problem]:
    for name, part in _groupings(spec).items():
        if part.by is not None:
            yield from _not_groupable(spec, ("evaluation", name, "by"), part.by)
    listing = spec.evaluation.list
    if listing and len(set(listing.k)) != len(listing.k):
        yield Problem(("evaluation", "list", "k"), f"names a k twice (got {list(listing.k)})", "each k once")
    ids = features_of_new_ids(spec)
    for position, name in enumerate(spec.evaluation.new_ids or ()):
        feature = spec.features.get(name)
        if isinstance(feature, IdFeature) and name not in ids:
            yield Problem(
                ("evaluation", "new_ids", position),
                f"predictions use its at_serving (got '{name}')",
                "leave it out: no id of the logs can be new to the model",
            )
        elif name not in ids:
            yield Problem(
                ("evaluation", "new_ids", position),
                f"no such feature of kind id (got '{name}')",
                f"features of kind id: {listed(ids)}",
            )


def _slices(spec: Spec) -> Iterator[Problem]:
    seen = set()
    for index, names in enumerate(spec.evaluation.slice_names):
        loc = ("evaluation", "slices", index)
        if not names or len(set(names)) != len(names) or frozenset(names) in seen:
            yield Problem(loc, f"is empty or given twice (got {list(names)})", "one or more features, each slice once")
        seen.add(frozenset(names))
        for position, name in enumerate(names):
            yield from _not_sliceable(spec, (*loc, position), name)


def _export(spec: Spec) -> Iterator[Problem]:
    if "max_auc_loss" in spec.export.model_fields_set and spec.export.rows == "float32":
        yield Problem(
            ("export", "max_auc_loss"),
            f"has no effect with rows float32 (got {spec.export.max_auc_loss:g})",
            "remove it, or declare rows: float16 or int8",
        )
    if spec.export.ids and not id_columns(spec):
        yield Problem(
            ("export", "ids"),
            "has no effect: no table has rows of ids (got true)",
            "remove it: only features of kind id, ids and sequence have such rows",
        )


def _drift(spec: Spec) -> Iterator[Problem]:
    drift = spec.drift
    if drift is None:
        return
    if drift.every is None and drift.features is None:
        yield Problem(("drift",), "has no effect: it has no bound (got none)", "declare every or features")
    located: list[tuple[Loc, DriftBounds]] = [(("drift", "every"), drift.every)] if drift.every else []
    for name, bounds in (drift.features or {}).items():
        loc: Loc = ("drift", "features", name)
        located.append((loc, bounds))
        feature = spec.features.get(name)
        if feature is None:
            yield Problem(loc, f"no such feature (got '{name}')", f"features: {listed(list(spec.features))}")
            continue
        for measure in bounds.model_dump(exclude_none=True).keys() - set(measures_of(feature)):
            what = "ids" if measure == "l_infinity" else "numbers"
            yield Problem(
                (*loc, measure),
                f"is for {what} (got a feature of kind {feature.kind})",
                f"use {' or '.join(measures_of(feature))}",
            )
    for where, bounds in located:
        if bounds == DriftBounds():
            yield Problem(where, "has no effect: it has no bound (got none)", "give at least one")


def _push(spec: Spec) -> Iterator[Problem]:
    if not isinstance(spec.push, DirectoryPush):
        return
    if spec.push.after == "shadow":
        yield from shadow_problems(spec, spec.push)
    if spec.push.is_on_store:
        if not re.fullmatch(r"(s3|gs)://[^/:?*]+/[^:?*]+", spec.push.folder):
            yield Problem(
                ("push", "path"),
                f"is no folder of a bucket (got '{spec.push.path}')",
                f"an address such as s3://bucket/serving/{spec.name} or gs://..., or a folder below the pipeline root",
            )
        return
    top = spec.push.folder.split("/")[0]
    if top in NAMES or top == ".":
        what = "is the pipeline root itself" if top == "." else "is in a folder that Sangam uses in the pipeline root"
        yield Problem(
            ("push", "path"), f"{what} (got '{spec.push.path}')", f"a folder of its own, such as serving/{spec.name}"
        )


def _alerts(spec: Spec) -> Iterator[Problem]:
    if spec.alerts is None:
        return
    if not spec.alerts.format.reads_key and "key_env" in spec.alerts.model_fields_set:
        yield Problem(
            ("alerts", "key_env"),
            f"has no effect with format {spec.alerts.format.kind} (got {spec.alerts.key_env})",
            "leave it out: the address is its only secret",
        )
    days = spec.alerts.not_pushed_for_days
    if days is not None and not isinstance(spec.push, DirectoryPush):
        yield Problem(
            ("alerts", "not_pushed_for_days"),
            f"has no effect with push.kind {spec.push.kind} (got {days})",
            "leave it out, or push to a folder",
        )
