"""A job of several hosts, whoever is killed. Ranks and export are stand-ins: `test_cluster_training` has real ones."""

import http.client
import json
import signal
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from sangam.schemas.contracts.exit_codes import ExitCode
from sangam.schemas.contracts.training_job import read_job
from sangam.trainer_module.launch.attempts import conclude
from sangam.trainer_module.launch.deadline import Deadline
from sangam.trainer_module.launch.lost import Losses
from tests.errors import mentions, tells
from tests.trainer_module.launch.cluster_job import ClusterJob, Place, processes_of
from tests.trainer_module.launch.fake_hosts import end_training
from tests.trainer_module.launch.launched_job import failure, wait_until
from tests.trainer_module.launch.memory_limits import NoCgroupError, limited
from tests.trainer_module.sample_job import declared, write_job

pytestmark = pytest.mark.processes

# More than the check of a machine asks for, so that the host starts.
_LIMIT = 1 << 30


def _job(folder: Path, **changes: object) -> Path:
    return write_job(folder, declared(**{"ranks": 2, **changes}), ())


def _train(job: ClusterJob, but: tuple[int, ...] = ()) -> tuple[int, ...]:
    """Waits until ranks other than these run; returns their process ids."""

    def pids() -> tuple[int, ...]:
        ranks = [job.rank(rank) for rank in (0, 1)]
        return tuple(rank.pid for rank in ranks if rank is not None and rank.pid not in but)

    wait_until(lambda: len(pids()) == 2, 60, "two ranks run")
    return pids()


def _server(job: ClusterJob, number: int) -> psutil.Process:
    # Hosts start ranks and servers at the same time: on a busy machine the ranks may run first.
    wait_until(lambda: job.server(number) is not None, 60, f"server {number} runs")
    server = job.server(number)
    assert server
    return server


def _end(job: ClusterJob) -> None:
    (job.job_file.parent / "trained").touch()


def _retries(job: ClusterJob) -> list[str]:
    """Returns why each attempt but the last has ended."""
    lines = map(json.loads, read_job(job.job_file).progress_file.read_text().splitlines())
    return [line["reason"] for line in lines if "retry" in line]


def _unexpected(attempt: int, deadline: Deadline) -> None:
    raise AssertionError("it is trained")


def _nothing_runs(job: ClusterJob) -> Callable[[], bool]:
    return lambda: not processes_of(job.job_file)


@pytest.mark.long
def test_a_job_ends_well_and_soon_though_each_of_its_processes_is_killed_once(tmp_path: Path) -> None:
    """Nobody waits until a silent host has ended its ranks: the kernel of a killed one closes its lifeline."""
    with ClusterJob(_job(tmp_path, retries=3), hosts=2, lost_after_s=600) as job:
        hosts = [job.host(0), job.host(1)]  # They wait for their coordinator.
        first = job.coordinator()
        ranks = _train(job)
        killed = job.rank(1)
        assert killed
        killed.kill()
        ranks = _train(job, but=ranks)
        first.kill()
        first.wait()
        second = job.coordinator()
        ranks = _train(job, but=ranks)
        hosts[1].kill()
        wait_until(lambda: job.rank(1) is None, 60, "the ranks of a host end with it")
        hosts[1].wait()
        hosts[1] = job.host(1)
        _train(job, but=ranks)
        _end(job)
        assert [process.wait(60) for process in (second, *hosts)] == [0, 0, 0]
        killed_rank, coordinator, killed_host = _retries(job)
        assert mentions(killed_rank, f"training: rank-1 on host 1 ... SIGKILL ... {tmp_path}/logs/rank-1.log")
        assert mentions(coordinator, "training: ... coordinator")
        assert mentions(killed_host, "training: host 1 ended")
        assert "[rank-1] start rank=1" in job.log("host-1")
        assert Path(read_job(job.job_file).model_dir).is_dir()
        assert processes_of(job.job_file) == []
        # Started once more, all is done already.
        assert job.coordinator().wait(60) == 0


@pytest.mark.long
def test_a_lost_parameter_server_ends_the_attempt_and_all_begin_again(tmp_path: Path) -> None:
    """Whether the server is killed, leaves before the ranks are done, or goes with its host. Ranks need all of them."""
    job_file = _job(tmp_path, sync={"kind": "stale"}, parameter_servers=2, retries=3)
    with ClusterJob(job_file, hosts=2, servers=2, lost_after_s=600) as job:
        hosts = [job.host(index) for index in range(4)]
        coordinator = job.coordinator()
        ranks = _train(job)
        _server(job, 1).kill()
        ranks = _train(job, but=ranks)
        (tmp_path / "leaves").write_text("parameter-server-0")
        ranks = _train(job, but=ranks)
        hosts[2].kill()
        wait_until(lambda: job.server(0) is None, 60, "a server ends with its host")
        hosts[2].wait()
        hosts[2] = job.host(2)
        _train(job, but=ranks)
        _end(job)
        assert [process.wait(60) for process in (coordinator, *hosts)] == [0] * 5
        killed, left, lost = _retries(job)
        assert mentions(killed, f"training: parameter-server-1 ... SIGKILL ... {tmp_path}/logs/parameter-server-1.log")
        assert mentions(left, "training: parameter-server-0 ended with code 0")
        assert mentions(lost, "training: parameter server 0 ended without a word")
        assert "[parameter-server-1] start server=1" in job.log("host-3")
        assert processes_of(job.job_file) == []


@pytest.mark.long
def test_a_stopped_host_of_a_server_says_so_and_the_job_waits_for_its_replacement(tmp_path: Path) -> None:
    with ClusterJob(_job(tmp_path, sync={"kind": "async"}), hosts=1, servers=1, lost_after_s=600) as job:
        coordinator, staying, leaving = job.coordinator(), job.host(0), job.host(1)
        ranks = _train(job)
        leaving.terminate()
        assert leaving.wait(60) == ExitCode.TERMINATED
        wait_until(lambda: "waiting for parameter server 0" in job.log(), 60, "the coordinator waits")
        assert (job.rank(0), job.server(0)) == (None, None)
        replacement = job.host(1)
        _train(job, but=ranks)
        _end(job)
        assert [process.wait(60) for process in (coordinator, staying, replacement)] == [0, 0, 0]
        [ended] = _retries(job)
        assert tells(ended, "training", "parameter server 0 ... SIGTERM")


def test_a_model_without_its_report_is_what_a_killed_export_has_left_and_is_written_anew(tmp_path: Path) -> None:
    job_file = _job(tmp_path)
    job = read_job(job_file)
    end_training(job)
    Path(job.model_dir).mkdir()
    export = "tests.trainer_module.launch.fake_export"
    assert conclude(job_file, job, Losses(job), _unexpected, leader="coordinator", export_module=export) == 0
    assert job.export_file.exists()
    job.export_file.write_text("of the first")
    assert conclude(job_file, job, Losses(job), _unexpected, leader="coordinator", export_module=export) == 0
    assert job.export_file.read_text() == "of the first"


def test_an_export_that_fails_fails_the_job_and_is_told(tmp_path: Path) -> None:
    job_file = _job(tmp_path)
    job = read_job(job_file)
    end_training(job)
    missing = "tests.trainer_module.launch.no_such_export"
    code = conclude(job_file, job, Losses(job), _unexpected, leader="coordinator", export_module=missing)
    assert code == ExitCode.FAILED
    assert tells(failure(job_file), "training", "export ended with code 1")


@pytest.mark.long
def test_a_host_that_is_asked_to_end_says_so_and_the_job_waits_for_its_replacement(tmp_path: Path) -> None:
    with ClusterJob(_job(tmp_path), hosts=2, lost_after_s=600) as job:
        coordinator, staying, leaving = job.coordinator(), job.host(0), job.host(1)
        ranks = _train(job)
        leaving.terminate()
        assert leaving.wait(60) == ExitCode.TERMINATED
        wait_until(lambda: "waiting for host 1" in job.log(), 60, "the coordinator waits")
        assert job.rank(0) is None
        replacement = job.host(1)
        _train(job, but=ranks)
        _end(job)
        assert [process.wait(60) for process in (coordinator, staying, replacement)] == [0, 0, 0]
        [ended] = _retries(job)
        assert tells(ended, "training", "host 1 ... SIGTERM")


@pytest.mark.long
def test_without_retries_a_killed_rank_fails_the_job_with_host_rank_and_log(tmp_path: Path) -> None:
    with ClusterJob(_job(tmp_path, retries=0), hosts=2) as job:
        coordinator, hosts = job.coordinator(), [job.host(0), job.host(1)]
        _train(job)
        killed = job.rank(1)
        assert killed
        wait_until(lambda: "start rank=1" in job.log("logs/rank-1"), 60, "the rank has spoken")
        killed.kill()
        assert [process.wait(60) for process in (coordinator, *hosts)] == [1, 1, 1]
        assert tells(failure(job.job_file), "training", "rank-1 on host 1 ... SIGKILL")
        assert failure(job.job_file).endswith("\nstart rank=1")
        assert processes_of(job.job_file) == []


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "called", "section"),
    [("rank-1", "rank-1 on host 1", "host"), ("parameter-server-0", "parameter-server-0", "parameter_server")],
)
def test_a_process_that_the_kernel_kills_at_its_limit_of_memory_fails_the_job_at_once_and_says_so(
    tmp_path: Path, name: str, called: str, section: str
) -> None:
    """Only that process dies: its host lives, and the limit would be the same for another attempt."""
    job_file = _job(tmp_path, sync={"kind": "stale"}, retries=3)
    try:
        with limited(_LIMIT) as small:
            usual = Place(("env",))  # New programs, as the one with the limit.
            places = [usual, small, usual] if name == "rank-1" else [usual, usual, small]
            with ClusterJob(job_file, hosts=2, servers=1, places=places, lost_after_s=600) as job:
                coordinator, hosts = job.coordinator(), [job.host(0), job.host(1), job.host(2)]
                _train(job)
                (tmp_path / "hungry").write_text(name)
                assert [process.wait(60) for process in (coordinator, *hosts)] == [1, 1, 1, 1]
                [text] = failure(job.job_file).splitlines()
                said = f"{called} ... memory (got 1.07 GB); ... cluster.launcher.{section}.memory ... sangam plan"
                assert tells(text, "training", said)
                assert "retry=" not in job.log()
    except NoCgroupError as error:
        pytest.skip(f"needs the right to make a memory cgroup: {error}")


@pytest.mark.long
def test_one_loss_too_many_is_one_clear_error_nothing_runs_and_the_same_commands_go_on(tmp_path: Path) -> None:
    with ClusterJob(_job(tmp_path, retries=2), hosts=1, lost_after_s=600) as job:
        processes = [job.coordinator(), job.host(0)]
        ranks: tuple[int, ...] = ()
        for _ in range(3):
            ranks = _train(job, but=ranks)
            killed = job.rank(1)
            assert killed
            killed.kill()
        assert [process.wait(60) for process in processes] == [1, 1]
        first, second, *_ = failure(job.job_file).splitlines()
        assert mentions(first, "training: rank 1 on host 0 ... signal 9 ... 2 ... cluster.retries ... the beginning")
        assert mentions(second, "training: rank-1 on host 0 ... SIGKILL")
        assert len(_retries(job)) == 2
        assert processes_of(job.job_file) == []
        processes = [job.coordinator(), job.host(0)]
        _train(job, but=ranks)
        _end(job)
        assert [process.wait(60) for process in processes] == [0, 0]
        assert processes_of(job.job_file) == []


def test_a_mistake_fails_the_job_at_once_with_its_text_alone(tmp_path: Path) -> None:
    with ClusterJob(_job(tmp_path), hosts=2) as job:
        (tmp_path / "mistake").write_text("tables.users: is wrong (got 1); 2")
        coordinator, hosts = job.coordinator(), [job.host(0), job.host(1)]
        assert [process.wait(60) for process in (coordinator, *hosts)] == [ExitCode.MISTAKE, 1, 1]
        assert failure(job.job_file) == "tables.users: is wrong (got 1); 2"
        assert processes_of(job.job_file) == []


def test_an_interface_that_a_host_has_not_is_a_mistake(tmp_path: Path) -> None:
    with ClusterJob(_job(tmp_path, ranks=1), hosts=1) as job:
        coordinator, host = job.coordinator(), job.host(0, interface="eth77")
        assert (coordinator.wait(60), host.wait(60)) == (ExitCode.MISTAKE, 1)
        assert tells(failure(job.job_file), "cluster.launcher.network_interface", "host 0 ... (got eth77)")


def test_an_interface_that_the_host_of_a_server_has_not_is_a_mistake(tmp_path: Path) -> None:
    with ClusterJob(_job(tmp_path, ranks=1, sync={"kind": "stale"}), hosts=1, servers=1) as job:
        processes = [job.coordinator(), job.host(0), job.host(1, interface="eth77")]
        assert [process.wait(60) for process in processes] == [ExitCode.MISTAKE, 1, 1]
        expected = "parameter server 0 ... (got eth77)"
        assert tells(failure(job.job_file), "cluster.launcher.network_interface", expected)
        assert processes_of(job.job_file) == []


def test_a_host_that_never_comes_fails_the_job_at_its_deadline_by_number(tmp_path: Path) -> None:
    with ClusterJob(_job(tmp_path, deadline_s=2, heartbeat_timeout_s=1), hosts=2) as job:
        coordinator, host = job.coordinator(), job.host(0)
        assert (coordinator.wait(60), host.wait(60)) == (1, 1)
        assert tells(failure(job.job_file), "training", "2 s ... host 1")


def test_a_stopped_coordinator_ends_all_ranks_and_the_hosts_wait_for_the_next_one(tmp_path: Path) -> None:
    with ClusterJob(_job(tmp_path), hosts=2, lost_after_s=600) as job:
        coordinator, hosts = job.coordinator(), [job.host(0), job.host(1, patience_s=2)]
        _train(job)
        coordinator.terminate()
        assert coordinator.wait(60) == ExitCode.TERMINATED
        assert (job.rank(0), job.rank(1)) == (None, None)
        assert hosts[1].wait(60) == 1
        assert hosts[0].poll() is None
        hosts[0].terminate()
        assert hosts[0].wait(60) == ExitCode.TERMINATED
        assert processes_of(job.job_file) == []


def test_a_silent_host_is_lost_and_a_host_without_a_coordinator_ends_its_ranks(tmp_path: Path) -> None:
    with ClusterJob(_job(tmp_path, retries=0), hosts=2, lost_after_s=4) as job:
        coordinator, hosts = job.coordinator(), [job.host(0), job.host(1)]
        _train(job)
        hosts[1].send_signal(signal.SIGSTOP)
        assert coordinator.wait(60) == 1
        assert mentions(failure(job.job_file), "training: host 1 ... heartbeat")
        assert hosts[0].wait(60) == 1
        assert job.rank(1) is not None
        hosts[1].send_signal(signal.SIGCONT)
        wait_until(lambda: job.rank(1) is None, 60, "the ranks of a host that nobody answers have ended")


def test_the_port_takes_no_message_that_is_not_a_hosts(tmp_path: Path) -> None:
    with ClusterJob(_job(tmp_path, ranks=1), hosts=1) as job:
        coordinator = job.coordinator()
        wait_until(lambda: "waiting for host 0" in (job.log() if coordinator.poll() is None else ""), 60, "it serves")

        def status(method: str, path: str, body: bytes = b"", **headers: str) -> int:
            connection = http.client.HTTPConnection("127.0.0.1", job.port, timeout=60)
            connection.request(method, path, body, headers)
            return connection.getresponse().status

        beat = {"index": 0, "incarnation": "a1"}
        assert status("POST", "/host", json.dumps(beat).encode()) == 200
        assert status("POST", "/host", json.dumps({**beat, "more": 1}).encode()) == 400
        assert status("POST", "/host", json.dumps({**beat, "incarnation": "../a"}).encode()) == 400
        assert status("POST", "/host", b"\x80\x04.") == 400
        assert status("POST", "/host", b"", **{"Content-Length": str(10**9)}) == 400
        assert status("POST", "/lifeline", b"{}") == 400
        assert status("POST", "/elsewhere", b"{}") == 400
        assert status("PUT", "/global/0", b"", **{"Content-Length": str(10**9)}) == 400
        assert status("PUT", "/made-up/0", b"x") == 400
        assert status("GET", "/global/0/1/2") == 400
        assert status("HEAD", "/") == 405
        assert coordinator.poll() is None
