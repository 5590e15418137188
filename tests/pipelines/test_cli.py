"""The command line by itself: quick commands stay quick and wrong input is told in one line."""

import json
import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from sangam.pipelines.cli import app
from sangam.pipelines.kubeflow.target import image_warning
from sangam.schemas.errors import UserError
from tests.errors import mentions, tells
from tests.paths import REPOSITORY, SPECS
from tests.pipelines.command_line import sangam

SHORT_VIDEO = str(SPECS / "short_video.yaml")
ROWS = ("--rows", "authors=1e5,contexts=1e5,hashtags=1e5,posts=1e5,users=1e5")
LOOKING = ("runs", "show", "why", "diff", "lineage", "clean")


def as_users_do(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Starts a command as users do."""
    command, variables = [sys.executable, "-m", "sangam.pipelines.cli", *arguments], os.environ | environment
    return subprocess.run(
        command, check=False, cwd=REPOSITORY, capture_output=True, text=True, timeout=120, env=variables
    )


def here(*arguments: str) -> Result:
    """Runs a command in this process, where nothing of the process is asked for."""
    return CliRunner().invoke(app, arguments)


@pytest.mark.parametrize("spec", sorted(path.name for path in SPECS.glob("*.yaml")))
def test_validate_accepts_every_spec_of_the_repository(spec: str) -> None:
    done = here("validate", str(SPECS / spec))
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith(f"ok {spec.removesuffix('.yaml')} ")


def test_validate_takes_less_than_two_seconds_of_a_core() -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    as_users_do("validate", SHORT_VIDEO)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 2


QUICK: list[tuple[str, ...]] = [
    ("--help",),
    ("validate", SHORT_VIDEO),
    ("init", "--help"),
    ("run", "--help"),
    ("backfill", "--help"),
    ("tune", "--help"),
    ("bless", "--help"),
    ("schema",),
    ("--version",),
    ("plan", SHORT_VIDEO),
    ("schedule", "print", SHORT_VIDEO, "--at", "02:30", "--data", "logs", "--root", "runs"),
    ("alert-test", "--help"),
    *((command, "nowhere", "--json") for command in ("runs", "show", "why", "lineage", "clean")),
    ("diff", "nowhere", "nowhere"),
]


@pytest.mark.processes
def test_quick_commands_load_no_tensorflow() -> None:
    program = (
        "import json, sys\nfrom sangam.pipelines.cli import main\n"
        "for command in json.loads(sys.argv[1]):\n"
        "    sys.argv[1:] = command\n"
        "    try:\n        main()\n    except SystemExit:\n        pass\n"
        "    heavy = {'tensorflow', 'tfx', 'apache_beam', 'horovod', 'kfp'} & set(sys.modules)\n"
        "    if heavy:\n        sys.exit(f'{command} loads {heavy}')\n"
    )
    command = [sys.executable, "-c", program, json.dumps(QUICK)]
    done = subprocess.run(command, check=False, cwd=REPOSITORY, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_validate_prints_every_mistake_and_no_traceback(tmp_path: Path) -> None:
    text = Path(SHORT_VIDEO).read_text()
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(text.replace("max_values: 8", "max_valuse: 8").replace("train_days: 6", "train_days: -6"))
    done = sangam("validate", str(wrong))
    assert done.returncode == 2
    assert "features.hashtags.max_valuse: unknown key (got 8)" in done.stderr
    assert "data.train_days: not allowed (got -6)" in done.stderr
    assert "Traceback" not in done.stderr
    assert not done.stdout


def test_a_spec_that_is_not_there_is_told() -> None:
    done = sangam("validate", "nowhere.yaml")
    assert done.returncode == 2
    assert done.stderr.startswith("nowhere.yaml: (whole file): no such file; ")


def test_run_refuses_a_missing_date_before_it_makes_anything(tmp_path: Path) -> None:
    done = sangam("run", SHORT_VIDEO, "--data", str(tmp_path), "--root", str(tmp_path.parent / "never"))
    assert done.returncode == 2
    assert tells(done.stderr, "--date", "is missing ... 'short_video'")
    assert not (tmp_path.parent / "never").exists()


def test_an_unknown_option_is_a_usage_error() -> None:
    done = sangam("run", SHORT_VIDEO, "--dat", "x")
    assert done.returncode == 2
    assert "Usage:" in done.stderr


def test_every_command_has_help_with_an_example() -> None:
    top = here("--help")
    assert top.exit_code == 0
    for command in (
        "init",
        "validate",
        "run",
        "backfill",
        "compile",
        "generate",
        "schema",
        "doctor",
        "plan",
        "version",
        *LOOKING,
    ):
        assert command in top.stdout
        done = here(command, "--help")
        assert done.exit_code == 0
        assert f"Example: sangam {command}" in done.stdout


def test_the_json_of_quick_commands() -> None:
    checked = json.loads(here("validate", SHORT_VIDEO, "--json").stdout)
    assert (checked["name"], checked["tasks"], checked["base"]) == ("short_video", 4, [])
    assert f"ok short_video {checked['digest']} " in here("validate", SHORT_VIDEO).stdout
    known = json.loads(here("version", "--json").stdout)
    assert here("version").stdout.split()[1:] == [known["version"], *([known["commit"]] if known["commit"] else [])]
    limits = (*ROWS, "--memory-per-rank", "64GB")
    planned = json.loads(here("plan", SHORT_VIDEO, *limits, "--json").stdout)
    assert planned["ranks"]["fits"]
    assert planned["ranks"]["limit"] == 64_000_000_000
    assert planned["ranks"]["parts"]["peak"]["high"] > planned["export_bytes"] > 0


def test_with_json_an_error_is_json_too_and_the_plan_that_does_not_fit_is_printed() -> None:
    done = sangam("plan", SHORT_VIDEO, *ROWS, "--memory-per-rank", "1MB", "--json")
    assert done.returncode == 2
    assert json.loads(done.stdout)["ranks"]["fits"] is False
    error = json.loads(done.stderr)
    assert error["exit_code"] == 2
    assert error["error"].startswith("plan: a rank does not fit")


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        (("runs", "short_video"), "ROOT"),
        (("runs", ".", "--namespace", "a"), "--namespace"),
        (("runs", "a", "--host", "http://localhost:1", "--name", "b"), "--name"),
        (("clean", "."), "ROOT"),
        (("lineage", "nowhere"), "RUN"),
    ],
)
def test_looking_at_what_is_no_root_is_told(arguments: tuple[str, ...], place: str) -> None:
    done = here(*arguments)
    assert isinstance(done.exception, UserError)
    assert str(done.exception).startswith(f"{place}: ")


def test_the_json_schema_is_closed() -> None:
    schema = json.loads(here("schema").stdout)
    assert schema["additionalProperties"] is False
    assert "features" in schema["properties"]


def test_the_tables_of_all_keys_are_those_of_the_spec_page() -> None:
    printed = here("schema", "--markdown").stdout
    assert printed.startswith("## Sections\n")
    assert (REPOSITORY / "docs" / "spec.md").read_text(encoding="utf-8").endswith(printed)


def test_version_is_that_of_the_project() -> None:
    project = (REPOSITORY / "pyproject.toml").read_text()
    printed = sangam("version").stdout
    assert f'version = "{printed.split()[1]}"' in project
    assert here("--version").stdout == printed


def test_generate_writes_a_folder_per_day(tmp_path: Path) -> None:
    done = sangam(
        "generate", "--output", str(tmp_path / "logs"), "--days", "2", "--rows-per-day", "50", "--users", "20"
    )
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (tmp_path / "logs").iterdir()) == ["2024-03-01", "2024-03-02"]
    assert mentions(done.stdout, f"2 days of 50 rows: {tmp_path}/logs/2024-03-01 to 2024-03-02")
    assert not done.stderr


def test_generate_tells_programs_its_folders(tmp_path: Path) -> None:
    done = sangam("generate", "--output", str(tmp_path / "logs"), "--days", "2", "--rows-per-day", "50", "--json")
    folders = [str(tmp_path / "logs" / f"2024-03-0{day}") for day in (1, 2)]
    assert json.loads(done.stdout) == {"folders": folders, "rows_per_day": 50}


def test_generate_refuses_a_wrong_day(tmp_path: Path) -> None:
    done = sangam("generate", "--output", str(tmp_path / "logs"), "--first-day", "2024-13-01")
    assert done.returncode == 2
    assert tells(done.stderr, "--first-day", "(got '2024-13-01')")


@pytest.mark.processes
def test_a_run_for_a_date_without_logs_ends_early_and_leaves_a_summary(tmp_path: Path) -> None:
    (tmp_path / "logs" / "2024-03-07").mkdir(parents=True)
    folders = ("--data", str(tmp_path / "logs"), "--root", str(tmp_path / "root"))
    done = as_users_do("run", SHORT_VIDEO, "--date", "2025-01-01", *folders, PYTHONPROFILEIMPORTTIME="1")
    assert done.returncode == 2, done.stdout
    # Without TensorFlow, whose import takes 10 s.
    imported = re.findall(r"^import time: .*\| +(\w+)", done.stderr, re.MULTILINE)
    assert "pydantic" in imported
    assert "tensorflow" not in imported
    assert tells(done.stderr, "data.pattern: ...", "(got none from 2024-12-26 to 2025-01-01) ... 2024-03-07")
    [summary] = (tmp_path / "root" / "runs").glob("2*/summary.json")
    assert json.loads(summary.read_text())["status"] == "failed"
    assert json.loads(summary.read_text())["exit_code"] == 2
    assert json.loads((summary.parent / "spec.json").read_text())["name"] == "short_video"
    # Whoever looks for the reason later finds it; a program gets the summary.
    assert "data.pattern" in here("why", str(tmp_path / "root")).stdout
    again = as_users_do("run", SHORT_VIDEO, "--date", "2025-01-01", *folders, "--json")
    assert (again.returncode, json.loads(again.stdout)["status"]) == (2, "failed")


@pytest.mark.long
@pytest.mark.processes
def test_reread_forgets_what_is_known_of_files(tmp_path: Path) -> None:
    known = tmp_path / "root" / "ingestion" / "digests.json"
    known.parent.mkdir(parents=True)
    known.write_text("{}")
    (tmp_path / "logs").mkdir()
    run = (
        "run",
        SHORT_VIDEO,
        "--date",
        "2025-01-01",
        "--data",
        str(tmp_path / "logs"),
        "--root",
        str(tmp_path / "root"),
    )
    as_users_do(*run)
    assert known.exists()
    as_users_do(*run, "--reread")
    assert not known.exists()


@pytest.mark.parametrize("name", ["registry.example/sangam:latest", "registry.example/sangam"])
def test_compile_warns_of_an_image_without_a_digest(name: str) -> None:
    assert str(image_warning("--image", name)).startswith("warning: --image: ")
    assert f"(got {name})" in str(image_warning("--image", name))
    assert image_warning("--image", f"{name}@sha256:{'0' * 64}") is None
    assert image_warning("--trainer-image", "") is None


def test_compile_refuses_a_wrong_date(tmp_path: Path) -> None:
    done = sangam("compile", SHORT_VIDEO, "--image", "image", "--output", str(tmp_path / "out"), "--date", "7 March")
    assert done.returncode == 2
    assert tells(done.stderr, "--date", "(got '7 March')")
