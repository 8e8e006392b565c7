"""Each request of each verb that writes fails once, in each way; stores are busy for long; keys are replaced.

A write then does what it would have done, or ends with one error. Before its publication the place is as it was, after
it there is the whole savepoint, and the snapshot that it was made of is the same.
"""

from __future__ import annotations

import json
import os
import ssl
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from pyspark_savepoint.formats.filesystems.filesystem import store_of
from tests.benchmarks.data import write_savepoint
from tests.remote.conftest import SHOP
from tests.remote.faulty_writes import NEW, VERBS, busy_from, errors, expect_whole, once, prepared, run, swept
from tests.remote.measured_store import MeasuredStore, measured_store

FAULTS: tuple[int | str, ...] = (503, "reset", "lost", "vanished", "stall", "hang")


@pytest.fixture
def measured() -> Iterator[MeasuredStore]:
    store_of.cache_clear()
    with measured_store() as store:
        store.upload(SHOP, "shop")
        store.silence = 1.2
        yield store


@pytest.mark.parametrize("verb", ["cp", "rename a state"])
def test_some_requests_fail_once(measured: MeasuredStore, verb: str) -> None:
    assert set(swept(measured, verb, 4, (503, "reset", "lost", "vanished"))) == {0}


@pytest.mark.thorough
@pytest.mark.parametrize("verb", VERBS)
def test_each_request_fails_once(measured: MeasuredStore, verb: str) -> None:
    assert set(swept(measured, verb, 1, FAULTS)) == {0}


# -- uploads in parts ----------------------------------------------------------------------------------------


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """A savepoint with a file of 18 MB."""
    return write_savepoint(tmp_path / "large", "long", 390_000, parallelism=1)


@pytest.mark.parametrize("fault", FAULTS)
def test_each_request_of_an_upload_in_parts_fails_once(measured: MeasuredStore, large: Path, fault: int | str) -> None:
    words = ("cp", str(large), NEW)
    assert run(measured, *words) == 0
    count = len(measured.requests)
    assert {"BEGIN", "PART", "COMPLETE"} <= measured.kinds().keys()
    expected = sorted(file.read_bytes() for file in large.glob("state*"))
    for number in range(1, count + 1):
        with measured.lock:
            measured.objects.clear()
            measured.uploads.clear()
        measured.fault = once(number, fault)
        assert run(measured, *words, requestTimeout=1) == 0
        assert sorted(data for name, data in measured.objects.items() if "-copy-" in name) == expected


def test_keys_are_replaced_within_an_upload_in_parts(
    measured: MeasuredStore, large: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """From each part on, the store refuses the old keys: the savepoint is there, or one error says why not."""
    for number in range(1, 7):
        with measured.lock:
            measured.objects.clear()
            measured.uploads.clear()
        measured.refused.clear()
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "first")
        seen: list[str] = []

        def replacing(kind: str, key: str, seen: list[str] = seen, number: int = number) -> None:
            if kind in ("BEGIN", "PART", "COMPLETE"):
                seen.append(kind)
                if len(seen) == number:
                    os.environ["AWS_ACCESS_KEY_ID"] = "second"
                    measured.refused.add("first")

        measured.fault = replacing
        done = run(measured, "cp", str(large), NEW)
        error = capsys.readouterr().err
        assert done == 0 or (errors(error) == 1 and "expired" in error), error
        measured.refused.clear()
        expect_whole(measured, {}, done)


# -- a store that is busy ------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [4, 10, 13])
def test_a_burst_is_waited_for(measured: MeasuredStore, number: int) -> None:
    """While files are copied, while they are listed, and at the publication."""
    before = prepared(measured, "cp")
    measured.fault = busy_from(number, 2.0)
    assert run(measured, *VERBS["cp"]) == 0
    expect_whole(measured, before, 0)


@pytest.mark.thorough
@pytest.mark.parametrize("verb", ["cp", "rename a state", "remove-keys"])
@pytest.mark.parametrize("seconds", [5, 30, 60])
def test_a_long_burst_is_waited_for(measured: MeasuredStore, verb: str, seconds: float) -> None:
    before = prepared(measured, verb)
    for number in (1, 5, 9, 13):
        with measured.lock:
            measured.objects.clear()
            measured.objects |= before
        measured.fault = busy_from(number, seconds)
        done = run(measured, *VERBS[verb])
        expect_whole(measured, before, done)
        assert done == 0
        if seconds > 5:
            return


def test_a_store_that_stays_busy_is_one_error_within_the_budget(
    measured: MeasuredStore, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whichever request is the first one: the place is as it was, or the error says that it is unknown."""
    before = prepared(measured, "cp")
    for number in (1, 4, 8, 12, 14):
        with measured.lock:
            measured.objects.clear()
            measured.objects |= before
        measured.fault = busy_from(number, 1000)
        begin = time.monotonic()
        done = run(measured, *VERBS["cp"], retryLimit=1)
        assert time.monotonic() - begin < 15
        error = capsys.readouterr().err
        if done:
            assert errors(error) == 1
            assert "Traceback" not in error
        measured.fault = lambda kind, key: None
        assert {name: measured.objects.get(name) for name in before} == before
        if "out/new/_metadata" in measured.objects:
            assert run(measured, "verify", NEW) == 0
        else:
            assert done


# -- rights --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kinds", [{"PUT"}, {"COPY"}, {"DELETES", "DELETE"}, {"LIST"}], ids=lambda kinds: min(kinds))
def test_a_right_that_is_missing_is_one_error(
    measured: MeasuredStore, capsys: pytest.CaptureFixture[str], kinds: set[str]
) -> None:
    """A store that does not copy is written to; what cannot be deleted in the end is a warning."""
    before = prepared(measured, "cp")
    measured.denied = kinds
    done = run(measured, *VERBS["cp"])
    said = capsys.readouterr().err
    measured.denied = set()
    if kinds in ({"PUT"}, {"LIST"}):
        assert done
        assert errors(said) == 1
        assert "denies access" in said
        assert measured.objects == before
        return
    assert done == 0
    assert ("left in s3://bucket/out/new" in said) == ("DELETE" in kinds)
    assert run(measured, "diff", "s3://bucket/shop", NEW) == 0


# -- keys that are replaced while a write runs ---------------------------------------------------------------


class Metadata(ThreadingHTTPServer):
    """The endpoint of a container, that of an instance, and that of STS: the keys that are valid now."""

    key = "first"
    token: str | None = None
    scheme = "http"

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Metadata)

    @property
    def uri(self) -> str:
        """Its address, whose host is another one than that of the store, as in a cloud."""
        return f"{self.scheme}://localhost:{self.server_port}"

    def secure(self, folder: Path) -> Path:
        """Speak TLS from now on; return the file of the authority."""
        key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
        certificate = (
            x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
            .sign(key, hashes.SHA256())
        )
        pem, kept = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        authority, secret = folder / "authority.pem", folder / "key.pem"
        authority.write_bytes(certificate.public_bytes(pem))
        secret.write_bytes(key.private_bytes(pem, kept, serialization.NoEncryption()))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(authority, secret)
        self.socket = context.wrap_socket(self.socket, server_side=True)
        self.scheme = "https"
        return authority


class _Metadata(BaseHTTPRequestHandler):
    server: Metadata

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def do_PUT(self) -> None:
        self._say("a-token")

    def do_GET(self) -> None:
        if self.server.token is not None and self.headers.get("authorization") != self.server.token:
            self.send_error(401)
        elif self.path.rstrip("/").endswith("security-credentials"):
            self._say("role")
        else:
            until = self._until()
            keys = {"AccessKeyId": self.server.key, "SecretAccessKey": "s", "Token": "t", "Expiration": until}
            self._say(json.dumps({"Code": "Success", "Type": "AWS-HMAC", "LastUpdated": until, **keys}))

    def do_POST(self) -> None:
        asked = parse_qs(self.path.partition("?")[2] or self.rfile.read(int(self.headers["content-length"])).decode())
        if asked["Action"] != ["AssumeRoleWithWebIdentity"] or asked["WebIdentityToken"] != [self.server.token]:
            self.send_error(403)
            return
        keys = {"AccessKeyId": self.server.key, "SecretAccessKey": "s", "SessionToken": "t"}
        keys["Expiration"] = self._until()
        fields = "".join(f"<{name}>{text}</{name}>" for name, text in keys.items())
        answer = (
            f"<AssumeRoleWithWebIdentityResult><Credentials>{fields}</Credentials></AssumeRoleWithWebIdentityResult>"
        )
        self._say(f"<AssumeRoleWithWebIdentityResponse>{answer}</AssumeRoleWithWebIdentityResponse>")

    @staticmethod
    def _until() -> str:
        return (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")

    def _say(self, text: str) -> None:
        self.send_response(200)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())


@pytest.fixture
def service() -> Iterator[Metadata]:
    with Metadata() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


WAYS = (
    "environment",
    "profile",
    "container",
    "container with a token",
    "container with a token file",
    "instance",
    "web identity",
)


@pytest.mark.parametrize("number", [2, 5, 8, 11, 13])
@pytest.mark.parametrize("way", WAYS)
def test_keys_are_replaced_while_a_write_runs(
    measured: MeasuredStore,
    service: Metadata,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    way: str,
    number: int,
) -> None:
    """The store refuses the old ones from a request on: the write goes on with the new ones."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "keys"))
    profile = "[default]\naws_access_key_id = {}\naws_secret_access_key = s\n"
    if way == "environment":
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "first")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
    elif way == "profile":
        (tmp_path / "keys").write_text(profile.format("first"))
    elif way == "instance":
        monkeypatch.setenv("AWS_METADATA_ENDPOINT", service.uri)
    elif way == "web identity":
        monkeypatch.setenv("AWS_CA_BUNDLE", str(service.secure(tmp_path)))
        service.token = "secret"
        (tmp_path / "token").write_text("secret")
        monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "token"))
        monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/flink")
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", service.uri)
    else:
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{service.uri}/keys")
        if way == "container with a token":
            monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "secret")
            service.token = "secret"
        if way == "container with a token file":
            (tmp_path / "token").write_text("secret")
            monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", str(tmp_path / "token"))
            service.token = "secret"
    lock, seen = threading.Lock(), [0]

    def replacing(kind: str, key: str) -> None:
        with lock:
            seen[0] += 1
            if seen[0] == number:
                service.key = "second"
                os.environ.update({"AWS_ACCESS_KEY_ID": "second"} if way == "environment" else {})
                if way == "profile":
                    (tmp_path / "keys").write_text(profile.format("second"))
                measured.refused.add("first")

    before = prepared(measured, "cp")
    measured.fault = replacing
    done = run(measured, *VERBS["cp"])
    assert seen[0] > number
    measured.refused.clear()
    expect_whole(measured, before, done)
    assert done == 0
