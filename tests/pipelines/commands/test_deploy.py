"""The commands as a person gives them."""

import datetime
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from sangam.pipelines.cli import app
from sangam.pipelines.commands import backfill as backfill_command
from sangam.pipelines.commands import deploy
from sangam.pipelines.deploy import release_options
from sangam.pipelines.deploy.names import pipeline_name
from sangam.pipelines.deploy.release_options import ReleaseOptions, make_release
from sangam.pipelines.times import utc_now
from sangam.schemas.errors import UserError
from sangam.schemas.loading import load_spec
from tests.errors import mentions, place_and_value
from tests.paths import SPECS
from tests.pipelines.deploy.sample_server import IMAGE, OTHER_IMAGE, World, compile_quickly

SPEC = str(SPECS / "short_video.yaml")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deploy, "compile_for_kubeflow", compile_quickly)
    monkeypatch.setattr(release_options, "compile_for_kubeflow", compile_quickly)


def sangam(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def test_the_life_of_a_ranker(world: World) -> None:
    world.at = utc_now()
    at = ("--at", f"{world.at + datetime.timedelta(hours=12):%H:%M}")  # Not while the test runs.
    host = ("--host", world.server.host)
    first = sangam("deploy", SPEC, *host, "--image", IMAGE, *at)
    assert first.exit_code == 0, first.output
    assert [line.split()[0] for line in first.output.splitlines()] == [
        "compiling",
        "pipeline",
        "version",
        "schedule",
        "next",
    ]
    again = sangam("deploy", SPEC, *host, "--image", IMAGE, *at)
    assert again.output.splitlines()[-1] == "nothing has changed"
    told = json.loads(sangam("deploy", SPEC, *host, "--image", IMAGE, *at, "--json").stdout)
    assert (told["name"], told["changed"], told["lines"][-1]) == ("short_video", False, "nothing has changed")
    assert sangam("status", "short_video", *host).exit_code == 0
    document = json.loads(sangam("status", "short_video", *host, "--json").output)
    assert (document["ranker"], document["health"]) == ("short_video", "healthy")
    backfill = ("backfill", SPEC, "--from", "2024-03-01", "--to", "2024-03-01", "--on", "kfp", *host, "--image", IMAGE)
    world.store.plans = {"2024-03-01": ["SUCCEEDED"]}
    assert sangam(*backfill).exit_code == 0
    assert "backfill  succeeded" in sangam("runs", "short_video", *host).output
    assert json.loads(sangam("runs", "short_video", *host, "--json").output)[0]["date"] == "2024-03-01"
    assert "--yes" in sangam("retire", "short_video", *host).output
    assert json.loads(sangam("retire", "short_video", *host, "--json").stdout)["retired"] is False
    assert json.loads(sangam("retire", "short_video", *host, "--yes", "--json").stdout)["retired"] is True
    assert sangam("status", "short_video", *host).exit_code == 5


def test_a_failed_run_is_an_exit_code(world: World) -> None:
    world.deploy()
    (schedule,) = world.store.recurring
    world.store.set_state(world.store.fire(schedule)["run_id"], "FAILED")
    assert sangam("status", "short_video", "--host", world.server.host).exit_code == 1


def test_what_cannot_be_seen_of_alerts_is_said(world: World, tmp_path: Path) -> None:
    spec = tmp_path / "short_video.yaml"
    secrets = "secrets: {SANGAM_ALERT_URL: {secret: hook, key: url}, SANGAM_ALERT_KEY: {secret: hook, key: key}}"
    text = Path(SPEC).read_text().replace("default: {cpu", f"default: {{{secrets}, cpu")
    spec.write_text(f"{text}\nalerts: {{}}\n")
    result = sangam("deploy", str(spec), "--host", world.server.host, "--image", IMAGE, "--dry-run")
    assert mentions(result.output, "alerts ... Secret hook, key url ... https://")


def test_a_dry_run_changes_nothing(world: World) -> None:
    result = sangam("deploy", SPEC, "--host", world.server.host, "--image", IMAGE, "--dry-run")
    assert "would upload version" in result.output
    assert not world.store.pipelines


@pytest.mark.parametrize(
    ("options", "place", "value"),
    [
        (("--image", "sangam:1"), "--image", "(got 'sangam:1')"),
        (("--image", ""), "--image", "(got '')"),
        (("--image", IMAGE, "--trainer-image", "t:2"), "--trainer-image", "(got 't:2')"),
        (("--image", IMAGE, "--at", "2am"), "--at", "(got '2am')"),
        (("--image", IMAGE, "--experiment", "a/b"), "--experiment", "(got 'a/b')"),
        (("--image", IMAGE, "--service-account", "a b"), "--service-account", "(got 'a b')"),
    ],
)
def test_mistakes_in_deploys_options(world: World, options: tuple[str, ...], place: str, value: str) -> None:
    with pytest.raises(UserError, match=place_and_value(place, value)):
        CliRunner().invoke(app, ["deploy", SPEC, "--host", world.server.host, *options], catch_exceptions=False)


@pytest.mark.parametrize(
    ("options", "place", "value"),
    [
        (("--data", "a"), "--root", "is missing ... --on local"),
        (("--data", "a", "--root", "b", "--image", "c"), "--image", "(got c)"),
        (("--data", "a", "--root", "b", "--retry-failed"), "--retry-failed", "--on local"),
        (("--on", "kfp", "--host", "http://a"), "--image", "is missing ... --on kfp"),
        (("--on", "kfp", "--image", IMAGE), "--host", "is missing"),
        (("--on", "kfp", "--host", "http://a", "--image", IMAGE, "--root", "b"), "--root", "--on kfp"),
    ],
)
def test_options_of_the_other_place_are_errors(options: tuple[str, ...], place: str, value: str) -> None:
    period = ("--from", "2024-03-01", "--to", "2024-03-02")
    with pytest.raises(UserError, match=place_and_value(place, value)):
        CliRunner().invoke(app, ["backfill", SPEC, *period, *options], catch_exceptions=False)


def test_a_period_is_checked_before_the_server_is_asked() -> None:
    options = ReleaseOptions(IMAGE)
    with pytest.raises(UserError, match=place_and_value("--to", "(got 2024-03-01, --from 2024-03-02)")):
        backfill_command.backfill(
            Path(SPEC), "2024-03-02", "2024-03-01", on="kfp", host="http://a", image=options.image
        )


def test_images_of_the_spec_are_pinned_too() -> None:
    spec = load_spec(Path(SPEC))
    default = spec.cluster.default.model_copy(update={"image": "sangam:latest"})
    spec = spec.model_copy(update={"cluster": spec.cluster.model_copy(update={"default": default})})
    with pytest.raises(UserError, match=place_and_value("cluster.default.image", "(got 'sangam:latest')")):
        make_release(spec, ReleaseOptions(IMAGE), compile_quickly)


def test_a_version_is_named_after_what_it_is() -> None:
    spec = load_spec(Path(SPEC))
    name = make_release(spec, ReleaseOptions(IMAGE), compile_quickly).version_name
    assert make_release(spec, ReleaseOptions(IMAGE), compile_quickly).version_name == name
    assert make_release(spec, ReleaseOptions(OTHER_IMAGE), compile_quickly).version_name != name
    changed = spec.model_copy(update={"intended_use": "x"})
    assert make_release(changed, ReleaseOptions(IMAGE), compile_quickly).version_name[:10] != name[:10]


def test_a_ranker_whose_name_is_none_in_kubernetes() -> None:
    with pytest.raises(UserError, match=place_and_value("NAME", "(got 'a_')")):
        pipeline_name("a_")
