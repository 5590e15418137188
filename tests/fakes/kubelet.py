"""A kubelet that runs the containers of pods as processes of this machine, with their own commands.

What differs from a node: all pods share one network, so every name of a Service and its port becomes a port of this
machine, the same for the same name; a volume is its own path; the root file system and the user are this machine's.
"""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import psutil

from tests.fakes.kubernetes_controllers import finish, running, set_status
from tests.fakes.kubernetes_store import Object, Store
from tests.paths import REPOSITORY

_INHERITED = ("LD_LIBRARY_PATH", "PATH", "VIRTUAL_ENV")
_GRACE_S = 5.0
_OWN_FOLDERS = {"/tmp", "/dev/shm"}


class ProcessKubelet:
    """Starts, watches and ends pods."""

    def __init__(self, store: Store, folder: Path, secrets: dict[tuple[str, str], str] | None = None):
        self._store, self._folder, self._secrets = store, folder, secrets or {}
        self._store.holds_pods = True
        self._ports: dict[tuple[str, int], int] = {}
        self._processes: dict[str, subprocess.Popen[str]] = {}
        self._stopping: set[str] = set()
        self.commands: dict[str, list[str]] = {}

    def start(self, pod: Object) -> None:
        """Starts a pod's container; the pod ends with it, or starts it again, as its policy says."""
        threading.Thread(target=self._run, args=(pod,), name=pod["metadata"]["name"], daemon=True).start()

    def stop(self, pod: Object) -> None:
        uid = pod["metadata"]["uid"]
        if uid not in self._stopping:
            self._stopping.add(uid)
            threading.Thread(target=self._end, args=(pod,), daemon=True).start()

    def lose(self, name: str) -> None:
        """Takes the node from under a pod: its processes are killed, and the pod is no more."""
        pod = self._store.get("pods", name)
        assert pod is not None, name
        self._stopping.add(pod["metadata"]["uid"])
        kill_all(self._processes[pod["metadata"]["uid"]].pid)
        self._store.remove("pods", name)

    def alive(self) -> list[int]:
        """Returns the processes that are left of all pods there ever were."""
        return [process.pid for process in self._processes.values() if process.poll() is None]

    def close(self) -> None:
        """Kills whatever is left."""
        for process in self._processes.values():
            kill_all(process.pid)

    def _run(self, pod: Object) -> None:
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        policy = pod["spec"].get("restartPolicy", "Always")
        while uid not in self._stopping:
            process = self._started(pod)
            set_status(self._store, name, running())
            assert process.stdout is not None
            for line in process.stdout:
                self._store.log(name, line.rstrip("\n"))
            code = process.wait()
            code = 128 - code if code < 0 else code
            if uid in self._stopping:
                return
            if policy == "Never" or (policy == "OnFailure" and code == 0):
                finish(self._store, name, code)
                return
            time.sleep(0.5)

    def _started(self, pod: Object) -> "subprocess.Popen[str]":
        [container] = pod["spec"]["containers"]
        scratch = self._scratch(pod, container)
        environment = self._environment(pod, container)
        command = [*container.get("command", []), *container.get("args", [])]
        command = [self._located(expanded(part, environment), pod, scratch) for part in command]
        self.commands[pod["metadata"]["name"]] = command
        process = subprocess.Popen(
            [sys.executable if command[0] == "python" else command[0], *command[1:]],
            cwd=REPOSITORY,
            env={
                **{key: os.environ[key] for key in _INHERITED if key in os.environ},
                **environment,
                "PYTHONPATH": str(REPOSITORY),
                "TF_CPP_MIN_LOG_LEVEL": "2",
                "CUDA_VISIBLE_DEVICES": "",
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._processes[pod["metadata"]["uid"]] = process
        return process

    def _environment(self, pod: Object, container: Object) -> dict[str, str]:
        found: dict[str, str] = {}
        for each in container.get("env", []):
            source = each.get("valueFrom", {})
            if "fieldRef" in source:
                found[each["name"]] = field_of(pod, source["fieldRef"]["fieldPath"])
            elif "secretKeyRef" in source:
                found[each["name"]] = self._secrets[source["secretKeyRef"]["name"], source["secretKeyRef"]["key"]]
            else:
                found[each["name"]] = expanded(each.get("value", ""), found)
        return found

    def _scratch(self, pod: Object, container: Object) -> dict[str, str]:
        """Returns a folder of this machine for each emptyDir that is not one of the machine's own."""
        empty = {volume["name"] for volume in pod["spec"].get("volumes", []) if "emptyDir" in volume}
        mounts = [each for each in container.get("volumeMounts", []) if each["name"] in empty]
        return {
            each["mountPath"]: str(self._own_folder(pod, each["name"]))
            for each in mounts
            if each["mountPath"] not in _OWN_FOLDERS
        }

    def _own_folder(self, pod: Object, name: str) -> Path:
        folder = self._folder / pod["metadata"]["uid"] / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _located(self, part: str, pod: Object, scratch: dict[str, str]) -> str:
        """Returns a part of a command with names, ports and folders of this machine."""
        if part in scratch:
            return scratch[part]
        address = re.fullmatch(r"([a-z0-9.-]+):(\d+)", part)
        if address:
            return f"127.0.0.1:{self._port(address[1], int(address[2]))}"
        own = [each["containerPort"] for each in pod["spec"]["containers"][0].get("ports", [])]
        if part.isdigit() and int(part) in own:
            return str(self._port(self._name_of(pod), int(part)))
        return part

    def _name_of(self, pod: Object) -> str:
        """Returns the name by which others find a pod: of its own in a set of several, otherwise of its Service."""
        labels = pod["metadata"]["labels"]
        for service in self._store.list("services"):
            if service["spec"]["selector"].items() <= labels.items():
                service_name = str(service["metadata"]["name"])
                is_dotted = any("$(POD_NAME)" in part for part in pod["spec"]["containers"][0]["command"])
                return f"{pod['metadata']['name']}.{service_name}" if is_dotted else service_name
        return str(pod["metadata"]["name"])

    def _port(self, name: str, port: int) -> int:
        with self._store.changed:
            if (name, port) not in self._ports:
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", 0))
                    self._ports[name, port] = probe.getsockname()[1]
            return self._ports[name, port]

    def _end(self, pod: Object) -> None:
        process = self._processes.get(pod["metadata"]["uid"])
        if process is not None:
            with suppress(ProcessLookupError):
                process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(_GRACE_S)
            kill_all(process.pid)
        self._store.remove("pods", pod["metadata"]["name"])


def expanded(text: str, environment: dict[str, str]) -> str:
    """Returns a text with `$(NAME)` replaced, as the kubelet does."""
    return re.sub(r"\$\(([A-Za-z_]\w*)\)", lambda match: environment.get(match[1], match[0]), text)


def field_of(pod: Object, path: str) -> str:
    """Returns a field of a pod, as the downward API does."""
    match = re.fullmatch(r"metadata\.(labels|annotations)\['(.+)'\]", path)
    found = pod["metadata"][match[1]][match[2]] if match else pod["metadata"][path.removeprefix("metadata.")]
    return str(found)


def kill_all(leader: int) -> None:
    """Kills a process, whatever descends from it, and the rest of its group."""
    with suppress(psutil.Error):
        for child in psutil.Process(leader).children(recursive=True):
            with suppress(psutil.Error):
                child.kill()
    with suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)
