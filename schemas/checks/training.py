"""Mistakes in training: a loss balance with nothing to balance, early stopping without a metric."""

from collections.abc import Iterator

from sangam.schemas.derived.validation import validation_place
from sangam.schemas.problems import Loc, Problem, listed
from sangam.schemas.spec import RankerSpec, Spec
from sangam.schemas.spec.data import DayLogs
from sangam.schemas.spec.models import Aitm, DcnV2, Dlrm, Esmm, SingleTask
from sangam.schemas.spec.optimizers import Ftrl
from sangam.schemas.spec.sync import InStep
from sangam.schemas.spec.tasks import BinaryTask
from sangam.schemas.spec.training import SHUFFLE_BUFFER, EarlyStopping, FixedBalance, GradNormBalance

_BALANCE: Loc = ("training", "loss_balance")
_ORDER: Loc = ("training", "order")
_STOPPING: Loc = ("training", "early_stopping")


def training_problems(spec: Spec) -> Iterator[Problem]:
    """Yields every mistake in the training of the model."""
    yield from _loss_balance(spec)
    yield from _early_stopping(spec)
    yield from _refit(spec)
    yield from _order(spec)
    yield from _weight_decay(spec)
    yield from _unseen(spec)


def _order(spec: Spec) -> Iterator[Problem]:
    training = spec.training
    if training.order in ("time", "shuffled_within_day") and not isinstance(spec.logs, DayLogs):
        yield Problem(_ORDER, f"needs logs by day (got {training.order} of named splits)", "remove it, or use shuffled")
    elif training.order == "time" and training.shuffle_buffer not in (1, SHUFFLE_BUFFER):
        yield Problem(
            ("training", "shuffle_buffer"),
            f"has no effect: nothing is shuffled (got {training.shuffle_buffer}, and order time)",
            "remove it, or use order: shuffled_within_day",
        )
    elif training.order == "auto":
        yield from _order_auto(spec)
    elif training.order in ("shuffled_within_day", "shuffled") and training.shuffle_buffer == 1:
        yield Problem(
            _ORDER,
            f"has no effect: a buffer of one example shuffles nothing (got {training.order}, and shuffle_buffer 1)",
            "raise shuffle_buffer, or use order: time",
        )


def _order_auto(spec: Spec) -> Iterator[Problem]:
    training, logs = spec.training, spec.logs
    if not isinstance(logs, DayLogs) or logs.validation_days == 0:
        yield Problem(
            _ORDER, "auto compares on validation days (got none)", "declare data.validation_days, or remove it"
        )
    elif not any(isinstance(task, BinaryTask) for task in spec.tasks.values()):
        yield Problem(_ORDER, "auto compares the mean AUC of binary tasks (got none)", "name an order, or remove it")
    elif not isinstance(training.sync, InStep):
        yield Problem(
            _ORDER,
            f"auto needs ranks that train in step (got training.sync of kind {training.sync.kind})",
            "name an order, or use sync: {kind: sync}",
        )
    elif training.shuffle_buffer == 1:
        yield Problem(_ORDER, "auto has nothing to choose (got shuffle_buffer 1)", "remove shuffle_buffer, or order")


def _weight_decay(spec: Spec) -> Iterator[Problem]:
    for name in spec.table_tags():
        table = spec.tables.get(name)
        if table is not None and table.weight_decay and isinstance(spec.optimizer_of(name), Ftrl):
            yield Problem(
                ("tables", name, "weight_decay"),
                f"does not apply to ftrl, which computes rows as minimizers (got {table.weight_decay:g})",
                "use the optimizer's l2, or another optimizer",
            )


def _unseen(spec: Spec) -> Iterator[Problem]:
    for name, table in spec.tables.items():
        if table.unseen and name in spec.table_tags() and not spec.features_of(name):
            yield Problem(
                ("tables", name, "unseen"),
                f"applies to ids of features, and only what sequences have beside theirs reads this table (got "
                f"{table.unseen})",
                "remove it",
            )
        if table.unseen and table.default_value:
            yield Problem(
                ("tables", name, "unseen"),
                f"reads ids as zeros, and an id without a row is another vector (got default_value "
                f"{table.default_value:g})",
                "remove one of them",
            )


def _loss_balance(spec: Spec) -> Iterator[Problem]:
    balance = spec.training.loss_balance
    if isinstance(balance, FixedBalance):
        return
    if len(spec.tasks) == 1:
        yield Problem(_BALANCE, f"has no effect: there is one task (got {balance.kind})", "remove it")
    elif isinstance(balance, GradNormBalance) and not shares_a_layer(spec):
        yield Problem(
            _BALANCE,
            f"gradnorm compares the tasks' gradients of a shared layer (got model {spec.model.kind}, "
            "whose tasks share only embeddings)",
            "use uncertainty, another model, or an interaction with weights, such as dcn_v2",
        )


def _refit(spec: Spec) -> Iterator[Problem]:
    sampled = [name for name, task in spec.tasks.items() if isinstance(task, BinaryTask) and task.keep_negatives]
    if spec.training.refits and sampled:
        yield Problem(
            (*_STOPPING, "refit"),
            f"would train on all negatives of the validation split (got keep_negatives of task '{sampled[0]}', which "
            "applies only to the train split)",
            "remove one of them",
        )


def shares_a_layer(ranker: RankerSpec) -> bool:
    """Says whether all tasks share dense weights, as GradNorm needs."""
    if not isinstance(ranker.model, SingleTask | Esmm | Aitm):
        return True
    match ranker.model.interaction:
        case DcnV2():
            return True
        case Dlrm():
            return any(ranker.table_of(name) is None for name in ranker.features)
        case _:
            return False


def _early_stopping(spec: Spec) -> Iterator[Problem]:
    stopping, training = spec.training.early_stopping, spec.training
    if stopping is None:
        return
    has_binary = any(isinstance(task, BinaryTask) for task in spec.tasks.values())
    if stopping.task is not None and stopping.task not in spec.tasks:
        yield Problem(
            (*_STOPPING, "task"),
            f"no such task (got '{stopping.task}')",
            f"tasks of the spec: {listed(list(spec.tasks))}",
        )
    elif stopping.task is None and not has_binary:
        yield Problem(
            _STOPPING,
            "uses the mean AUC of the binary tasks, but the spec has none (got no task)",
            f"name the task whose error counts: {listed(list(spec.tasks))}",
        )
    if max(training.epochs, training.incremental_epochs or 0) == 1 and not stopping.refit:
        yield Problem(_STOPPING, "has no effect: there is one epoch (got epochs 1)", "remove it, or raise epochs")
    yield from _within_an_epoch(spec, stopping)
    if isinstance(spec.logs, DayLogs):
        if spec.logs.validation_days == 0:
            yield Problem(
                _STOPPING,
                "needs examples that are not trained on (got data.validation_days 0)",
                "declare data.validation_days: 1 or more",
            )
    elif spec.logs.splits.validation is None:
        place = validation_place(spec)
        yield Problem(
            _STOPPING, f"needs examples that are not trained on (got no {place.key})", f"declare {place.remedy}"
        )
    elif stopping.refit and not spec.validates_on_train_rows:
        yield Problem(
            (*_STOPPING, "refit"),
            "needs a validation split of train rows (got data.splits.validation with files of its own, which are never "
            "trained on)",
            "remove it, or declare data.splits.validation: {fraction: 0.1}",
        )


def _within_an_epoch(spec: Spec, stopping: EarlyStopping) -> Iterator[Problem]:
    training = spec.training
    if stopping.per_epoch == 1:
        if "sample" in stopping.model_fields_set:
            yield Problem(
                (*_STOPPING, "sample"),
                f"has no effect: after an epoch the whole split is scored (got {stopping.sample})",
                "remove it, or declare per_epoch",
            )
    elif max(training.epochs, training.incremental_epochs or 0) == 1:
        yield Problem(
            (*_STOPPING, "per_epoch"),
            f"has no effect before the second epoch (got {stopping.per_epoch}, and epochs 1)",
            "remove it, or raise epochs",
        )
    elif not isinstance(training.sync, InStep):
        yield Problem(
            (*_STOPPING, "per_epoch"),
            f"needs ranks that train in step (got training.sync of kind {training.sync.kind})",
            "remove it, or use sync: {kind: sync}",
        )
