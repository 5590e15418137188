"""A real S3 server on this machine, moto's, and Amazon's own client of it."""

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@contextmanager
def served() -> Iterator[dict[str, str]]:
    """Runs a server in a thread, and yields the variables that lead to it."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        yield {
            "AWS_ENDPOINT_URL": f"http://{host}:{port}",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "id",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_EC2_METADATA_DISABLED": "true",
        }
    finally:
        server.stop()


@dataclass(frozen=True)
class Bucket:
    """A bucket of a test.

    Attributes:
        name: its name.
        variables: the variables that lead to its server.
    """

    name: str
    variables: Mapping[str, str]

    @property
    def uri(self) -> str:
        """Its address."""
        return f"s3://{self.name}"

    @property
    def client(self) -> Any:
        """Amazon's client."""
        import boto3

        return boto3.client("s3", endpoint_url=self.variables["AWS_ENDPOINT_URL"])

    def upload(self, folder: Path, prefix: str) -> str:
        """Uploads the files below a folder, and returns their address."""
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            self.put(f"{prefix}/{path.relative_to(folder).as_posix()}", path.read_bytes())
        return f"{self.uri}/{prefix}"

    def put(self, key: str, content: bytes = b"") -> None:
        """Writes an object."""
        self.client.put_object(Bucket=self.name, Key=key, Body=content)

    def get(self, key: str) -> bytes:
        """Returns the content of an object."""
        content: bytes = self.client.get_object(Bucket=self.name, Key=key)["Body"].read()
        return content

    def keys(self, prefix: str = "") -> list[str]:
        """Returns the keys with a prefix."""
        found = self.client.list_objects_v2(Bucket=self.name, Prefix=prefix)
        return sorted(each["Key"] for each in found.get("Contents", ()))


def new_bucket(variables: Mapping[str, str]) -> Bucket:
    """Creates an empty bucket."""
    bucket = Bucket(f"bucket-{uuid.uuid4().hex}", variables)
    bucket.client.create_bucket(Bucket=bucket.name)
    return bucket
