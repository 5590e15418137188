"""Objects of a made-up cluster: versions, changes, owners, logs of pods. `tests.fakes.kubernetes_api` serves them."""

import copy
import itertools
import json
import threading
import uuid
from collections import defaultdict
from datetime import UTC, datetime
from typing import Any

NAMESPACE = "team-a"

Object = dict[str, Any]
Key = tuple[str, str]
"""Plural and name: there is one namespace."""


class StatusError(Exception):
    """An answer that is no success."""

    def __init__(self, code: int, reason: str, message: str):
        self.code, self.reason, self.message = code, reason, message
        super().__init__(message)

    def body(self) -> Object:
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "code": self.code,
            "reason": self.reason,
            "message": self.message,
        }


class Store:
    """Objects, every change of them, and logs of pods."""

    def __init__(self) -> None:
        self.changed = threading.Condition(threading.RLock())
        self.objects: dict[Key, Object] = {}
        self.history: list[tuple[int, str, str, Object]] = []
        self.oldest = 0
        self.logs: dict[str, list[tuple[str, str]]] = defaultdict(list)
        self._versions = itertools.count(1)

    @property
    def version(self) -> int:
        return self.history[-1][0] if self.history else 0

    def get(self, plural: str, name: str) -> Object | None:
        with self.changed:
            return copy.deepcopy(self.objects.get((plural, name)))

    def get_by_uid(self, uid: str) -> Object | None:
        with self.changed:
            return next((each for each in self.objects.values() if each["metadata"]["uid"] == uid), None)

    def list(self, plural: str, labels: dict[str, str] | None = None) -> list[Object]:
        with self.changed:
            found = [each for (kind, _), each in self.objects.items() if kind == plural]
            return copy.deepcopy([each for each in found if has_labels(each, labels or {})])

    def create(self, plural: str, given: Object) -> Object:
        with self.changed:
            name = given["metadata"]["name"]
            if (plural, name) in self.objects:
                raise StatusError(409, "AlreadyExists", f'{plural} "{name}" already exists')
            made = copy.deepcopy(given)
            made["metadata"] |= {"uid": str(uuid.uuid4()), "namespace": NAMESPACE, "creationTimestamp": now()}
            self.objects[plural, name] = made
            self._note(plural, "ADDED", made)
            return copy.deepcopy(made)

    def merge(self, plural: str, name: str, change: Object) -> Object:
        """Merges a change into an object, as a merge patch does; lists are replaced."""
        with self.changed:
            found = self.objects.get((plural, name))
            if found is None:
                raise StatusError(404, "NotFound", f'{plural} "{name}" not found')
            before = json.dumps(found)
            _merge(found, change)
            if json.dumps(found) != before:
                self._note(plural, "MODIFIED", found)
            return copy.deepcopy(found)

    def delete(self, plural: str, name: str) -> None:
        """Deletes an object and all that no one else owns."""
        with self.changed:
            found = self.objects.get((plural, name))
            if found is None:
                raise StatusError(404, "NotFound", f'{plural} "{name}" not found')
            self.remove(plural, name)

    def remove(self, plural: str, name: str) -> None:
        """Removes an object at once, and what it owned."""
        with self.changed:
            gone = self.objects.pop((plural, name), None)
            if gone is None:
                return
            self._note(plural, "DELETED", gone)
            self.collect_garbage()

    def collect_garbage(self) -> None:
        """Deletes what has owners, all of which are gone."""
        with self.changed:
            alive = {each["metadata"]["uid"] for each in self.objects.values()}
            for (plural, name), each in list(self.objects.items()):
                owners = {owner["uid"] for owner in each["metadata"].get("ownerReferences", [])}
                if owners and not alive & owners and (plural, name) in self.objects:
                    self.delete(plural, name)

    def log(self, pod: str, line: str) -> None:
        with self.changed:
            self.logs[pod].append((datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"), line))
            self.changed.notify_all()

    def forget(self) -> None:
        """Forgets all versions so far: whoever watches from one of them must list anew."""
        with self.changed:
            self.oldest = self.version + 1
            next(self._versions)

    def _note(self, plural: str, kind: str, changed: Object) -> None:
        version = next(self._versions)
        changed["metadata"]["resourceVersion"] = str(version)
        self.history.append((version, plural, kind, copy.deepcopy(changed)))
        self.changed.notify_all()


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def has_labels(found: Object, labels: dict[str, str]) -> bool:
    own = found["metadata"].get("labels", {})
    return all(own.get(key) == value for key, value in labels.items())


def _merge(target: Object, change: Object) -> None:
    for key, value in change.items():
        if isinstance(value, dict) and isinstance(target.get(key), dict):
            _merge(target[key], value)
        elif value is None:
            target.pop(key, None)
        else:
            target[key] = copy.deepcopy(value)
