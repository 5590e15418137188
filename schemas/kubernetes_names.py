"""Types of the names and quantities of Kubernetes, checked when a spec is read rather than when a pod is refused."""

from typing import Annotated

from pydantic import AfterValidator, Field

_DNS_LABEL = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_PREFIX = rf"({_DNS_LABEL}(\.{_DNS_LABEL})*/)?"
_NAME = r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"

DnsLabel = Annotated[str, Field(pattern=rf"^{_DNS_LABEL}$")]
"""RFC 1123: lower case letters, digits and `-`, at most 63."""
DnsName = Annotated[str, Field(pattern=rf"^{_DNS_LABEL}(\.{_DNS_LABEL})*$", max_length=253)]
LabelKey = Annotated[str, Field(pattern=rf"^{_PREFIX}{_NAME}$", max_length=317)]
LabelValue = Annotated[str, Field(pattern=rf"^({_NAME})?$")]
ResourceName = Annotated[str, Field(pattern=rf"^{_PREFIX}{_NAME}$", max_length=317)]
SecretKeyName = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,253}$")]
EnvironmentName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}$")]
Cpu = Annotated[str, Field(pattern=r"^([1-9][0-9]{0,3}m?|[0-9]{1,4}\.[0-9]{1,3})$")]
"""Cores ("2", "0.5") or thousandths ("500m")."""
Image = Annotated[str, Field(pattern=r"^[a-z0-9][a-zA-Z0-9._:/@-]{0,511}$")]


def _is_clean(path: str) -> str:
    if ".." in path.split("/") or "//" in path or (path.endswith("/") and path != "/") or path == "/":
        raise ValueError("must be an absolute path below / without '..', '//' or a '/' at its end")
    return path


AbsolutePath = Annotated[str, Field(pattern=r"^/[A-Za-z0-9._/-]{1,200}$"), AfterValidator(_is_clean)]
