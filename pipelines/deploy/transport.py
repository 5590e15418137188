"""The transport to the server: sends the requests of Kubeflow's own client, retries idempotent ones, and converts
failures into one-line errors."""

import json
import re
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from sangam.pipelines.deploy.errors import LOGIN, ApiError, Transient, of_answer, short
from sangam.pipelines.times import utc_now
from sangam.schemas.errors import UserError
from sangam.schemas.host.backoff import Backoff, retry_after_s

ATTEMPTS = 5
BACKOFF = Backoff(1.0, max_s=60.0, jitter=0.25)
_CONNECT_TIMEOUT_S, _ANSWER_TIMEOUT_S = 10.0, 60.0
_REPEATABLE = re.compile(r":(enable|disable|terminate)$")
"""Ends of idempotent POST paths. Every other POST creates an object."""

Sleep = Callable[[float], None]


@dataclass(frozen=True)
class Credentials:
    """The source of the token. The token itself is not stored: Kubernetes may renew the file.

    Attributes:
        variable: environment variable with the token.
        file: file with the token, read for every request.
    """

    variable: str | None = None
    file: Path | None = None

    def header(self, environ: dict[str, str]) -> dict[str, str]:
        """Returns the header of a request; empty without credentials.

        Raises:
            UserError: the token is missing or malformed.
        """
        if self.variable is not None:
            where, token = "--token-env", environ.get(self.variable, "").strip()
            got = f"variable {self.variable}"
        elif self.file is not None:
            where, got = "--token-file", str(self.file)
            try:
                token = self.file.read_text(encoding="ascii").strip()
            except (OSError, UnicodeDecodeError) as error:
                reason = error.strerror if isinstance(error, OSError) else "it holds more than ASCII"
                raise UserError(f"{where}: cannot be read (got {got}: {reason}); give a file with a token") from None
        else:
            return {}
        if not re.fullmatch(r"[!-~]+", token):
            raise UserError(f"{where}: holds no token (got {got}, {len(token)} characters); it must be one word")
        return {"Authorization": f"Bearer {token}"}


class Answer:
    """An answer with the interface that the generated client expects."""

    def __init__(self, response: httpx.Response):
        self.status, self.reason, self.data = response.status_code, response.reason_phrase, response.content
        self._headers = response.headers

    def getheader(self, name: str, default: str | None = None) -> str | None:
        """Returns a header."""
        return self._headers.get(name, default)

    def getheaders(self) -> dict[str, str]:
        """Returns all headers."""
        return dict(self._headers)


class Transport:
    """Replaces the generated client's urllib3, which raises AttributeError for untrusted certificates, and does not
    distinguish requests that were sent from those that were not.
    """

    def __init__(
        self,
        host: str,
        credentials: Credentials,
        environ: dict[str, str],
        ca_cert: Path | None = None,
        sleep: Sleep = time.sleep,
        answer_timeout_s: float = _ANSWER_TIMEOUT_S,
    ):
        self.host = host
        self._credentials, self._environ, self._sleep = credentials, environ, sleep
        try:
            # Loading all authorities is slow, and http:// needs none.
            verify = ssl.create_default_context(cafile=ca_cert) if ca_cert else host.startswith("https:")
        except (OSError, ssl.SSLError) as error:
            raise UserError(f"--ca-cert: cannot be used (got {ca_cert}: {error}); give certificates in PEM") from None
        # Redirects lead to a log-in page, and the token is for this host alone: do not follow them.
        timeout = httpx.Timeout(answer_timeout_s, connect=min(_CONNECT_TIMEOUT_S, answer_timeout_s))
        self._client = httpx.Client(verify=verify, timeout=timeout, follow_redirects=False)

    def close(self) -> None:
        """Closes the connections."""
        self._client.close()

    def GET(self, url: str, **request: Any) -> Answer:
        """Sends a GET; the generated client calls this name."""
        return self.request("GET", url, **request)

    def POST(self, url: str, **request: Any) -> Answer:
        """Sends a POST."""
        return self.request("POST", url, **request)

    def DELETE(self, url: str, **request: Any) -> Answer:
        """Sends a DELETE."""
        return self.request("DELETE", url, **request)

    def request(
        self,
        method: str,
        url: str,
        query_params: Any = None,
        headers: dict[str, str] | None = None,
        body: Any = None,
        post_params: Any = None,
        attempts: int = ATTEMPTS,
        **_options: Any,
    ) -> Answer:
        """Sends a request, retries it if it is idempotent, and returns a successful answer.

        Raises:
            ApiError: any other answer, or none. After a Transient with `may_have_happened`, look the object up before
                sending again.
        """
        path = url[len(self.host) :]
        sent = {name: value for name, value in (headers or {}).items() if name.lower() != "content-type"}
        content: dict[str, Any] = {"params": query_params or None}
        if post_params:
            content["files"] = dict(post_params)
        elif body is not None:
            content["content"], sent["Content-Type"] = json.dumps(body), "application/json"
        is_repeatable = method != "POST" or bool(_REPEATABLE.search(path))
        for attempt in range(attempts):
            try:
                token = self._credentials.header(self._environ)
                return self._once(method, path, {**content, "headers": {**sent, **token}})
            except Transient as error:
                if attempt == attempts - 1 or (error.may_have_happened and not is_repeatable):
                    raise
                self._sleep(BACKOFF.wait_s(attempt, error.wait_s))
        raise AssertionError("unreachable")

    def _once(self, method: str, path: str, content: dict[str, Any]) -> Answer:
        try:
            response = self._client.request(method, f"{self.host}{path}", **content)
        except httpx.HTTPError as error:
            raise _of_failure(self.host, method, path, error) from None
        if not response.is_success:
            text = response.headers.get("Location", "") if response.is_redirect else _said(response)
            raise of_answer(self.host, method, path, response.status_code, short(text), _retry_after(response))
        if response.content.lstrip()[:1] not in (b"{", b""):
            raise ApiError(
                f"--host: answers {path} with a web page, not as the API does (got {self.host}); it may be "
                f"another service, need another path (often https://NAME/pipeline), or need a log-in: {LOGIN}"
            )
        return Answer(response)


def _of_failure(host: str, method: str, path: str, error: httpx.HTTPError) -> ApiError:
    """Returns the error for a request without an answer."""
    tls = _cause(error, ssl.SSLError)
    if isinstance(tls, ssl.SSLCertVerificationError):
        return ApiError(
            f"--host: its certificate is not trusted (got {host}: {tls.verify_message}); "
            "give the certificate of the authority that signed it with --ca-cert"
        )
    if tls is not None:
        return ApiError(f"--host: does not answer in TLS (got {host}: {tls.reason}); try http://")
    text = short(str(error)) or type(error).__name__
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout):
        return Transient(
            f"--host: cannot be reached (got {host}: {text}); check the address, and that this machine is in the "
            "cluster or has a port-forward to it (kubectl port-forward -n kubeflow svc/ml-pipeline 8888:8888)",
            may_have_happened=False,
        )
    if isinstance(error, httpx.TimeoutException):
        return Transient(f"--host: does not answer {method} {path} in time (got {host})", may_have_happened=True)
    if isinstance(error, httpx.TransportError):
        return Transient(
            f"--host: lost the connection during {method} {path} (got {host}: {text})", may_have_happened=True
        )
    return ApiError(f"--host: cannot be sent a request for {path} (got {host}: {text}); check the address")


def _cause(error: BaseException, kind: type[ssl.SSLError]) -> ssl.SSLError | None:
    at: BaseException | None = error
    while at is not None:
        if isinstance(at, kind):
            return at
        at = at.__cause__ or at.__context__
    return None


def _said(response: httpx.Response) -> str:
    """Returns the server's message: the gateway's (message), an upload's (error_message), or the whole text."""
    try:
        document = response.json()
    except ValueError:
        is_page = "html" in response.headers.get("Content-Type", "")
        return "a web page" if is_page else response.text
    if isinstance(document, dict):
        for name in ("error_message", "message", "error"):
            if isinstance(document.get(name), str):
                return str(document[name])
    return response.text


def _retry_after(response: httpx.Response) -> float | None:
    return retry_after_s(response.headers.get("Retry-After", ""), utc_now())
