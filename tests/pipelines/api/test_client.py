"""The client against a real server: what it scores, and what it says when it cannot."""

import socket
from collections.abc import Iterator

import pandas as pd
import pytest

import sangam
from tests.components.server.sample_models import NAME, SmallRanker
from tests.components.server.server_process import Running, running
from tests.errors import place_and_value

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("model")
    SmallRanker(1.0).save(folder)
    with running(folder, tmp_path_factory.mktemp("server")) as found:
        yield found


@pytest.fixture
def client(server: Running) -> Iterator[sangam.Client]:
    with sangam.client(server.rest) as connected:
        yield connected


def frame(rows: int) -> pd.DataFrame:
    """Returns candidates whose `like` is 1, the length of their post, their price and the sum of their topics."""
    posts = [f"p{number}" for number in range(rows)]
    topics = [[number % 3] * (number % 4) for number in range(rows)]
    return pd.DataFrame({"user": "u", "post": posts, "price": 0.5, "topics": topics, "label": 1}, index=posts)


def test_rows_are_scored_with_their_index_whatever_their_number(client: sangam.Client) -> None:
    rows = frame(2501)
    scores = client.score(rows)
    assert scores.columns.tolist() == ["like", "watch"]
    assert (scores.index == rows.index).all()
    expected = 1.5 + rows.post.str.len() + rows.topics.map(sum)
    pd.testing.assert_series_equal(scores.like, expected.astype("float32"), check_names=False)
    assert (scores.watch == 2.0).all()


def test_a_list_of_rows_is_a_frame_and_what_a_row_lacks_is_missing(client: sangam.Client) -> None:
    rows = [{"user": "u", "post": "p0", "price": 2, "topics": [1, 2]}, {"user": None, "post": "p10", "price": 0}]
    assert client.score(rows).like.tolist() == [1 + 2 + 2 + 3, 1 + 3 + 0]
    [nan] = client.score([{**rows[0], "price": None}]).like
    assert nan != nan  # This model adds the price, which is missing.


def test_no_rows_have_no_scores(client: sangam.Client) -> None:
    for none in (client.score([]), client.score(frame(0))):
        assert none.shape == (0, 2)


def test_the_model_and_its_versions_are_told(client: sangam.Client) -> None:
    assert client.model == NAME
    assert client.status().values.tolist() == [[client.status().version[0], "AVAILABLE", ""]]


def test_a_missing_column_is_named(client: sangam.Client) -> None:
    with pytest.raises(sangam.UserError, match=place_and_value("columns", "(got post, price, topics)")):
        client.score(frame(1)[["post", "price", "topics"]])


def test_a_refusal_is_told_with_the_address(server: Running) -> None:
    with (
        sangam.client(server.rest, model="other") as client,
        pytest.raises(sangam.UserError, match=place_and_value(server.rest, "404 ... other")),
    ):
        client.score(frame(1))


def test_a_server_that_is_not_there_is_told_with_its_address() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with (
            sangam.client(address) as client,
            pytest.raises(sangam.UserError, match=place_and_value(address, "refused")),
        ):
            client.score(frame(1))


def test_a_server_that_does_not_answer_is_told_with_the_limit() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with (
            sangam.client(address, timeout_s=0.2) as client,
            pytest.raises(sangam.UserError, match=place_and_value(address, "0.2 s")),
        ):
            client.status()


def test_no_proxy_leads_to_this_machine(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    with sangam.client(server.rest) as client:
        assert client.model == NAME


@pytest.mark.parametrize("address", ["", "a b", "ftp://host", "host:99999", "http://"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(sangam.UserError, match=place_and_value("address", f"(got {address!r})")):
        sangam.client(address)
