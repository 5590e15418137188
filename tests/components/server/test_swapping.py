"""A folder of versions under a server that runs: new ones, damaged ones, withdrawn ones."""

import datetime
import shutil
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from sangam.components.registry.versions import withdraw
from sangam.components.server.metrics import Metrics
from sangam.components.server.model import LoadedModel
from sangam.components.server.versions import Versions
from tests.components.server.sample_models import (
    add_manifest,
    add_warmup,
    candidates,
    put,
    save_with_tfra,
    scores,
)
from tests.components.server.server_process import Running, refusal, running, wait_until
from tests.errors import tells
from tests.schemas.sample_exports import sample_description

pytestmark = pytest.mark.slow

COUNT = 40


@dataclass
class Load:
    """What clients saw who asked all the time.

    Attributes:
        versions: that answered, in order, each time it changed.
        wrong: requests that failed, or whose scores are not those of the version that they name.
    """

    versions: list[int] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    answers: int = 0


@contextmanager
def load(server: Running) -> Iterator[Load]:
    """Asks without a pause from more threads than there are slots, so that some requests are joined."""
    found, stop = [Load() for _ in range(5)], threading.Event()
    request = server.client.request("rank", candidates(COUNT))

    def ask(seen: Load) -> None:
        from tensorflow import make_ndarray

        while not stop.is_set():
            try:
                answer = server.client.send(request, 60)
            except Exception as error:  # noqa: BLE001 Whatever it is, it must not be.
                seen.wrong.append(repr(error))
                continue
            version = answer.model_spec.version.value
            like, watch = make_ndarray(answer.outputs["like"]), make_ndarray(answer.outputs["watch"])
            if not np.array_equal(like, scores(version, COUNT)) or not (watch == 2 * version).all():
                seen.wrong.append(f"{version}: {like[0]} {watch[0]}")
            if seen.versions[-1:] != [version]:
                seen.versions.append(version)
            seen.answers += 1

    threads = [threading.Thread(target=ask, args=(seen,)) for seen in found]
    for thread in threads:
        thread.start()
    try:
        wait_until(lambda: all(seen.answers > 20 for seen in found), "the load has begun")
        yield found[0]
        answers = found[0].answers
        wait_until(lambda: found[0].answers > answers + 20, "the load goes on")
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    for other in found[1:]:
        found[0].wrong += other.wrong
        assert other.versions == found[0].versions


def _rollback(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "sangam.pipelines.cli", "rollback", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_a_version_is_swapped_rolled_back_and_restored_under_load(
    models: dict[int, Path], tmp_path: Path, scratch: Path
) -> None:
    folder = tmp_path / "feed"
    put(models[1], folder, 1)
    with running(folder, scratch) as server:
        with load(server) as found:
            put(models[2], folder, 2)
            wait_until(lambda: server.served() == "ready feed 2", "the new version is served")
            assert refusal(lambda: server.client.predict("rank", candidates(1), 10, version=1))[0] == "NOT_FOUND"
            done = _rollback(str(folder), "--because", "likes fell")
            assert (done.returncode, done.stderr) == (0, "")
            wait_until(lambda: server.served() == "ready feed 1", "the old version is served again")
            wait_until(lambda: server.client.status() == {1: "AVAILABLE"}, "the withdrawn version is forgotten")
            assert _rollback(str(folder), "--restore", "2").returncode == 0
            wait_until(lambda: server.served() == "ready feed 2", "the new version is served again")
        assert found.wrong == []
        assert found.versions == [1, 2, 1, 2]
        assert server.client.status() == {2: "AVAILABLE", 1: "END"}
        assert server.metric("sangam_swaps_total") == 3
        log = server.log.read_text()
        assert log.count("version=2 replaces=1 ") == 2
        folder.rename(tmp_path / "unmounted")
        time.sleep(0.5)
        assert server.served() == "ready feed 2", "a folder that is gone withdraws nothing"
        (tmp_path / "unmounted").rename(folder)
        assert _rollback(str(folder), "--to", "none", "--because", "all are bad").returncode == 0
        wait_until(lambda: "version 2 was withdrawn: all are bad" in server.served(), "no version is served")
        code, text = refusal(lambda: server.client.predict("rank", candidates(1), 60))
        assert (code, "all are bad" in text) == ("UNAVAILABLE", True)
        assert server.metric("sangam_version_served") == 0
        assert _rollback(str(folder), "--restore", "1").returncode == 0
        wait_until(lambda: server.served() == "ready feed 1", "the only version that is left is served")
        assert "ERROR" not in server.log.read_text()


def test_only_whole_and_sound_versions_are_served(models: dict[int, Path], tmp_path: Path, scratch: Path) -> None:
    folder = tmp_path / "feed"
    put(models[1], folder, 1)
    for name in ("v2", "0.1", "2024-03-08", "001", "-5", "9" * 20, ".ipynb_checkpoints"):
        shutil.copytree(folder / "1", folder / name)
    (folder / "latest").symlink_to("1")
    (folder / "7").write_text("no folder")
    with running(folder, scratch) as server:
        assert list(server.client.status()) == [1]
        damaged = put(models[2], tmp_path / "elsewhere", 2)
        data = next((damaged / "variables").glob("*.data-*"))
        whole = data.read_bytes()
        data.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        damaged.rename(folder / "2")
        wait_until(lambda: 2 in server.client.status(), "the damaged version was tried")
        wait_until(lambda: server.client.status()[2].startswith("END"), "the damaged version is refused")
        assert "damaged (variables/variables.data-00000-of-00001: sha256 is" in server.client.status()[2]
        assert server.metric("sangam_version_refused", version="2", reason="damaged") == 1
        assert server.served() == "ready feed 1"

        put(
            models[3], folder, 3, with_manifest=False
        )  # As one that is still being copied, beside those with a manifest.
        (folder / ".tmp-20240307001-0a1b2c3d").mkdir()
        (folder / "4").mkdir()

        (folder / "2" / data.relative_to(damaged)).write_bytes(whole)
        wait_until(lambda: server.served() == "ready feed 2", "the repaired version is served, and none above it")
        assert 3 not in server.client.status()
        assert server.metric("sangam_version_refused") == 0
        assert server.log.read_text().count("refused=damaged") == 1
        add_manifest(folder / "3")
        wait_until(lambda: server.served() == "ready feed 3", "the completed version is served")
        np.testing.assert_array_equal(server.client.predict("rank", candidates(2), 60)["like"], scores(3, 2))


def test_recorded_requests_warm_a_version_up_and_refuse_one_that_fails_them(
    models: dict[int, Path], tmp_path: Path, scratch: Path
) -> None:
    folder = tmp_path / "feed"
    first = put(models[1], folder, 1, with_manifest=False)
    add_warmup(first, [b""], count=7)
    second = put(models[2], tmp_path, 2, with_manifest=False)
    add_warmup(second, [b"no example"], count=1)
    with running(folder, scratch) as server:
        # Made-up ones for rank and slow besides.
        assert "warmup_requests=9" in server.log.read_text()
        second.rename(folder / "2")
        wait_until(lambda: server.client.status().get(2, "").startswith("END"), "the failing version is refused")
        assert "request 1 fails" in server.client.status()[2]
        assert server.metric("sangam_version_refused", reason="warmup_failed") == 1
        np.testing.assert_array_equal(server.client.predict("rank", candidates(2), 60)["like"], scores(1, 2))


def test_a_replaced_version_answers_to_the_end_and_is_then_freed(models: dict[int, Path], tmp_path: Path) -> None:
    import tensorflow as tf

    swapped = threading.Event()
    put(models[1], tmp_path, 1)
    versions = Versions(name="feed", folder=tmp_path, poll_s=0.05, metrics=Metrics(), changed=swapped.set)
    versions.start()
    try:
        assert versions.wait_for_first(30)
        old = versions.ready()
        freed = weakref.ref(old)
        swapped.clear()
        put(models[2], tmp_path, 2)
        assert swapped.wait(30)
        assert versions.ready().version == 2
        assert old.run(old.signature("slow"), {"seconds": tf.zeros([1])}) == {"like": 1}
        del old
        assert freed() is None
    finally:
        versions.stop()


def _withdraw(folder: Path) -> None:
    withdraw(folder.parent, because="likes fell", now=datetime.datetime(2024, 3, 9, tzinfo=datetime.UTC))


def _lose_manifest(folder: Path) -> None:
    (folder / "manifest.json").unlink()


@pytest.mark.parametrize("happens", [_withdraw, _lose_manifest])
def test_what_is_withdrawn_or_loses_its_manifest_while_it_is_loaded_answers_nothing(
    happens: Callable[[Path], None], models: dict[int, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (1, 2):
        put(models[number], tmp_path, number)
    (tmp_path / "2").rename(tmp_path / ".tmp-2")
    loaded = threading.Event()

    class SlowlyLoaded(LoadedModel):
        def __init__(self, folder: Path, version: int, *, map_tables: bool):
            super().__init__(folder, version, map_tables=map_tables)
            if version == 2:
                happens(folder)
                loaded.set()

    monkeypatch.setattr("sangam.components.server.versions.LoadedModel", SlowlyLoaded)
    versions = Versions(name="feed", folder=tmp_path, poll_s=0.02, metrics=Metrics(), changed=lambda: None)
    versions.start()
    try:
        assert versions.wait_for_first(30)
        (tmp_path / ".tmp-2").rename(tmp_path / "2")
        assert loaded.wait(30)
        loaded.clear()
        end, answers = time.monotonic() + 0.5, set()
        while time.monotonic() < end:
            answers.add(versions.ready().version)
        assert answers == {1}
        assert not loaded.is_set()
    finally:
        versions.stop()


def test_a_version_that_lost_its_manifest_is_named(models: dict[int, Path], tmp_path: Path) -> None:
    put(models[1], tmp_path, 1)
    versions = Versions(name="feed", folder=tmp_path, poll_s=0.02, metrics=Metrics(), changed=lambda: None)
    versions.start()
    try:
        assert versions.wait_for_first(30)
        put(models[2], tmp_path, 2)
        wait_until(lambda: versions.ready().version == 2, "the new version is served")
        for number in (1, 2):
            _lose_manifest(tmp_path / str(number))
        put(models[3], tmp_path, 3)
        wait_until(lambda: versions.ready().version == 3, "the newest version is served")
        for number in (2, 3):
            (tmp_path / str(number)).rename(tmp_path / f".away-{number}")
        wait_until(lambda: 1 in versions.states() and versions.states()[1].state == "END", "it was looked at")
        assert tells(versions.states()[1].problem, "...manifest.json", "gone")
        assert versions.ready().version == 3
    finally:
        versions.stop()


@pytest.mark.long
def test_a_model_with_custom_operations_brings_its_module(tmp_path: Path, scratch: Path) -> None:
    version = tmp_path / "feed" / "1"
    save_with_tfra(version)
    with running(tmp_path / "feed", scratch) as server:
        found = server.client.predict("serving_default", {"keys": np.array([7, 8])}, 60)
        np.testing.assert_array_equal(found["row"], [[7.0], [-1.0]])
        unknown = put(version, tmp_path / "elsewhere", 2, with_manifest=False)
        (unknown / "assets.extra" / "ranker.json").write_text(sample_description(custom_ops="os").text())
        unknown.rename(tmp_path / "feed" / "2")
        wait_until(lambda: server.client.status().get(2, "").startswith("END"), "the unknown module is refused")
        assert "(got 'os'); known is tensorflow_recommenders_addons" in server.client.status()[2]
