"""What Kubernetes would refuse, or what could leave a path or a label, is no name; what it takes is one."""

import re
from typing import Any

import pydantic
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sangam.schemas.spec import kubernetes_names as names

TYPES: dict[str, Any] = {
    name: getattr(names, name)
    for name in (
        "DnsLabel",
        "DnsName",
        "LabelKey",
        "LabelValue",
        "ResourceName",
        "SecretKeyName",
        "EnvironmentName",
        "Cpu",
        "Image",
        "NetworkInterface",
        "AbsolutePath",
    )
}
ADAPTERS = {name: pydantic.TypeAdapter(kind) for name, kind in TYPES.items()}
WITH_SLASH = {"LabelKey", "ResourceName", "Image", "AbsolutePath"}
ALLOWED = {
    "DnsLabel": ["a", "a-b", "0", "a" * 63],
    "DnsName": ["a", "a.b-c.0", ".".join(["a" * 63] * 3)],
    "LabelKey": ["pool", "cloud.example.com/gke-node_pool.x", "A"],
    "LabelValue": ["", "spot", "A_b.c-D"],
    "ResourceName": ["nvidia.com/gpu", "NVIDIA_TESLA_V100"],
    "SecretKeyName": ["key", "a.b_c-d", ".hidden"],
    "EnvironmentName": ["A", "_x1"],
    "Cpu": ["1", "2", "16", "500m", "0.5", "0.001", "1.25"],
    "Image": [
        "image",
        "registry.example/sangam:1",
        "localhost:5000/a/b-c__d.e:v1.2_3",
        f"registry.example/sangam@sha256:{'a' * 64}",
        f"registry.example/sangam:1@sha256:{'0' * 64}",
    ],
    "NetworkInterface": ["eth0", "ens1f0.100"],
    "AbsolutePath": ["/a", "/sangam/root-1/x_y.z", "/a/.hidden", "/a..b"],
}
REFUSED = {
    "DnsLabel": ["", "A", "-a", "a-", "a.b", "a_b", "a" * 64, "a/b", "a b"],
    "DnsName": ["", ".a", "a.", "a..b", "a/b", "A", ".".join(["a" * 63] * 4), "a" * 64],
    "LabelKey": ["", "/a", "a/", "a/b/c", "A/b", "../a", "-a", f"{'a.' * 127}aa/b", "a" * 64],
    "LabelValue": ["-a", "a-", ".", "..", "a/b", "a b", "a" * 64],
    "ResourceName": ["", "nvidia.com/", "../gpu", "gpu;x"],
    "SecretKeyName": ["", ".", "..", "..a", "a/b", "a" * 254],
    "EnvironmentName": ["", "1A", "A-B", "A=B", "A B", "A" * 129],
    "Cpu": ["", "0", "0.0", "0.000", "00.5", "0m", "1.", ".5", "1e3", "-1", "2 cores", "99999", "1.5m"],
    "Image": ["", "a//b", "a/../b", "../a", "/a", "a/", "a:", "A", "a@sha256:abc", "a b", "-a", "http://a/b", "a:b:c"],
    "NetworkInterface": ["", "-e", "a" * 16, "eth0;x", "../eth0", "Eth0"],
    "AbsolutePath": ["", "/", "a", "a/b", "/a/", "/a//b", "/a/../b", "/..", "/a/./b", "//a", "/a b", "/" + "a" * 201],
}


def accepts(name: str, text: str) -> bool:
    try:
        ADAPTERS[name].validate_python(text)
    except pydantic.ValidationError:
        return False
    return True


@pytest.mark.parametrize("name", TYPES)
def test_what_kubernetes_takes_is_allowed_and_what_it_refuses_is_not(name: str) -> None:
    assert [text for text in ALLOWED[name] if not accepts(name, text)] == []
    assert [text for text in REFUSED[name] if accepts(name, text)] == []


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize(
    "odd", ["\n", "\r", "\0", "\t", " ", "ä", "а", "；", "$", "`", "'", '"', "\\", "{", "%", "\u2028"]
)
def test_an_odd_character_anywhere_is_refused(name: str, odd: str) -> None:
    for text in ALLOWED[name]:
        for at in {0, len(text) // 2, len(text)}:
            assert not accepts(name, text[:at] + odd + text[at:])


pieces = st.lists(
    st.sampled_from(["a", "A", "0", "-", "_", ".", "..", "/", ":", "@", "\n", " ", "ä", "m", "sha256", "a" * 62])
    | st.characters(),
    max_size=8,
).map("".join)


@pytest.mark.parametrize("name", TYPES)
@settings(max_examples=40, deadline=None)
@given(text=pieces)
@example(text="a\n")
@example(text="/a\n")
def test_whatever_comes_through_is_harmless(name: str, text: str) -> None:
    if not accepts(name, text):
        return
    assert text.isascii()
    assert text.isprintable()
    assert not re.search(r"[\s;$`'\"\\{}<>|&]", text)
    assert name in WITH_SLASH or "/" not in text
    assert ".." not in text.split("/")
    assert "//" not in text
    assert len(text) <= 512


def is_qualified_name(text: str) -> bool:
    """Says what Kubernetes says: k8s.io/apimachinery, util/validation, IsQualifiedName."""
    *prefix, name = text.split("/")
    if len(prefix) > 1 or (prefix and (len(prefix[0]) > 253 or not re.fullmatch(_SUBDOMAIN, prefix[0], re.ASCII))):
        return False
    return 0 < len(name) <= 63 and bool(re.fullmatch(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]", name))


_SUBDOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"


@settings(max_examples=60, deadline=None)
@given(text=pieces)
@example(text=f"{'a.' * 126}aa/b")
@example(text=f"{'a.' * 126}a/b")
def test_a_label_key_is_a_qualified_name(text: str) -> None:
    if accepts("LabelKey", text):
        assert is_qualified_name(text)
    elif is_qualified_name(text):
        # Stricter than Kubernetes in one thing: a part of a domain has at most 63 characters.
        assert any(len(part) > 63 for part in text.split("/")[0].split("."))
