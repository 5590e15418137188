"""What a run with sampled rows says of its predictions and metrics."""

from collections.abc import Iterable

from sangam.components.logs.negatives.undeclared import undeclared
from sangam.components.logs.request import Request
from sangam.components.logs.rows.counts import FileCounts
from sangam.components.reports.ingestion import POSITIVES, SAMPLED, WITHOUT, IngestionReport
from sangam.schemas.parts.judging import NegativeSampler
from sangam.schemas.spec.data import EVAL, TRAIN
from sangam.schemas.spec.negatives import Popular, Uniform


def notes_on_negatives(request: Request, report: IngestionReport) -> list[str]:
    """Returns notes on sampled rows; none without data.negatives."""
    negatives = request.logs.negatives
    if negatives is None:
        return []
    per = {split: _per_positive(each.candidates) for split, each in report.splits.items()}
    without = sum(each.candidates.get(WITHOUT, 0) for each in report.splits.values())
    how, than = _weighed(negatives.draw)
    notes = [
        f"the logs have positives only: each has {per[TRAIN]:.3g} sampled rows in split '{TRAIN}' and "
        f"{per[EVAL]:.3g} in '{EVAL}'. '{negatives.label}' predicts the rate among one positive and "
        f"its candidates, at most {negatives.judged_per_positive} ({how}data.negatives.judged_per_positive); the logs "
        "have no such rate",
        "metrics are over these candidates: where they are a sample of the items, metrics at k are biased, and can "
        "order two models otherwise than all items would (Krichene and Rendle, KDD 2020)",
    ]
    if than:
        notes.append(
            f"with data.negatives.draw {negatives.draw.kind}, scores say how much likelier an item is than {than}, and "
            "do not order items by how likely they are"
        )
    if without:
        notes.append(f"{without:,} positives have no candidate in data.negatives, and no sampled rows")
    return notes


def _weighed(sampler: NegativeSampler) -> tuple[str, str]:
    """Returns how candidates are drawn, and what scores are relative to; empty where all items are alike."""
    match sampler:
        case Uniform():
            return "", ""
        case Popular():
            return "drawn by popularity, ", "its popularity"
        case _:
            return f"drawn by {sampler.kind}, ", f"the weight that {sampler.kind} gives it"


def notes_on_columns(counts: Iterable[FileCounts]) -> list[str]:
    """Returns a note for each column that seems to be the item's and is not declared; none without data.negatives."""
    return [
        f"column '{name}' has one value per item, and is not in data.negatives.item_columns: sampled rows have another "
        "item with the positive's value, which tells the label; add it, unless it belongs to the user or the moment"
        for name in undeclared(count.pairs for count in counts)
    ]


def _per_positive(counts: dict[str, int]) -> float:
    return counts.get(SAMPLED, 0) / max(counts.get(POSITIVES, 0), 1)
