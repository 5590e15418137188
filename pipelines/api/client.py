"""Scores from a running server, over the REST interface that `sangam serve` and TensorFlow Serving have."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote, urlsplit

import httpx

from sangam.components.alerts.target import is_this_machine
from sangam.pipelines.api.requests import columns_of, inputs_of_signature, request_of
from sangam.schemas.contracts.export import RANK
from sangam.schemas.errors import UserError

if TYPE_CHECKING:
    from pandas import DataFrame

_BATCH_ROWS = 1000
"""Rows of a request; a server takes 10,000, and 16 MiB."""


class Client:
    """A connection to a server.

    >>> with sangam.client("127.0.0.1:8501") as connected:
    ...     connected.score(frame).columns.tolist()
    ['clicked']

    Attributes:
        address: its URL.
    """

    def __init__(self, address: str, model: str = "", timeout_s: float = 30.0):
        """Connects to an address; see `client`."""
        self.address = _url(address)
        self._model, self._timeout_s = model, timeout_s
        host = urlsplit(self.address).hostname or ""
        # No proxy leads to this machine.
        self._http = httpx.Client(base_url=self.address, timeout=timeout_s, trust_env=not is_this_machine(host))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection.

        >>> sangam.client("127.0.0.1:8501").close()
        """
        self._http.close()

    @property
    def model(self) -> str:
        """The name of the model, from the server if it was not given.

        >>> client.model
        'clicks'

        Raises:
            UserError: the server is not reached, has no model yet, or does not say its name.
        """
        if not self._model:
            answer = self._send("GET", "/readyz")
            told = answer.text.strip()
            if answer.status_code == httpx.codes.NOT_FOUND or (answer.is_success and not told.startswith("ready ")):
                raise UserError(f"{self.address}: names no model; give the name, client(address, model=...)")
            # "ready NAME VERSION"; a name may have spaces.
            self._model = self._answered(answer).text.strip().removeprefix("ready ").rpartition(" ")[0]
        return self._model

    def status(self) -> "DataFrame":
        """Returns a row for each version of the model, newest first: its state, and what is wrong with it.

        >>> client.status()[["version", "state"]].values.tolist()
        [['20240520001', 'AVAILABLE']]

        Raises:
            UserError: the server is not reached, or refuses the request.
        """
        import pandas as pd

        told = self._json("GET", self._path(""))["model_version_status"]
        rows = [(each["version"], each["state"], each.get("status", {}).get("error_message", "")) for each in told]
        return pd.DataFrame(rows, columns=["version", "state", "problem"])

    def score(self, rows: "DataFrame | Sequence[Mapping[str, Any]]") -> "DataFrame":
        """Returns a column of scores for each task, with the rows' index.

        A column of the rows is found by its name in the logs. A missing value is None, NaN or NA; a list column has a
        list in each row. Columns that the model does not read are not sent.

        >>> client.score([{"user_id": "u1", "item_id": 7, "price": None, "time": 1_716_000_000}]).shape
        (1, 1)

        Raises:
            UserError: a column is missing, a value has another type, or the server is not reached or refuses them.
        """
        import pandas as pd

        frame = rows if isinstance(rows, pd.DataFrame) else None
        if frame is None:
            given = list(rows)
            names = dict.fromkeys(name for row in given for name in row)
            columns = {name: [row.get(name) for row in given] for name in names}
            index: Any = pd.RangeIndex(len(given))
        else:
            columns, index = {name: frame[name].tolist() for name in frame.columns}, frame.index
        told = self._json("GET", self._path("/metadata"))["metadata"]["signature_def"]["signature_def"]
        if RANK not in told:
            raise UserError(f"{self.address}: the model has no signature {RANK} (got {', '.join(sorted(told))})")
        inputs = inputs_of_signature(told[RANK]["inputs"])
        found = columns_of(inputs, columns) if columns else {}
        scores: dict[str, list[float]] = {task: [] for task in told[RANK]["outputs"]}
        for start in range(0, len(index), _BATCH_ROWS):
            part = {name: columns[name][start : start + _BATCH_ROWS] for name in found.values()}
            body = {"signature_name": RANK, "inputs": request_of(inputs, found, part)}
            answer = self._json("POST", self._path(":predict"), json.dumps(body))["outputs"]
            by_task = answer if isinstance(answer, dict) else {next(iter(scores)): answer}
            for task, values in by_task.items():
                scores[task] += [value for [value] in values]
        return pd.DataFrame({task: scores[task] for task in sorted(scores)}, index=index, dtype="float32")

    def _path(self, rest: str) -> str:
        return f"/v1/models/{quote(self.model, safe='')}{rest}"

    def _json(self, method: str, path: str, body: str | None = None) -> Any:
        answer = self._answered(self._send(method, path, body))
        try:
            return answer.json()
        except ValueError:
            raise UserError(f"{self.address}: is no server of models (got no JSON from {path}); {_ALLOWED}") from None

    def _send(self, method: str, path: str, body: str | None = None) -> httpx.Response:
        """Returns the answer to a request.

        Raises:
            UserError: there is none.
        """
        try:
            return self._http.request(method, path, content=body)
        except httpx.TimeoutException:
            raise UserError(
                f"{self.address}: no answer within {self._timeout_s:g} s; give a longer timeout_s"
            ) from None
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            raise UserError(f"{self.address}: is not reached (got {error}); {_ALLOWED}") from None

    def _answered(self, answer: httpx.Response) -> httpx.Response:
        """Returns an answer that is no refusal.

        Raises:
            UserError: it is one.
        """
        if answer.is_success:
            return answer
        try:
            reason = answer.json()["error"]
        except (ValueError, TypeError, KeyError):
            reason = answer.text.strip()[:300]
        raise UserError(f"{self.address}: refused (got status {answer.status_code}): {reason or 'without a reason'}")


def client(address: str, model: str = "", timeout_s: float = 30.0) -> Client:
    """Connects to a server that `sangam serve` or TensorFlow Serving runs.

    An address on this machine is never asked through a proxy.

    >>> client = sangam.client("127.0.0.1:8501")
    >>> client.address
    'http://127.0.0.1:8501'

    Args:
        address: host:port of its REST interface, or the URL.
        model: name of the model; left out, the server is asked, which TensorFlow Serving does not answer.
        timeout_s: limit of one request.

    Raises:
        UserError: the address is not one.
    """
    return Client(address, model, timeout_s)


_ALLOWED = "give the REST address that `sangam serve` printed, such as 127.0.0.1:8501"


def _url(address: str) -> str:
    url = address if "://" in address else f"http://{address}"
    try:
        parts = urlsplit(url)
        is_url = parts.scheme in ("http", "https") and parts.hostname and (parts.port or 1)
    except ValueError:
        is_url = False
    if not is_url or any(char.isspace() for char in url):
        raise UserError(f"address: is not one (got {address!r}); {_ALLOWED}")
    return url.rstrip("/")
