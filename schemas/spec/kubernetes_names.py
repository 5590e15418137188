"""Types for names and quantities of Kubernetes, checked when a spec is read rather than when a pod is refused."""

from typing import Annotated

from pydantic import AfterValidator, Field

_PART = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_NAME = r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
# Reference: the grammar of image references, reference/reference.go in the distribution project.
_HOST = r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]{1,5})?"
_PATH_PART = r"[a-z0-9]+((\.|__?|-+)[a-z0-9]+)*"
_TAG = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}"

_LABEL = rf"^{_PART}$"
_DNS = rf"^{_PART}(\.{_PART})*$"
_KEY = rf"^({_PART}(\.{_PART})*/)?{_NAME}$"
_VALUE = rf"^({_NAME})?$"
_SECRET_KEY = r"^[A-Za-z0-9._-]{1,253}$"
_VARIABLE = r"^[A-Za-z_][A-Za-z0-9_]{0,127}$"
_CPU = r"^([1-9][0-9]{0,3}(m|\.[0-9]{1,3})?|0\.([1-9][0-9]{0,2}|0[1-9][0-9]?|00[1-9]))$"
_IMAGE = rf"^({_HOST}/)?{_PATH_PART}(/{_PATH_PART})*(:{_TAG})?(@sha256:[0-9a-f]{{64}})?$"
_INTERFACE = r"^[a-z0-9][a-z0-9.-]{0,14}$"
_PATH = r"^/[A-Za-z0-9._/-]{1,200}$"

WORDS = {
    _LABEL: "lower case letters, digits and -, no - at an end, at most 63 characters",
    _DNS: "lower case letters, digits, - and ., as in host names",
    _KEY: "letters, digits, -, _ and ., at most 63 characters; before it a domain and /",
    _VALUE: "letters, digits, -, _ and ., at most 63 characters, or nothing",
    _SECRET_KEY: "letters, digits, -, _ and .",
    _VARIABLE: "letters, digits and _, no digit first",
    _CPU: 'cores, as in "2" or "0.5", or thousandths, as in "500m"',
    _IMAGE: "an image as in registry.example/name:tag, or name@sha256: and 64 digits",
    _INTERFACE: "an interface as in eth0, at most 15 characters",
    _PATH: "an absolute path of letters, digits, -, _, . and /",
}
"""What each pattern allows, in words."""


def _has_short_prefix(key: str) -> str:
    if len(key.rpartition("/")[0]) > 253:
        raise ValueError("must have at most 253 characters before the /")
    return key


def _is_no_folder(key: str) -> str:
    if key == "." or key.startswith(".."):
        raise ValueError("must not be '.' nor start with '..'")
    return key


def _is_clean(path: str) -> str:
    if {"", ".", ".."} & set(path.split("/")[1:]):
        raise ValueError("must be an absolute path below / without '.', '..', '//' or a '/' at its end")
    return path


DnsLabel = Annotated[str, Field(pattern=_LABEL)]
"""RFC 1123: lower case letters, digits and `-`, at most 63."""
DnsName = Annotated[str, Field(pattern=_DNS, max_length=253)]
LabelKey = Annotated[str, Field(pattern=_KEY, max_length=317), AfterValidator(_has_short_prefix)]
LabelValue = Annotated[str, Field(pattern=_VALUE)]
ResourceName = Annotated[str, Field(pattern=_KEY, max_length=317), AfterValidator(_has_short_prefix)]
SecretKeyName = Annotated[str, Field(pattern=_SECRET_KEY), AfterValidator(_is_no_folder)]
EnvironmentName = Annotated[str, Field(pattern=_VARIABLE)]
Cpu = Annotated[str, Field(pattern=_CPU)]
"""Cores ("2", "0.5") or thousandths ("500m")."""
Image = Annotated[str, Field(pattern=_IMAGE, max_length=512)]
NetworkInterface = Annotated[str, Field(pattern=_INTERFACE)]
AbsolutePath = Annotated[str, Field(pattern=_PATH), AfterValidator(_is_clean)]
