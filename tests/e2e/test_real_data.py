"""The spec of the census ends green over a sample of it."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.browser.pages import look_at
from tests.e2e.user_run import sangam, summary_of

pytestmark = [pytest.mark.slow, pytest.mark.e2e, pytest.mark.real_data, pytest.mark.long]


@pytest.fixture(scope="module")
def data(repository: Path) -> Path:
    found = repository.parent / "shared" / "data"
    if not found.exists():
        pytest.skip(f"needs the real data beside the checkout, in {found}")
    return found


def test_a_tenth_of_the_census_trains_without_dates_and_is_blessed(
    data: Path, repository: Path, tmp_path: Path
) -> None:
    for split in ("train", "validation", "test"):
        table = pq.read_table(data / "census_income" / "nominal" / split / "people.parquet")
        target = tmp_path / "people" / split
        target.mkdir(parents=True)
        pq.write_table(table.take(list(range(0, table.num_rows, 10))), target / "people.parquet")
    # A tenth of the data needs smaller batches, and does not come as far as the whole.
    text = (repository / "pipelines" / "specs" / "census_income.yaml").read_text()
    spec = tmp_path / "census.yaml"
    small = {
        "batch_size_per_rank: 512": "batch_size_per_rank: 256",
        "cluster:": "cluster:\n  ranks: 1\n  data_workers: 0",
        "at_least: 0.90": "at_least: 0.84",
    }
    for old, new in small.items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    spec.write_text(text)
    done = sangam("run", str(spec), "--data", str(tmp_path / "people"), "--root", str(tmp_path / "root"))
    assert done.returncode == 0, done.stdout + done.stderr
    summary = summary_of(done.stdout)
    assert {split: rows["written"] for split, rows in summary["rows"].items()} == {
        "train": 19_953,
        "validation": 4_996,
        "eval": 4_981,
    }
    assert summary["tasks"]["income"]["auc"] > 0.84
    assert summary["tasks"]["never_married"]["auc"] > 0.98
    page = Path(summary["path"]) / "report.html"
    look_at(page, "Pushed", summary["pushed"]["version"], "never_married", "Precision and recall", "learning rate")
