"""Identities of Azure, Google and S3: where their tokens are asked for, and that requests to the store have them."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from pyspark_savepoint.formats.filesystems.filesystem import store_of
from tests.remote.conftest import SHOP
from tests.remote.faulty_writes import run
from tests.remote.measured_store import measured_store

KEYS_OF_STS = """<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>
<AccessKeyId>key-of-sts</AccessKeyId><SecretAccessKey>a/secret+</SecretAccessKey><SessionToken>a-session</SessionToken>
<Expiration>2099-01-01T00:00:00Z</Expiration>
</Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"""


class Issuer(ThreadingHTTPServer):
    """Gives the same token to everyone, and keeps what it was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[str] = []
        #: A code of an error, with which it answers.
        self.refuses = ""

    @property
    def uri(self) -> str:
        return f"http://localhost:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Issuer

    def log_message(self, *_: object) -> None:
        """Print nothing, to keep the output of tests clean."""

    def _give(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0)).decode()
        self.server.asked.append(f"{self.path} {body} {self.headers.get('x-identity-header', '')}")
        until = {"expires_in": 3600, "expires_on": "4102444800"}
        text = json.dumps({"access_token": "a-token", "token_type": "Bearer", "resource": "x", **until})
        if "AssumeRoleWithWebIdentity" in body:
            text = KEYS_OF_STS
        if self.server.refuses:
            text = f"<ErrorResponse><Error><Code>{self.server.refuses}</Code></Error></ErrorResponse>"
        self.send_response(400 if self.server.refuses else 200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    do_GET = do_POST = _give  # noqa: N815  (names of the base class)


@pytest.fixture
def issuer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Issuer]:
    for name in [name for name in os.environ if name.startswith(("AZURE_", "GOOGLE_", "IDENTITY_"))]:
        monkeypatch.delenv(name)
    store_of.cache_clear()
    with Issuer() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def authorizations(path: str, prefix: str) -> set[str]:
    """Read a savepoint, and return what the requests to its store were authorized with."""
    with measured_store() as store:
        store.upload(SHOP, f"{prefix}shop")
        assert run(store, "sizes", path) == 0
        return {text for headers in store.headers for name, text in headers.items() if name.lower() == "authorization"}


@pytest.mark.parametrize(
    ("environment", "asked"),
    [
        ({"AZURE_CLIENT_SECRET": "a-secret"}, "client_secret=a-secret"),
        ({"AZURE_FEDERATED_TOKEN_FILE": "{folder}/token"}, "client_assertion=federated"),
        ({"IDENTITY_ENDPOINT": "{issuer}/msi", "IDENTITY_HEADER": "a-header"}, "a-header"),
    ],
    ids=["secret of a client", "workload identity", "managed identity"],
)
def test_an_identity_of_azure(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, environment: dict[str, str], asked: str
) -> None:
    (tmp_path / "token").write_text("federated")
    client = {"AZURE_CLIENT_ID": "a-client", "AZURE_TENANT_ID": "a-tenant", "AZURE_AUTHORITY_HOST": issuer.uri}
    for name, text in {**client, **environment}.items():
        monkeypatch.setenv(name, text.format(folder=tmp_path, issuer=issuer.uri))
    assert authorizations("abfs://bucket@account/shop", "account/bucket/") == {"Bearer a-token"}
    assert issuer.asked
    assert all(asked in text for text in issuer.asked)


def test_a_service_account_of_google(issuer: Issuer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It signs its tokens itself."""
    key = rsa.generate_private_key(65537, 2048)
    form, open_text = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    account = {
        "type": "service_account",
        "private_key": key.private_bytes(serialization.Encoding.PEM, form, open_text).decode(),
        "private_key_id": "1",
        "client_email": "flink@project",
    }
    (tmp_path / "account.json").write_text(json.dumps(account))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "account.json"))
    (authorization,) = authorizations("gs://bucket/shop", "")
    assert authorization.startswith("Bearer ey")
    assert not issuer.asked


@pytest.fixture
def web_identity(issuer: Issuer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The environment of a pod that has a role and a token, and no keys."""
    (tmp_path / "token").write_text("federated\n")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "token"))
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/flink")
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", issuer.uri)


@pytest.mark.usefixtures("web_identity")
def test_a_web_identity_of_s3_by_http(issuer: Issuer) -> None:
    with measured_store() as store:
        store.upload(SHOP, "shop")
        assert run(store, "sizes", "s3://bucket/shop") == 0
        sent = [{name.lower(): text for name, text in headers.items()} for headers in store.headers]
    assert sent
    assert all("Credential=key-of-sts/" in headers["authorization"] for headers in sent)
    assert {headers["x-amz-security-token"] for headers in sent} == {"a-session"}
    assert issuer.asked
    assert all("WebIdentityToken=federated" in text for text in issuer.asked)


@pytest.mark.usefixtures("web_identity")
def test_what_sts_says_is_said(issuer: Issuer, capsys: pytest.CaptureFixture[str]) -> None:
    issuer.refuses = "ExpiredTokenException"
    with measured_store() as store:
        store.upload(SHOP, "shop")
        assert run(store, "sizes", "s3://bucket/shop") == 2
    said = capsys.readouterr().err
    assert "STS answers 400, ExpiredTokenException" in said
    assert "federated" not in said
