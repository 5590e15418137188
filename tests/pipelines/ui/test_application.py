"""The routes, as a client sees them."""

import asyncio
import json
import urllib.parse
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer
from multidict import CIMultiDict
from yarl import URL

from sangam.components.record.lock import locked
from sangam.components.record.store import write_record
from sangam.pipelines.ui import events
from sangam.pipelines.ui.access import Access
from sangam.pipelines.ui.application import application
from sangam.schemas.contracts.root import Root
from tests.components.record.sample_records import record
from tests.nasty_texts import NASTY
from tests.pipelines.ui.sample_root import (
    FAILED,
    NEW,
    OLD,
    SEARCH,
    progress_line,
    run_id,
    write_backfill,
    write_running,
    write_runs,
    write_search,
)

pytestmark = pytest.mark.slow

RUNNING = "20240310T020000-1a2b3c4d"
TOKEN = "a-token-of-enough-characters"
OPEN = Access(None, any_host=False)
PAGES = ("/", "/overview", "/compare", "/searches", f"/searches/small/{SEARCH}", "/backfills")
Work = Callable[[TestClient[Any, Any]], Awaitable[None]]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Root:
    made = write_runs(tmp_path_factory.mktemp("root"))
    write_search(made)
    write_backfill(made)
    return made


def served(root: Root, work: Work, access: Access = OPEN) -> None:
    """Serves a root while a client works."""

    async def run() -> None:
        async with TestClient(TestServer(application(root, access))) as client:
            await work(client)

    asyncio.run(run())


def answers(
    root: Root, *paths: str | URL, access: Access = OPEN, **more: Any
) -> list[tuple[int, str, CIMultiDict[str]]]:
    """Returns status, body and headers of each path."""
    found: list[tuple[int, str, CIMultiDict[str]]] = []

    async def work(client: TestClient[Any, Any]) -> None:
        for path in paths:
            async with client.request(**{"method": "GET", "allow_redirects": False, **more}, path=path) as answer:
                found.append((answer.status, await answer.text(), answer.headers.copy()))

    served(root, work, access)
    return found


def test_every_page_is_there_and_may_load_nothing_from_elsewhere(root: Root) -> None:
    for status, text, headers in answers(
        root, *PAGES, f"/runs/{run_id(NEW)}", f"/runs/{run_id(FAILED)}", "/static/ui.css"
    ):
        assert status == 200, text
        policy = headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; ")
        assert "http" not in policy
        assert "script-src 'unsafe-inline'" not in policy
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"


def test_an_empty_root_says_which_command_fills_each_page(tmp_path: Path) -> None:
    commands = ("sangam run", "sangam run", "sangam run", "sangam tune", "sangam backfill")
    pages = ("/", "/overview", "/compare", "/searches", "/backfills")
    for (status, text, _), command in zip(answers(Root(str(tmp_path)), *pages), commands, strict=True):
        assert status == 200
        assert f"{command} SPEC" in text
        assert f"--root {tmp_path}" in text


def test_the_report_of_a_run_is_its_file_with_a_way_back(root: Root) -> None:
    [(_, text, headers)] = answers(root, f"/runs/{run_id(NEW)}")
    links = f'<a href="/compare?a={run_id(FAILED)}&amp;b={run_id(NEW)}">'
    assert links in text
    head, _, rest = (root.run(run_id(NEW)).path / "report.html").read_text().partition("<header>")
    assert text.startswith(head)
    assert text.endswith(rest)
    assert "script" not in headers["Content-Security-Policy"]


def test_a_run_without_a_report_says_why_and_what_to_try(root: Root) -> None:
    [(_, text, _)] = answers(root, f"/runs/{run_id(FAILED)}")
    assert "failed in trainer: training: rank 1 was killed" in text
    assert "rank 1 says: no memory" in text
    assert "sangam run " in text


def test_a_run_on_kubeflow_is_one_of_them(tmp_path: Path) -> None:
    root = write_runs(tmp_path)
    run = root.run("3f2504e0-4f89-41d3-9a0c-0305e82c3301")
    run.path.mkdir()
    made = record(
        run=run.path.name, path=str(run.path), name="small", runner="kubeflow", started_at=1.7e9, blessed=False
    )
    write_record(made)
    paths = ("/", f"/runs/{run.path.name}", f"/compare?a={run.path.name}&b={run_id(NEW)}", "/overview")
    for status, text, _ in answers(root, *paths):
        assert (status, run.path.name in text) == (200, True)
    run.summary.unlink()  # Still under way.
    assert [status for status, *_ in answers(root, f"/runs/{run.path.name}")] == [404]


def test_two_runs_are_beside_each_other(root: Root) -> None:
    [(_, text, _)] = answers(root, f"/compare?a={run_id(OLD)}&b={run_id(NEW)}")
    assert "training.epochs" in text
    assert "2024-03-05 to 2024-03-07 (3)" in text
    assert text.count("<svg") == 5


def test_two_ticked_runs_are_compared_the_earlier_one_first(root: Root) -> None:
    [(status, _, headers)] = answers(root, f"/compare?run={run_id(NEW)}&run={run_id(OLD)}")
    assert (status, headers["Location"]) == (303, f"/compare?a={run_id(OLD)}&b={run_id(NEW)}")
    for chosen in ("", f"?run={run_id(NEW)}", f"?run={run_id(NEW)}&run={run_id(OLD)}&run={run_id(FAILED)}"):
        [(status, text, _)] = answers(root, f"/compare{chosen}")
        assert status == 200
        assert "<select" in text


@pytest.mark.parametrize(
    "path",
    [
        "/nope",
        "/runs/nope",
        "/runs/20200101T000000-1a2b3c4d",
        f"/searches/small/{'0' * 8}",
        "/?name=nobody",
        "/runs/latest",
        "/runs/..%2f..%2fsummary.json",
        "/static/..%2fapplication.py",
        "/static/ui.html",
        "/compare?a=../../etc&b=..",
        "/searches/..%2f..%2f/x",
        "/runs/20240305T020000-1a2b",
    ],
)
def test_what_is_not_there_is_a_page_in_the_same_design(root: Root, path: str) -> None:
    [(status, text, headers)] = answers(root, path)
    assert status == 404, text
    assert '<link rel="stylesheet" href="/static/ui.css">' in text
    assert headers["Content-Security-Policy"]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_nothing_can_be_changed(root: Root, method: str) -> None:
    for path in ("/", "/compare", "/nope"):
        [(status, _, headers)] = answers(root, path, method=method)
        assert (status, headers["Allow"]) == (405, "GET,HEAD")


def test_a_request_for_another_host_is_refused(root: Root) -> None:
    [(status, text, _)] = answers(root, "/", headers={"Host": "evil.example"})
    assert status == 421
    assert run_id(NEW) not in text


def test_a_page_that_has_not_changed_is_not_sent_again(root: Root) -> None:
    [(_, _, headers)] = answers(root, "/searches")
    [(status, text, _)] = answers(root, "/searches", headers={"If-None-Match": headers["ETag"]})
    assert (status, text) == (304, "")


def test_the_token_is_asked_for_and_becomes_a_cookie(root: Root) -> None:
    async def work(client: TestClient[Any, Any]) -> None:
        for path in ("/", f"/runs/{run_id(NEW)}", f"/runs/{run_id(NEW)}/events", "/?token=wrong"):
            async with client.get(path) as refused:
                assert refused.status == 401
                assert run_id(NEW) not in await refused.text()
        async with client.get("/", headers={"Authorization": f"Bearer {TOKEN}"}) as answer:
            assert answer.status == 200
        async with client.get("/static/ui.css") as answer:
            assert answer.status == 200
        async with client.get(f"/searches?token={TOKEN}&x=1") as welcomed:
            assert welcomed.headers["Refresh"] == "0; url=/searches?x=1"
            assert TOKEN not in await welcomed.text()
            [cookie] = welcomed.cookies.values()
            assert (cookie["httponly"], cookie["samesite"], TOKEN in cookie.value) == (True, "Strict", False)
        async with client.get(f"/?token={TOKEN}") as answer:
            assert answer.headers["Refresh"] == "0; url=/"
        cookies = {"Cookie": f"{cookie.key}={cookie.value}"}
        async with client.get("/searches", headers=cookies) as answer:
            assert answer.status == 200

    served(root, work, Access(TOKEN, any_host=True))


def test_a_file_of_another_version_is_an_error_and_ends_nothing(tmp_path: Path) -> None:
    (tmp_path / "backfill" / "small").mkdir(parents=True)
    (tmp_path / "backfill" / "small" / "backfill.json").write_text("[]")
    (damaged, text, _), (works, *_) = answers(Root(str(tmp_path)), "/backfills", "/searches")
    assert (damaged, works) == (500, 200)
    assert "is not a backfill record of this version" in text


async def told(stream: Any) -> tuple[str, dict[str, Any]]:
    """Returns the next event: kind, document."""
    while not (line := (await stream.readline()).decode()).startswith("event: "):
        assert line
    data = (await stream.readline()).decode()
    return line.removeprefix("event: ").strip(), json.loads(data.removeprefix("data: "))


def test_a_run_is_told_as_it_goes_until_it_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "EVERY_S", 0.05)
    root = write_runs(tmp_path)
    folder = write_running(root, RUNNING, now=1000.0, num_points=30)

    async def work(client: TestClient[Any, Any]) -> None:
        with locked(root.path):
            answer = await client.get(f"/runs/{RUNNING}/events")
            assert answer.headers["Content-Type"].startswith("text/event-stream")
            kind, first = await told(answer.content)
            assert (kind, first["is_new"], len(first["points"])) == ("progress", True, 30)
            assert first["sentence"] == "trainer is running; 3 of 7 steps are done."
            with (folder / "logs" / "progress.jsonl").open("a") as file:
                file.write(json.dumps(progress_line(31)) + "\n")
            points: list[Any] = []
            while not points:
                _, news = await told(answer.content)
                points = news["points"]
            assert [(each["step"], set(each["losses"])) for each in points] == [(620, {"like", "share"})]
            # Resumed from a checkpoint: the curves begin anew.
            (folder / "logs" / "progress.jsonl").write_text(json.dumps(progress_line(5)) + "\n")
            while not news["is_new"]:
                _, news = await told(answer.content)
            assert [each["step"] for each in news["points"]] == [100]
        while kind != "ended":
            kind, last = await told(answer.content)
        assert last["state"] == "killed"
        assert await answer.content.read() == b"\n"

    served(root, work)


def test_so_many_may_listen_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "MAX_LISTENERS", 1)
    root = write_runs(tmp_path)
    write_running(root, RUNNING, now=1000.0)

    async def work(client: TestClient[Any, Any]) -> None:
        with locked(root.path):
            async with client.get(f"/runs/{RUNNING}/events"):
                refused = await client.get(f"/runs/{RUNNING}/events")
                assert (refused.status, refused.headers["Retry-After"]) == (503, "10")

    served(root, work)


ODD = (*NASTY, "9" * 5000, "0" * 5000, "-1", "x" * 6000, "%00", "%ff", "a/b", "..")
PLACES = (
    "/{}",
    "/runs/{}",
    "/runs/{}/events",
    "/searches/{}/{}",
    "/static/{}",
    "/?last={}",
    "/?name={}",
    "/compare?a={}&b={}",
    "/compare?run={}&run=x{}",
)


def test_no_address_is_an_error_of_the_server(root: Root) -> None:
    asked = [urllib.parse.quote(text, safe="", errors="surrogatepass") for text in ODD]
    paths = [URL(place.format(text, text), encoded=True) for place in PLACES for text in asked]
    for path, (status, text, headers) in zip(paths, answers(root, *paths), strict=True):
        assert status in (200, 303, 400, 404), (str(path)[:100], text[-500:])
        if status == 303:
            assert headers["Location"].startswith("/compare?a=")
