"""`sangam validate --base`: what a change of the spec would keep of a base, told from plain data."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from sangam.components.steps.transform.code import transform_code
from sangam.pipelines.checks.base import difference, find_base, lines
from sangam.schemas.contracts.statistics import FeatureStatistics, Scale, Statistics, without_analysis
from sangam.schemas.contracts.training_job import JOB_FILE, write_job
from sangam.schemas.derived.weights import dense_weights
from sangam.schemas.errors import UserError
from sangam.schemas.loading import load_spec
from sangam.schemas.spec import Spec
from sangam.trainer_module.checkpoint.layout import group_layouts, weight_layouts
from sangam.trainer_module.checkpoint.manifest import Manifest, encode
from sangam.trainer_module.input.position import Position
from tests.components.registry.sample_blessings import blessing
from tests.errors import mentions, place_and_value
from tests.paths import REPOSITORY, SPECS
from tests.schemas.sample_jobs import sample_job

SPEC = SPECS / "short_video.yaml"


def changed(folder: Path, features: dict[str, Any]) -> Path:
    """Writes the demo's spec with features replaced; None removes one."""
    yaml = YAML(typ="safe")
    document = yaml.load(SPEC.read_text())
    features = document["features"] | features
    document["features"] = {name: feature for name, feature in features.items() if feature is not None}
    path = folder / "changed.yaml"
    with path.open("w") as file:
        yaml.dump(document, file)
    return path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Holds what a blessed run of the demo's spec leaves, as far as it is read here."""
    spec, root = load_spec(SPEC), tmp_path / "root"
    checkpoint, graph, records = root / "checkpoint", root / "graph", root / "blessed" / spec.name
    for folder in (checkpoint / "checkpoint", graph, records):
        folder.mkdir(parents=True)
    manifest = Manifest(
        step=49,
        ranks=2,
        spec_digest="",
        job_digest="",
        seed=1,
        days=("2024-03-01", "2024-03-02"),
        position=Position(),
        groups=group_layouts(spec),
        weights=weight_layouts(dense_weights(spec)),
    )
    (checkpoint / "checkpoint" / "manifest.json").write_bytes(encode(manifest))
    found = Scale(offset=1.0, width=2.0)
    features = {
        name: FeatureStatistics(spec=each.spec, analyzed=found) for name, each in without_analysis(spec).items()
    }
    statistics = Statistics(code=transform_code(), features=features)
    (graph / "statistics.json").write_text(statistics.model_dump_json())
    record = blessing(
        "m",
        checkpoint_uri=str(checkpoint),
        days=("2024-03-01", "2024-03-02"),
        transform_graph_uri=str(graph),
    )
    (records / "00000001.json").write_text(record.model_dump_json())
    (records / "00000002.json").touch()  # Another run is writing it.
    return root


def told(spec: Path, given: Path) -> dict[str, str]:
    loaded: Spec = load_spec(spec)
    return dict(line.split(": ", 1) for line in lines(loaded, difference(loaded, find_base(given, loaded.name))))


def test_an_equal_spec_keeps_everything(root: Path) -> None:
    found = told(SPEC, root)
    assert set(found) == {"base", "keeps tables", "keeps weights", "keeps statistics"}
    assert mentions(found["base"], "step 49 ... 2024-03-01 to 2024-03-02")
    assert found["keeps tables"] == "authors, contexts, hashtags, posts, users"
    assert found["keeps statistics"] == "duration_s, post_age_h, author_followers, network_mbps, hour"


def test_a_new_a_changed_and_a_removed_feature_are_told_by_table_weight_and_statistics(
    root: Path, tmp_path: Path
) -> None:
    changes = {
        "bitrate": {"kind": "numeric", "normalize": "zscore"},
        "hour": {"kind": "numeric", "type": "int", "normalize": "zscore"},
        "network_mbps": None,
        "author": None,
    }
    yaml_path = changed(tmp_path, changes)
    yaml = YAML(typ="safe")
    document = yaml.load(yaml_path.read_text())
    del document["tables"]["authors"]
    with yaml_path.open("w") as file:
        yaml.dump(document, file)
    found = told(yaml_path, root)
    assert found["keeps statistics"] == "author_followers, duration_s, post_age_h"
    assert found["analyzes statistics"] == "bitrate (new), hour (normalize was minmax, is zscore)"
    assert found["drops statistics"] == "network_mbps"
    assert found["drops tables"] == "authors"
    weights = ("expert_gates/w", "experts/first/w")
    new = [f"{weight}[{name}]" for weight in weights for name in ("bitrate", "hour")]
    assert found["starts fresh weights"] == ", ".join(new)
    gone = [f"{weight}[{name}]" for weight in weights for name in ("author", "hour of the base", "network_mbps")]
    gone += [f"numbers/piecewise_linear_64_8/{part}[network_mbps]" for part in ("b", "w")]
    assert found["drops weights"] == ", ".join(gone)
    assert "starts fresh tables" not in found


def test_other_code_is_told_and_keeps_no_statistics(root: Path) -> None:
    file = root / "graph" / "statistics.json"
    statistics = Statistics.model_validate_json(file.read_bytes())
    file.write_text(statistics.model_copy(update={"code": "other"}).model_dump_json())
    found = told(SPEC, root)
    assert "code of Transform" in found["note"]
    assert "keeps statistics" not in found
    assert found["analyzes statistics"] == "duration_s, post_age_h, author_followers, network_mbps, hour"


@pytest.mark.parametrize(("content", "got"), [("{}", "none"), ('{"format": 2}', "2"), ("[]", "none")])
def test_statistics_of_another_format_are_refused(root: Path, content: str, got: str) -> None:
    file = root / "graph" / "statistics.json"
    file.write_text(content)
    with pytest.raises(UserError, match=place_and_value(str(file), f"(got {got})")):
        told(SPEC, root)


def test_a_runs_folder_is_a_base_too_and_what_is_none_is_told(root: Path, tmp_path: Path) -> None:
    run = root / "runs" / "r1"
    (run / "logs").mkdir(parents=True)
    (run / "summary.json").write_text("{}")
    with pytest.raises(UserError, match=place_and_value("--base", "(got ... r1)")):
        told(SPEC, run)
    paths = {"final_checkpoint": str(root / "checkpoint" / "checkpoint"), "transform_graph": str(root / "graph")}
    write_job(run / "logs" / JOB_FILE, sample_job(run, **paths))
    assert told(SPEC, run) == told(SPEC, root)
    with pytest.raises(UserError, match=place_and_value("--base", "'short_video'")):
        told(SPEC, tmp_path)


@pytest.mark.processes
def test_it_loads_no_tensorflow(root: Path) -> None:
    program = (
        "import sys\nfrom sangam.pipelines.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "heavy = {'tensorflow', 'tfx', 'apache_beam', 'horovod', 'kfp'} & set(sys.modules)\n"
        "sys.exit(str(heavy) if heavy else 0)\n"
    )
    command = [sys.executable, "-c", program, "validate", str(SPEC), "--base", str(root)]
    done = subprocess.run(command, check=False, cwd=REPOSITORY, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "keeps tables: authors, contexts, hashtags, posts, users" in done.stdout
