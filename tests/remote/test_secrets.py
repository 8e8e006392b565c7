"""No secret is shown: each is planted, each kind of error is provoked at each kind of store, and all output searched.

The stores here are worse than real ones: their answers repeat the whole request.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from xml.sax.saxutils import escape

import pytest

from tests.remote.secrets_told import FAULTS

HOME = Path(__file__).parents[2]
STATUS = {"denied": 403, "missing": 404, "busy": 503}
CODES = {"denied": "AuthenticationFailed", "missing": "BlobNotFound", "busy": "ServerBusy"}


class Repeater(ThreadingHTTPServer):
    """Answers requests with an error that has the whole request in it."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.heard: list[str] = []


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Repeater

    def log_message(self, *_: object) -> None:
        """Print nothing, to keep the output of tests clean."""

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0)).decode("latin-1")
        heard = f"{self.command} {self.path} {dict(self.headers)} {body}"
        self.server.heard.append(heard)
        fault = next((name for name in FAULTS if f"/{name}" in self.path or f"{name}." in heard), "denied")
        if fault == "cut":
            if "/account/" not in self.path:
                self.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nbegin")
            self.close_connection = True
            return
        said = f"<Error><Code>{CODES[fault]}</Code><Message>{escape(heard)}</Message></Error>".encode()
        self.send_response(STATUS[fault])
        if self.command != "HEAD":  # without a body Azure's client ends the process
            self.send_header("content-type", "application/xml")
        self.send_header("x-ms-error-code", CODES[fault])
        self.send_header("x-ms-request-id", escape(self.path))
        self.send_header("content-length", str(len(said)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(said)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = do_PATCH = _answer  # noqa: N815  (names of the base class)


@pytest.fixture(scope="module")
def repeater() -> Iterator[Repeater]:
    with Repeater() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()


def planted(folder: Path, port: int) -> dict[str, str]:
    """An environment with a secret in each variable that has one."""
    key = {
        "type": "authorized_user",
        "client_id": "id.apps.googleusercontent.com",
        "client_secret": "mArKeR-client-secret",
        "refresh_token": "mArKeR-refresh/token+",
        "token_uri": f"http://127.0.0.1:{port}/denied/token",
    }
    (folder / "key.json").write_text(json.dumps(key))
    return {
        "AWS_ACCESS_KEY_ID": "AKIAmArKeRKEYID",
        "AWS_SECRET_ACCESS_KEY": "mArKeR/secret+key=",
        "AWS_SESSION_TOKEN": "mArKeR/session+token==",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AZURE_CLIENT_SECRET": "mArKeR~client.secret",
        "AZURE_CLIENT_ID": "00000000-0000-0000-0000-000000000000",
        "AZURE_TENANT_ID": "00000000-0000-0000-0000-000000000000",
        "GOOGLE_APPLICATION_CREDENTIALS": str(folder / "key.json"),
    }


@pytest.mark.parametrize(
    "azure",
    [
        {"AZURE_STORAGE_SAS_TOKEN": "?sv=2024-11-04&sp=r&sig=mArKeR%2Fsig%3D"},
        {"AZURE_STORAGE_SAS_TOKEN": "sv=2024-11-04&sp=r&sig=mArKeR%2Fsig%3D"},
        {"AZURE_STORAGE_KEY": "bUFyS2VSbUFyS2VSbUFyS2VS"},
    ],
    ids=["token", "token without ?", "key"],
)
def test_no_secret_is_told(repeater: Repeater, tmp_path: Path, azure: dict[str, str]) -> None:
    repeater.heard.clear()
    # The other errors are the same with any key, and take long.
    faults = FAULTS if "?" in azure.get("AZURE_STORAGE_SAS_TOKEN", "") else FAULTS[:1]
    command = [sys.executable, "-m", "tests.remote.secrets_told", str(repeater.server_port), *faults]
    environment = {**os.environ, **planted(tmp_path, repeater.server_port), **azure}
    done = subprocess.run(command, cwd=HOME, env=environment, capture_output=True, text=True, timeout=300, check=False)
    output = done.stdout + done.stderr
    assert done.returncode == 0, output[-3000:]

    heard = "\n".join(repeater.heard)
    # The client asks Google itself for tokens, whatever the file of a user says.
    for secret in ("AKIAmArKeRKEYID", "mArKeR/session+token=="):
        assert secret in heard, "a store was not sent what it should have repeated"
    if "AZURE_STORAGE_SAS_TOKEN" in azure:
        assert "/account/denied?" in heard.replace("/sp?", "?")
        assert "sig=mArKeR%2Fsig%3D" in heard
    for store in ("s3", "gs", "abfss"):
        assert output.count(f"{store} ") >= 4
        assert f"{store} denied open raised" in output
    told = [line[:600] for line in output.splitlines() if "mArKeR" in line or "bUFyS2VS" in line]
    assert not told, "\n".join(told)


@pytest.mark.spark
@pytest.mark.parametrize("regex", [None, "(?i)url|storageOptions|path"])
def test_spark_tells_no_secret_but_options_of_views(tmp_path: Path, regex: str | None) -> None:
    """Spark itself shows the options of ``CREATE VIEW``, unless its own setting redacts them, as the page says."""
    shop = HOME / "tests" / "oracle" / "savepoints" / "shop" / "savepoint"
    command = [sys.executable, "-m", "tests.remote.secrets_in_spark", str(tmp_path), str(shop), *filter(None, [regex])]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    for name in ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"):
        environment.pop(name, None)
    done = subprocess.run(command, cwd=HOME, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    lines = done.stdout.splitlines()
    assert sum(line.startswith("error") for line in lines) == 13
    assert "proved []" in lines
    assert any(line.startswith("progress") and "batchId" in line for line in lines)
    assert any(line.startswith("plan") for line in lines)
    assert any("SparkListenerSQLExecutionStart" in line for line in lines)
    told = [line for line in lines if "mArKeR" in line]
    assert all("CreateTempViewUsing" in line for line in told), "\n".join(line[:600] for line in told)
    assert bool(told) == (regex is None)
