"""Mistakes in architectures: parts without inputs, chains that do not fit the tasks."""

from collections import Counter
from collections.abc import Iterator

from sangam.schemas.derived.encodings import float_inputs
from sangam.schemas.problems import Loc, Problem, listed
from sangam.schemas.spec import Spec
from sangam.schemas.spec.models import MOST_PAIRED_VECTORS, Aitm, DcnV2, Dlrm, Esmm, Mmoe
from sangam.schemas.spec.tasks import BinaryTask, CrossEntropy

_LOC: Loc = ("model",)


def model_problems(spec: Spec) -> Iterator[Problem]:
    """Yields every mistake in the model."""
    yield from _interaction(spec)
    model = spec.model
    match model:
        case Mmoe(top_k=int(top_k)) if top_k >= model.num_experts:
            yield Problem(
                (*_LOC, "top_k"),
                f"leaves no expert out (got {top_k} of {model.num_experts} experts)",
                "less than num_experts; or leave it out: each gate then uses all",
            )
        case Esmm() | Aitm():
            yield from _chain(spec, model)


def _interaction(spec: Spec) -> Iterator[Problem]:
    interaction = spec.model.interaction
    match interaction:
        case DcnV2():
            yield from _dcn_v2(spec, interaction)
        case Dlrm():
            yield from _dlrm(spec, interaction)


def _widths(spec: Spec) -> tuple[int, dict[str, int]]:
    """Returns the number of floats among the features, and the dimension of each embedded feature."""
    tables = {name: spec.table_of(name) for name in spec.features}
    floats = sum(width for _, width in float_inputs(spec))
    return floats, {name: spec.tables[table].dim for name, table in tables.items() if table in spec.tables and table}


def _dcn_v2(spec: Spec, dcn: DcnV2) -> Iterator[Problem]:
    loc: Loc = (*_LOC, "interaction")
    floats, dims = _widths(spec)
    width = floats + sum(dims.values())
    if dcn.num_experts > 1 and dcn.rank is None:
        yield Problem(
            (*loc, "num_experts"),
            f"needs matrices of low rank (got {dcn.num_experts} without a rank)",
            "declare rank, for example a quarter of the inputs' width",
        )
    if dcn.rank is not None and width and dcn.rank >= width:
        yield Problem(
            (*loc, "rank"),
            f"is not lower than that of the full matrix (got {dcn.rank} for inputs of width {width})",
            f"less than {width}; or leave it out: the matrix is then full",
        )


def _dlrm(spec: Spec, dlrm: Dlrm) -> Iterator[Problem]:
    loc: Loc = (*_LOC, "interaction")
    floats, dims = _widths(spec)
    if len(set(dims.values())) > 1:
        pairs = ", ".join(f"{name} {dim}" for name, dim in sorted(dims.items()))
        yield Problem(loc, f"dot products need vectors of one width (got {pairs})", "give all their tables one dim")
    if not dims or len(dims) + bool(floats) < 2:
        yield Problem(
            loc,
            f"has no pair to multiply (got {len(dims)} embedded features and {floats} numbers)",
            "use two embedded features, or one and a number; or another interaction",
        )
    if len(dims) + bool(floats) > MOST_PAIRED_VECTORS:
        yield Problem(
            loc,
            f"has too many pairs to multiply (got {len(dims)} embedded features and {floats} numbers)",
            f"at most {MOST_PAIRED_VECTORS} vectors, where all numbers together are one; or dcn_v2, whose cost grows "
            "with the features, not with their pairs",
        )
    if not floats and "bottom_units" in dlrm.model_fields_set:
        yield Problem(
            (*loc, "bottom_units"),
            f"has no effect: no feature is a number (got {list(dlrm.bottom_units)})",
            "remove it",
        )


def _chain(spec: Spec, model: Esmm | Aitm) -> Iterator[Problem]:
    counts = Counter(model.chain)
    if set(counts) != set(spec.tasks) or max(counts.values()) > 1:
        yield Problem(
            (*_LOC, "chain"),
            f"must name every task once (got {list(model.chain)})",
            f"all of {listed(list(spec.tasks))}, in the order of their events",
        )
    reason = {
        "esmm": "esmm multiplies the tasks' probabilities",
        "aitm": "aitm compares the tasks' probabilities",
    }[model.kind]
    for name in dict.fromkeys(step for step in model.chain if step in spec.tasks):
        task, loc = spec.tasks[name], ("tasks", name)
        if not isinstance(task, BinaryTask):
            yield Problem((*loc, "kind"), f"{reason} (got {task.kind})", "use binary, or another model")
            continue
        if not isinstance(task.loss, CrossEntropy):
            yield Problem(
                (*loc, "loss", "kind"),
                f"{reason}, which this loss distorts (got {task.loss.kind})",
                "use cross_entropy",
            )
        elif task.loss.label_smoothing:
            yield Problem(
                (*loc, "loss", "label_smoothing"),
                f"{reason}, which this distorts (got {task.loss.label_smoothing:g})",
                "leave it out",
            )
        if task.keep_negatives is not None:
            yield Problem(
                (*loc, "keep_negatives"),
                f"{reason}: a probability corrected afterwards would not fit the others (got {task.keep_negatives:g})",
                "leave it out, or use another model",
            )
        if task.only_where is not None:
            yield Problem(
                (*loc, "only_where"),
                f"{model.kind} trains every step of the chain on all examples (got '{task.only_where}')",
                "leave it out: in a chain each step implies the previous one",
            )
