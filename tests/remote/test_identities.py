"""Identities of Azure, Google and S3: where their tokens are asked for, and that requests to the store have them."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from pyspark_savepoint.formats.filesystems.credentials import s3_credentials
from pyspark_savepoint.formats.filesystems.filesystem import store_of
from tests.remote.conftest import SHOP
from tests.remote.faulty_writes import VERBS, expect_whole, prepared, run
from tests.remote.measured_store import measured_store

KEYS_OF_STS = """<{0}Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><{0}Result><Credentials>
<AccessKeyId>{1}</AccessKeyId><SecretAccessKey>a/secret+</SecretAccessKey><SessionToken>a-session</SessionToken>
<Expiration>2099-01-01T00:00:00Z</Expiration>
</Credentials></{0}Result></{0}Response>"""


class Issuer(ThreadingHTTPServer):
    """Gives the same token to everyone, and keeps what it was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[str] = []
        #: The key that its STS gives; a code of an error, with which it answers; until when it is busy.
        self.key, self.refuses, self.busy_until = "key-of-sts", "", 0.0

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
        for action in parse_qs(body).get("Action", ()):
            text = KEYS_OF_STS.format(action, self.server.key)
        is_busy, refuses = time.monotonic() < self.server.busy_until, self.server.refuses
        if is_busy or refuses:
            text = f"<ErrorResponse><Error><Code>{refuses or 'Throttling'}</Code></Error></ErrorResponse>"
        self.send_response(503 if is_busy else 400 if refuses else 200)
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
def no_keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An environment without credentials of S3, on a machine that is no instance."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture
def web_identity(issuer: Issuer, no_keys: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The environment of a pod that has a role and a token, and no keys."""
    (tmp_path / "token").write_text("federated\n")
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


@pytest.mark.usefixtures("web_identity")
@pytest.mark.parametrize("number", [1, 6, 13])
def test_an_sts_that_is_busy_when_keys_are_replaced_is_waited_for(issuer: Issuer, number: int) -> None:
    """At the first request, while files are copied, and at the publication."""
    seen: list[str] = []

    def replacing(kind: str, key: str) -> None:
        seen.append(kind)
        if len(seen) == number:
            issuer.key, issuer.busy_until = "newer", time.monotonic() + 1.5
            store.refused.add("key-of-sts")

    with measured_store() as store:
        store.upload(SHOP, "shop")
        before = prepared(store, "cp")
        store.fault = replacing
        done = run(store, *VERBS["cp"])
        assert len(seen) > number
        store.refused.clear()
        expect_whole(store, before, done)
        assert done == 0


INCOMPLETE = {
    "a token without a role": (
        {"AWS_WEB_IDENTITY_TOKEN_FILE": "{folder}/token"},
        "AWS_WEB_IDENTITY_TOKEN_FILE is set, and AWS_ROLE_ARN is not",
        "set AWS_ROLE_ARN",
    ),
    "a role without a token": (
        {"AWS_ROLE_ARN": "arn:aws:iam::1:role/flink"},
        "AWS_ROLE_ARN is set, and AWS_WEB_IDENTITY_TOKEN_FILE is not",
        "set AWS_WEB_IDENTITY_TOKEN_FILE",
    ),
    "a token that is not there": (
        {"AWS_ROLE_ARN": "arn:aws:iam::1:role/flink", "AWS_WEB_IDENTITY_TOKEN_FILE": "{folder}/gone"},
        "AWS_WEB_IDENTITY_TOKEN_FILE names a file that is not there",
        "set AWS_WEB_IDENTITY_TOKEN_FILE to the file of a token",
    ),
    "a key without its secret": (
        {"AWS_ACCESS_KEY_ID": "a-key"},
        "AWS_ACCESS_KEY_ID is set, and AWS_SECRET_ACCESS_KEY is not",
        "set AWS_SECRET_ACCESS_KEY",
    ),
    "a profile that is not there": (
        {"AWS_PROFILE": "gone"},
        "there is no profile 'gone'",
        "set AWS_PROFILE to a profile of {folder}/config",
    ),
    "a role whose keys no one gives": ({"AWS_PROFILE": "alone"}, "missing: source_profile", "complete profile 'alone'"),
    "an STS that is not there": (
        {
            "AWS_ROLE_ARN": "arn:aws:iam::1:role/flink",
            "AWS_WEB_IDENTITY_TOKEN_FILE": "{folder}/token",
            "AWS_ENDPOINT_URL_STS": "https://localhost:1",
        },
        "POST to STS",
        "check AWS_ROLE_ARN, AWS_WEB_IDENTITY_TOKEN_FILE, and AWS_ENDPOINT_URL_STS",
    ),
    "an instance without a role": (
        {"AWS_METADATA_ENDPOINT": "{issuer}", "AWS_EC2_METADATA_DISABLED": "", "AWS_ROLE_ARN": "a-role"},
        "AWS_ROLE_ARN is set, and AWS_WEB_IDENTITY_TOKEN_FILE is not",
        "set AWS_WEB_IDENTITY_TOKEN_FILE",
    ),
}


@pytest.mark.usefixtures("no_keys")
@pytest.mark.parametrize(("environment", "found", "remedy"), INCOMPLETE.values(), ids=INCOMPLETE)
def test_what_is_missing_in_the_environment_is_said(
    issuer: Issuer,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    environment: dict[str, str],
    found: str,
    remedy: str,
) -> None:
    (tmp_path / "token").write_text("federated")
    (tmp_path / "config").write_text("[profile alone]\nrole_arn = arn:aws:iam::1:role/flink\n")
    issuer.refuses = "NoRole"
    for name, text in environment.items():
        monkeypatch.setenv(name, text.format(folder=tmp_path, issuer=issuer.uri))
    with measured_store() as store:
        assert run(store, "ls", "s3://bucket/shop", retryLimit=2) == 2
    said = capsys.readouterr().err
    assert "this process has no credentials for the storage" in said
    assert found in said
    assert f"to do: {remedy.format(folder=tmp_path)}" in said


ROLE = """[profile role]
role_arn = arn:aws:iam::1:role/flink
source_profile = base
[profile base]
aws_access_key_id = a-key
aws_secret_access_key = s
"""


@pytest.mark.usefixtures("no_keys")
@pytest.mark.parametrize("region", ["AWS_REGION", "region of the profile", "region of the store"])
def test_a_profile_with_a_role(issuer: Issuer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, region: str) -> None:
    """STS is asked in the region of the process, else in that of the bucket; requests have that of the bucket."""
    (tmp_path / "config").write_text(
        ROLE.replace("source_", "region = us-west-2\nsource_") if "prof" in region else ROLE
    )
    monkeypatch.setenv("AWS_PROFILE", "role")
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", issuer.uri)
    if region != "AWS_REGION":
        monkeypatch.delenv("AWS_REGION")
    with measured_store() as store:
        store.upload(SHOP, "shop")
        assert run(store, "sizes", "s3://bucket/shop", region="eu-central-1") == 0
        sent = {
            headers["authorization"] for headers in ({k.lower(): v for k, v in one.items()} for one in store.headers)
        }
    assert sent
    assert all("Credential=key-of-sts/" in text and "/eu-central-1/s3/" in text for text in sent)
    assert any("Action=AssumeRole&" in text for text in issuer.asked)


@pytest.mark.usefixtures("no_keys")
def test_a_file_of_profiles_that_is_just_rewritten_is_read_again(tmp_path: Path) -> None:
    """It is empty for a moment, and no other source of credentials is taken."""
    config = tmp_path / "config"
    config.write_text("")
    keys = "[default]\naws_access_key_id = a-key\naws_secret_access_key = s\n"
    threading.Timer(0.1, lambda: config.write_text(keys)).start()
    assert s3_credentials(lambda: "eu-west-1")()["access_key_id"] == "a-key"
