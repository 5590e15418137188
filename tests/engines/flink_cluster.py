"""A Flink session cluster on loopback, from the PyPI package of Flink's libraries: a JobManager and a TaskManager.

Flink's own shell scripts, not in that package, compute the memory of a TaskManager; here it is given outright.
"""

import hashlib
import json
import os
import subprocess
import sys
import tarfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.engines.servers import free_port
from tests.paths import REPOSITORY

PACKAGE = "apache-flink-libraries"
VERSION = "1.19.3"
SHA256 = "4a58e3a1fb7d83340bc96b6c080624c6d792d69fae5d294b96224775204a9c60"
_START_S = 120.0
# What Flink opens to itself on Java 17 (env.java.opts.all of its own configuration).
_OPENS = [
    "java.base/java.lang", "java.base/java.lang.invoke", "java.base/java.lang.reflect", "java.base/java.net",
    "java.base/java.io", "java.base/java.nio", "java.base/sun.nio.ch", "java.base/java.text", "java.base/java.time",
    "java.base/java.util", "java.base/java.util.concurrent", "java.base/java.util.concurrent.atomic",
    "java.base/java.util.concurrent.locks",
]  # fmt: skip
# Where no script computes them, all of them must be set, or a TaskManager ends with IllegalArgumentException.
_TASKMANAGER_MB = {
    "framework.heap.size": 128, "task.heap.size": 512, "framework.off-heap.size": 128, "task.off-heap.size": 0,
    "managed.size": 256, "jvm-metaspace.size": 256, "jvm-overhead.min": 128, "jvm-overhead.max": 128,
}  # fmt: skip
_MAIN = "org.apache.flink.runtime."
_LOGGING = """rootLogger.level=INFO
rootLogger.appenderRef.out.ref=out
appender.out.name=out
appender.out.type=CONSOLE
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=%d{HH:mm:ss} %-5p %c{1} - %m%n
"""


def libraries() -> Path:
    """Returns the folder of Flink's jars, after fetching the package once: 230 MB, compared with its sha256."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sangam" / "flink" / VERSION
    if not cache.exists():
        unfinished = cache.with_suffix(".unfinished")
        unfinished.mkdir(parents=True, exist_ok=True)
        pip = [f"{sys.base_prefix}/bin/python3", "-m", "pip", "download", "--no-deps", "--no-binary", ":all:"]
        subprocess.run([*pip, "--no-build-isolation", "--dest", str(unfinished), f"{PACKAGE}=={VERSION}"], check=True)
        [archive] = unfinished.glob("*.tar.gz")
        assert hashlib.sha256(archive.read_bytes()).hexdigest() == SHA256, archive
        with tarfile.open(archive) as file:
            for member in file:
                name = Path(member.name).name
                if "/deps/lib/" in member.name and name.startswith(("flink-dist", "log4j")):
                    member.name = name
                    file.extract(member, unfinished, set_attrs=False)
        archive.unlink()
        unfinished.rename(cache)
    return cache


@contextmanager
def flink_cluster(work: Path) -> Iterator[str]:
    """Runs a cluster; yields host:port of its REST service. Its logs are in the folder."""
    (work / "tmp").mkdir(parents=True)
    port = free_port()
    (work / "config.yaml").write_text("".join(f"{key}: {value}\n" for key, value in _settings(work, port).items()))
    (work / "log4j.properties").write_text(_LOGGING)
    with ExitStack() as stack:
        jobmanager = stack.enter_context(_java(work, f"{_MAIN}entrypoint.StandaloneSessionClusterEntrypoint", "512m"))
        stack.enter_context(_java(work, f"{_MAIN}taskexecutor.TaskManagerRunner", "640m"))
        deadline = time.monotonic() + _START_S
        while _overview(port).get("taskmanagers") != 1:
            assert jobmanager.poll() is None, f"see {work}"
            assert time.monotonic() < deadline, f"see {work}"
            time.sleep(0.5)
        yield f"localhost:{port}"


def states(master: str) -> dict[str, str]:
    """Returns the state of each job by its id."""
    with urllib.request.urlopen(f"http://{master}/jobs", timeout=10) as answer:
        return {job["id"]: job["status"] for job in json.load(answer)["jobs"]}


def _settings(work: Path, port: int) -> dict[str, Any]:
    """Returns the configuration: that of the shipped manifest, on loopback."""
    [shipped] = yaml.safe_load_all((REPOSITORY / "infra" / "kubernetes" / "flink" / "flink.yaml").read_text())
    of_manifest = shipped["spec"]["flinkConfiguration"]
    hosts = {
        f"{name}": "localhost"
        for name in (
            "jobmanager.rpc.address", "jobmanager.bind-host", "taskmanager.bind-host", "taskmanager.host",
            "rest.address", "rest.bind-address",
        )
    }  # fmt: skip
    return {
        **{key: value.replace("256mb", "256m") for key, value in of_manifest.items()},
        **hosts,
        "jobmanager.rpc.port": free_port(),
        "rest.port": port,
        "io.tmp.dirs": f"{work}/tmp",
        "taskmanager.cpu.cores": 1.0,
        **{f"taskmanager.memory.{part}": f"{mb}m" for part, mb in _TASKMANAGER_MB.items()},
    }


@contextmanager
def _java(work: Path, main_class: str, heap: str) -> Iterator["subprocess.Popen[bytes]"]:
    command = ["java", f"-Xmx{heap}", "-XX:MaxMetaspaceSize=256m", "--add-exports=java.base/sun.net.util=ALL-UNNAMED"]
    command += [f"--add-opens={package}=ALL-UNNAMED" for package in _OPENS]
    command += [f"-Dlog4j.configurationFile={work}/log4j.properties", "-cp", f"{libraries()}/*"]
    with (work / f"{main_class.rpartition('.')[2]}.log").open("wb") as log:
        process = subprocess.Popen([*command, main_class, "--configDir", str(work)], stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(30)


def _overview(port: int) -> dict[str, Any]:
    try:
        with urllib.request.urlopen(f"http://localhost:{port}/overview", timeout=5) as answer:
            found: dict[str, Any] = json.load(answer)
            return found
    except OSError:
        return {}
