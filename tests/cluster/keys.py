"""Keys of a cluster: its authority, the API server's towards the kubelet, the webhooks', the service accounts'."""

import subprocess
from pathlib import Path

AUTHORITY = "ca.crt"
SERVICE_ACCOUNTS = "sa.key"
_SUBJECTS = {"client": "/O=system:masters/CN=apiserver", "webhook/tls": "/CN=localhost", "kubelet": "/CN=localhost"}


def make_keys(folder: Path) -> None:
    """Writes `NAME.key` and `NAME.crt` for each of `client`, `webhook/tls` and `kubelet`, and what signs them."""

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], check=True, capture_output=True, cwd=folder)

    (folder / "webhook").mkdir()
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
    new_key = ["-newkey", "rsa:2048", "-nodes"]
    openssl("genrsa", "-out", SERVICE_ACCOUNTS, "2048")
    openssl("req", "-x509", *new_key, "-keyout", "ca.key", "-out", AUTHORITY, "-subj", "/CN=sangam-tests")
    for name, subject in _SUBJECTS.items():
        openssl("req", *new_key, "-keyout", f"{name}.key", "-out", "request", "-subj", subject)
        sign = ["x509", "-req", "-in", "request", "-CA", AUTHORITY, "-CAkey", "ca.key", "-CAcreateserial"]
        openssl(*sign, "-extfile", "names", "-out", f"{name}.crt")
