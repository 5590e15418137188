"""What goes wrong at 3 a.m.: each fault is one clear line, is tried again where it is safe, and does nothing twice."""

import datetime
import ipaddress
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from sangam.pipelines.deploy.api import Api
from sangam.pipelines.deploy.connection import Connection, check_host, connect
from sangam.pipelines.deploy.errors import ApiError, Transient
from sangam.pipelines.deploy.transport import ATTEMPTS, Credentials, Transport
from sangam.schemas.errors import UserError
from tests.errors import place_and_value
from tests.fakes.kfp_api import Fault, KfpServer
from tests.fakes.kfp_store import Store
from tests.pipelines.deploy.sample_server import NOON, OTHER_IMAGE, World

pytestmark = pytest.mark.slow

MAKING = ("/pipelines$", "/pipelines/upload_version", "/experiments$", "/recurringruns$")


def test_a_server_that_is_there_is_taken(world: World) -> None:
    with connect(Connection(world.server.host)) as api:
        assert api.find_pipeline("short-video") is None


@pytest.mark.parametrize("path", MAKING)
@pytest.mark.parametrize("is_handled", [True, False], ids=["done", "not done"])
@pytest.mark.parametrize("status", [None, 500, 502, 409])
def test_what_was_not_answered_is_made_once(world: World, path: str, is_handled: bool, status: int | None) -> None:
    world.server.faults = [Fault("POST", path, status=status, is_handled=is_handled)]
    assert world.deploy()
    assert [len(records) for records in (world.store.pipelines, world.store.versions)] == [1, 1]
    assert [len(records) for records in (world.store.experiments, world.store.recurring)] == [1, 1]
    assert world.server.count(f"POST .*{path}") == (1 if is_handled else 2)
    assert not world.deploy()


@pytest.mark.parametrize("path", [*MAKING, ":enable$"])
def test_an_answer_that_takes_too_long_is_looked_for(world: World, path: str) -> None:
    late = Fault("POST", path, status=200, is_handled=True, gate=threading.Event())
    world.server.faults = [late]

    def come() -> None:
        assert late.gate
        late.gate.set()
        assert late.handled.wait(60)

    world.whenever = come
    assert world.deploy(answer_timeout_s=0.5)
    assert [len(records) for records in (world.store.pipelines, world.store.versions)] == [1, 1]
    assert [len(records) for records in (world.store.experiments, world.store.recurring)] == [1, 1]


def test_a_schedule_that_comes_later_than_all_patience_starts_nothing_and_is_deleted(world: World) -> None:
    """It was asked for twice, then: but what is made is disabled, and only one of the two was enabled."""
    gate = threading.Event()
    late = Fault("POST", "/recurringruns$", status=200, is_handled=True, gate=gate)
    world.server.faults = [late]
    world.deploy(answer_timeout_s=0.5)
    gate.set()
    assert late.handled.wait(60)
    assert (len(world.store.recurring), len(world.enabled())) == (2, 1)
    assert not world.deploy()
    assert (len(world.store.recurring), len(world.enabled())) == (1, 1)


@pytest.mark.parametrize("status", [None, 500, 503])
def test_what_may_be_repeated_is_repeated(world: World, status: int | None) -> None:
    world.deploy()
    world.server.faults = [
        Fault("GET", "/recurringruns", status=status),
        Fault("POST", ":disable", status=status, is_handled=True),
        Fault("POST", ":enable", status=status, is_handled=True),
        Fault("DELETE", "/recurringruns/", status=status, is_handled=True),
    ]
    assert world.deploy(image=OTHER_IMAGE)
    assert len(world.store.recurring) == len(world.enabled()) == 1


def test_waits_grow_and_end(world: World) -> None:
    world.server.faults = [Fault("GET", "/pipelines/names", status=503, times=99)]
    with pytest.raises(
        Transient, match=place_and_value("--host", "GET /apis/v2beta1/pipelines/names/short-video ... 503: the data")
    ):
        world.deploy()
    assert len(world.slept) == ATTEMPTS - 1
    assert world.slept == sorted(world.slept)
    assert sum(world.slept) < 30


def test_a_busy_server_is_left_alone_as_long_as_it_asks_for(world: World) -> None:
    world.server.faults = [
        Fault("POST", "/pipelines$", status=429, headers={"Retry-After": "17"}),
        Fault("GET", "/recurringruns", status=429, headers={"Retry-After": "Thu, 07 Mar 2024 12:00:00 GMT"}),
        Fault("GET", "/experiments", status=429, headers={"Retry-After": "86400"}),
    ]
    assert world.deploy()
    assert world.slept == [17.0, 60.0, 0.0]


def test_a_server_that_stays_busy_is_said(world: World) -> None:
    world.server.faults = [Fault("GET", "/pipelines/names", status=429, times=99, body="slow down")]
    with pytest.raises(ApiError, match=place_and_value("--host", "(got http ... , 429: slow down)")):
        world.deploy()


def test_a_mistake_is_not_repeated(world: World) -> None:
    world.server.faults = [Fault("POST", "/upload_version", status=400, body='{"error_message": "invalid spec"}')]
    with pytest.raises(
        ApiError, match=place_and_value("--host", "POST /apis/v2beta1/pipelines/upload_version ... 400: invalid")
    ):
        world.deploy()
    assert world.slept == []


def test_nobody_there() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        host = f"http://127.0.0.1:{taken.getsockname()[1]}"
        slept: list[float] = []
        transport = Transport(host, Credentials(), {}, sleep=slept.append)
        with pytest.raises(ApiError, match=place_and_value("--host", "(got ... Connection refused) ... port-forward")):
            Api(transport, "", slept.append).check()
        assert 0 < sum(slept) < 5


def test_a_name_that_nobody_has() -> None:
    transport = Transport("http://nowhere.invalid", Credentials(), {}, sleep=lambda s: None)
    with pytest.raises(ApiError, match=place_and_value("--host", "(got http://nowhere.invalid:")):
        Api(transport, "", lambda s: None).check()


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        (
            Fault("GET", "healthz", status=302, headers={"Location": "/dex/auth"}),
            "/dex/auth",
        ),
        (Fault("GET", "healthz", status=200, body="<html>Sign in</html>"), "web page"),
        (Fault("GET", "healthz", status=403, body="RBAC: access denied"), "RBAC: access denied"),
    ],
)
def test_what_stands_before_the_server(world: World, fault: Fault, text: str) -> None:
    world.server.faults = [fault]
    with pytest.raises(ApiError, match=place_and_value("--host", text)), connect(Connection(world.server.host)):
        pass


@pytest.mark.parametrize(
    ("api", "text"),
    [
        ("v1beta1", "Kubeflow Pipelines v1 (got ... 2.0"),
        ("other", "Kubeflow Pipelines v2 ... ml-pipeline"),
    ],
)
def test_another_kind_of_server(api: str, text: str) -> None:
    with (
        KfpServer(Store(lambda: NOON), api=api) as server,
        pytest.raises(ApiError, match=place_and_value("--host", text)),
        connect(Connection(server.host)),
    ):
        pass


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("POST .*/recurringruns$", "create jobs"),
        ("POST .*:enable", "enable jobs"),
        ("GET .*/recurringruns", "list jobs"),
        ("POST .*/upload_version", "create pipelines"),
        ("GET .*/names/", "get pipelines"),
        ("GET .*/versions", "list pipelines"),
        ("POST .*/experiments", "create experiments"),
    ],
)
def test_a_permission_that_is_missing_is_named(world: World, pattern: str, text: str) -> None:
    world.server.forbidden = pattern
    with pytest.raises(ApiError, match=place_and_value("--host", f"{text} (got ... User 'eve' is not authorized")):
        world.deploy()


def test_several_users_need_a_namespace_and_one_user_none(world: World) -> None:
    with pytest.raises(UserError, match=r"--namespace: has no effect"), connect(Connection(world.server.host, "team")):
        pass
    world.store.multi_user = True
    with pytest.raises(UserError, match=r"--namespace: is missing"), connect(Connection(world.server.host)):
        pass
    with connect(Connection(world.server.host, "team")) as api:
        pipeline, is_new = api.make_pipeline("short-video", "")
    assert is_new
    assert world.store.pipelines[pipeline.id]["namespace"] == "team"


def test_a_token_is_sent_read_again_and_never_said(world: World, tmp_path: Path, capfd: pytest.CaptureFixture) -> None:
    file = tmp_path / "token"
    file.write_text("first-secret\n")
    world.server.token = "first-secret"
    with connect(Connection(world.server.host, token_file=file)) as api:
        api.find_pipeline("a")
        world.server.token = "second-secret"
        with pytest.raises(ApiError, match=place_and_value("--host", "--audience pipelines")) as refused:
            api.find_pipeline("a")
        file.write_text("second-secret\n")
        api.find_pipeline("a")
    output = "".join(capfd.readouterr()) + str(refused.value)
    assert "secret" not in output


@pytest.mark.parametrize(
    ("connection", "place", "value"),
    [
        ({"token_env": "NO_SUCH"}, "--token-env", "(got variable NO_SUCH, 0 characters)"),
        ({"token_file": Path("/no/such")}, "--token-file", "(got /no/such: No such file"),
        ({"token_env": "A", "token_file": Path("b")}, "--token-env", "--token-file"),
        ({"namespace": "Team A"}, "--namespace", "(got 'Team A')"),
        ({"ca_cert": Path("/no/such")}, "--ca-cert", "http://"),
    ],
)
def test_options_that_cannot_be(world: World, connection: dict[str, object], place: str, value: str) -> None:
    with (
        pytest.raises(UserError, match=place_and_value(place, value)),
        connect(Connection(world.server.host, **connection)),
    ):  # type: ignore[arg-type]
        pass


@pytest.mark.parametrize("host", ["", "kubeflow", "ftp://a", "http://", "http://a b", "http://a?x=1", "http://a:x"])
def test_addresses_that_are_none(host: str) -> None:
    with pytest.raises(UserError, match=place_and_value("--host", f"(got {host!r})")):
        check_host(host)


def test_an_address_holds_no_password() -> None:
    with pytest.raises(UserError, match=place_and_value("--host", "password")) as refused:
        check_host("https://me:hunter2@kubeflow.example")
    assert "hunter2" not in str(refused.value)
    assert check_host("https://kubeflow.example/pipeline/") == "https://kubeflow.example/pipeline"


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate for 127.0.0.1 that nobody but itself has signed, and its key, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    now = datetime.datetime.now(datetime.UTC)
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(address, critical=False)
        .sign(key, hashes.SHA256())
    )
    file = tmp_path / "certificate.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file.write_bytes(made.public_bytes(serialization.Encoding.PEM) + private)
    return file


@pytest.fixture
def tls_host(certificate: Path) -> Iterator[str]:
    server = KfpServer(Store(lambda: NOON))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    with server:
        yield server.host.replace("http:", "https:")


def test_a_certificate_that_nobody_has_signed(tls_host: str, certificate: Path) -> None:
    with (
        pytest.raises(ApiError, match=place_and_value("--host", "(got ... self ... signed ... --ca-cert")),
        connect(Connection(tls_host)),
    ):
        pass
    with connect(Connection(tls_host, ca_cert=certificate)) as api:
        assert api.find_pipeline("a") is None


def test_https_where_there_is_none(world: World) -> None:
    host = world.server.host.replace("http:", "https:")
    with pytest.raises(ApiError, match=place_and_value("--host", "TLS ... http://")), connect(Connection(host)):
        pass


def test_a_certificate_file_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "empty.pem").write_text("")
    with (
        pytest.raises(UserError, match=place_and_value("--ca-cert", "(got ... empty.pem")),
        connect(Connection("https://127.0.0.1:1", ca_cert=tmp_path / "empty.pem")),
    ):
        pass


def test_a_connection_that_is_cut_in_the_middle_of_an_answer() -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(8)

        def serve() -> None:
            for _ in range(3):
                connection, _address = listening.accept()
                connection.recv(65536)
                connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"multi')
                connection.close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        host = f"http://127.0.0.1:{listening.getsockname()[1]}"
        transport = Transport(host, Credentials(), {}, sleep=lambda s: None)
        with pytest.raises(ApiError, match=place_and_value("--host", "lost ... GET /apis/v2beta1/healthz")):
            Api(transport, "", lambda s: None).check()
        thread.join(60)
