"""Requests to the Kubernetes API: transient failures are retried, others become user errors."""

import asyncio
import datetime
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx
from lightkube import AsyncClient
from lightkube.core.resource import NamespacedResourceG
from lightkube.types import CascadeType, PatchType

from sangam.components.steps.trainer.kubernetes.refusals import code_of, refusal
from sangam.components.steps.trainer.kubernetes.timing import Timing
from sangam.components.steps.trainer.kubernetes.waiting import within
from sangam.schemas.errors import UserError
from sangam.schemas.host.backoff import Backoff, retry_after_s

_LOG = logging.getLogger(__name__)
_CONFLICT, _FORBIDDEN, _GONE, _NOT_FOUND = 409, 403, 410, 404
_PASSING = {429, 500, 502, 503, 504}

Resource = TypeVar("Resource", bound=NamespacedResourceG)
Answer = TypeVar("Answer")


class Api:
    """Requests in one namespace."""

    def __init__(self, client: AsyncClient, timing: Timing):
        self.client, self.timing = client, timing
        self.namespace = str(client.namespace)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.client.close()

    async def create(self, manifest: Resource) -> Resource | None:
        """Creates an object; returns None if one of this name exists."""
        return await self._request("create", type(manifest), lambda: self.client.create(manifest), missing={_CONFLICT})

    async def get(self, resource: type[Resource], name: str) -> Resource | None:
        """Returns an object, or None."""
        return await self._request("get", resource, lambda: self.client.get(resource, name), missing={_NOT_FOUND})

    async def find(self, resource: type[Resource], **selectors: dict[str, str]) -> list[Resource]:
        """Returns the objects with these `labels` or `fields`."""
        return (await self._listed(resource, selectors))[0]

    async def merge(self, resource: type[Resource], name: str, change: dict[str, Any]) -> None:
        """Changes some fields of an object."""
        await self._request(
            "patch", resource, lambda: self.client.patch(resource, name, change, patch_type=PatchType.MERGE)
        )

    async def delete(self, resource: type[Resource], name: str) -> None:
        """Deletes an object and all that it owns; it may be gone already."""
        await self._request(
            "delete",
            resource,
            lambda: self.client.delete(resource, name, cascade=CascadeType.BACKGROUND),
            missing={_NOT_FOUND},
        )

    async def follow(self, resource: type[Resource], labels: dict[str, str]) -> AsyncIterator[dict[str, Resource]]:
        """Yields all objects with these labels by name: at once, and after every change."""
        while True:
            listed, version = await self._listed(resource, {"labels": labels})
            objects = {_name(each): each for each in listed}
            yield objects
            async for kind, changed in self._changes(resource, labels, version):
                if kind == "DELETED":
                    objects.pop(_name(changed), None)
                else:
                    objects[_name(changed)] = changed
                yield objects

    async def _changes(
        self, resource: type[Resource], labels: dict[str, str], version: str
    ) -> AsyncIterator[tuple[str, Resource]]:
        """Yields changes since a version, across lost connections, until the server has forgotten that version."""
        failures = _Failures(self, "watch", resource)
        while True:
            stream: AsyncIterator[tuple[str, Resource]] = self.client.watch(  # type: ignore[assignment]
                resource, labels=dict(labels), resource_version=version, server_timeout=self.timing.watch_s
            )
            try:
                while True:
                    kind, changed = await within(stream.__anext__(), self.timing.silence_s)
                    failures.reset()
                    version = changed.metadata.resourceVersion  # type: ignore[attr-defined]
                    yield kind, changed
            except TimeoutError:
                # Nothing has changed, or the connection is dead: open a new one.
                continue
            except (httpx.HTTPError, ValueError) as error:
                # A ValueError is an incomplete line: the connection ended within it.
                if code_of(error) == _GONE:
                    return
                await failures.wait(error)

    async def _listed(self, resource: type[Resource], selectors: dict[str, Any]) -> tuple[list[Resource], str]:
        async def send() -> tuple[list[Resource], str]:
            listed = self.client.list(resource, **selectors)
            return [each async for each in listed], str(listed.resourceVersion)

        answer = await self._request("list", resource, send)
        assert answer is not None
        return answer

    async def _request(
        self,
        verb: str,
        resource: type[NamespacedResourceG],
        send: Callable[[], Awaitable[Answer]],
        missing: Collection[int] = (),
    ) -> Answer | None:
        """Returns the response, None for an HTTP code in `missing`; retries transient failures."""
        failures = _Failures(self, verb, resource)
        while True:
            try:
                return await send()
            except httpx.HTTPError as error:
                if code_of(error) in missing:
                    return None
                await failures.wait(error)


class _Failures:
    """Consecutive failures of one request: the wait after each is longer, up to a timeout."""

    def __init__(self, api: Api, verb: str, resource: type[NamespacedResourceG]):
        self._api, self._verb, self._resource = api, verb, resource
        self._failing_since: float | None = None
        self._count = 0
        self._waits = Backoff(api.timing.backoff_s, max_s=api.timing.max_backoff_s)

    def reset(self) -> None:
        """Resets the wait after a success."""
        self._failing_since, self._count = None, 0

    async def wait(self, error: Exception) -> None:
        """Waits before the next try.

        Raises:
            UserError: if the failure is permanent or has lasted too long.
        """
        code = code_of(error)
        # A restarted server forbids all requests until it has read its roles.
        may_be_starting = code == _FORBIDDEN and self._failing_since is not None
        if code is not None and code not in _PASSING and not may_be_starting:
            raise UserError(refusal(error, self._verb, self._resource, self._api.namespace)) from error
        what = f"{self._verb} {self._resource._api_info.plural} in namespace {self._api.namespace}"
        now = asyncio.get_running_loop().time()
        self._failing_since = now if self._failing_since is None else self._failing_since
        if now - self._failing_since > self._api.timing.patience_s:
            raise UserError(
                f"training: the Kubernetes API has failed to {what} for {self._api.timing.patience_s:.0f} s "
                f"(got {code or type(error).__name__}: {error}); run the step again, which continues"
            ) from error
        wait_s = self._waits.wait_s(self._count, _asked_s(error))
        self._count += 1
        _LOG.warning("event=api_retry what=%r got=%s error=%s wait_s=%.1f", what, code, type(error).__name__, wait_s)
        await asyncio.sleep(wait_s)


def _asked_s(error: Exception) -> float | None:
    """Returns the seconds of the server's Retry-After, None without one."""
    if not isinstance(error, httpx.HTTPStatusError):
        return None
    return retry_after_s(error.response.headers.get("Retry-After", ""), datetime.datetime.now(datetime.UTC))


def _name(manifest: NamespacedResourceG) -> str:
    return str(manifest.metadata.name)  # type: ignore[attr-defined]
