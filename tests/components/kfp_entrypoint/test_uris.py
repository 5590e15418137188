"""Addresses and paths: one for one, and never out of the folder."""

import os
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sangam.components.kfp_entrypoint.uris import UriMapping, artifact_base, run_folder
from sangam.schemas.errors import UserError
from tests.errors import place_and_value

PARTS = st.text(string.ascii_letters + string.digits + "-_.=+ äé", min_size=1, max_size=12).filter(
    lambda part: part not in (".", "..")
)
URIS = st.builds(
    lambda scheme, parts: f"{scheme}://{'/'.join(parts)}",
    st.sampled_from(["gs", "minio", "s3"]),
    st.lists(PARTS, min_size=2, max_size=6),
)
BASES = st.sampled_from(["", "/sangam/r/artifacts", "/r/artifacts"])


@given(BASES, URIS)
def test_a_path_tells_its_address_again(base: str, uri: str) -> None:
    mapping = UriMapping(base)
    assert mapping.uri(mapping.path(uri)) == uri


@given(BASES, URIS, URIS)
def test_two_addresses_never_share_a_path(base: str, first: str, second: str) -> None:
    mapping = UriMapping(base)
    assert (mapping.path(first) == mapping.path(second)) == (first == second)


@given(BASES, st.sampled_from(["gs", "minio", "s3"]), st.text(max_size=40))
def test_no_address_leads_out_of_its_folder(base: str, scheme: str, rest: str) -> None:
    try:
        path = UriMapping(base).path(f"{scheme}://{rest}")
    except UserError:
        return
    folder = f"{base}/{'gcs' if scheme == 'gs' else scheme}/"
    assert os.path.normpath(path) == path
    assert path.startswith(folder)


@given(BASES, st.text(max_size=60))
def test_no_path_from_elsewhere_becomes_an_address(base: str, path: str) -> None:
    mapping = UriMapping(base)
    try:
        uri = mapping.uri(path)
    except UserError:
        return
    assert mapping.path(uri) == path


@pytest.mark.parametrize(
    "uri",
    [
        "minio://bucket",
        "minio://bucket/",
        "minio://bucket/../etc",
        "minio://../bucket/key",
        "minio://bucket/a//b",
        "minio://bucket/./b",
        "file:///etc/passwd",
        "/etc/passwd",
        "",
        "oci://image/key",
    ],
)
def test_other_addresses_are_refused_by_name(uri: str) -> None:
    with pytest.raises(UserError, match=place_and_value("artifact", "(got '")) as error:
        UriMapping("/root").path(uri)
    assert uri in str(error.value)


@pytest.mark.parametrize(
    ("root", "base"),
    [
        ("/sangam/r", "/sangam/r/artifacts"),
        ("/sangam/r/", "/sangam/r/artifacts"),
        ("/gcs/bucket/folder", ""),
        ("/minio/bucket/folder", ""),
    ],
)
def test_artifacts_lie_below_the_root_or_where_the_store_is_mounted(root: str, base: str) -> None:
    assert artifact_base(root) == base


def test_the_mounts_are_those_of_the_backends() -> None:
    mapping = UriMapping(artifact_base("/gcs/bucket/root"))
    assert mapping.path("gs://bucket/r/artifacts/x") == "/gcs/bucket/r/artifacts/x"
    assert mapping.path("minio://bucket/x") == "/minio/bucket/x"
    assert mapping.path("s3://bucket/x") == "/s3/bucket/x"


@pytest.mark.parametrize("root", ["", "relative", "gs://bucket/root", "minio://bucket/root", "/a/../b", "//a"])
def test_a_root_that_is_no_folder_is_refused(root: str) -> None:
    with pytest.raises(UserError, match=place_and_value("pipeline_root", f"(got {root!r})")):
        artifact_base(root)


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/r/v2/short-video/run-1/example-gen/salt/examples", ("/r/v2/short-video/run-1", "run-1")),
        ("/r/v2/short-video/run-1/example-gen/examples", ("/r/v2/short-video/run-1", "run-1")),
        ("/gcs/b/r/1234/job-1/example-gen_-77/examples", ("/gcs/b/r/1234/job-1", "job-1")),
        ("/r/v2/elsewhere/examples", None),
    ],
)
def test_the_run_is_told_from_an_outputs_path(path: str, found: tuple[str, str] | None) -> None:
    assert run_folder(path, "example-gen") == found
