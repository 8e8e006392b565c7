"""A real object store on this machine, and a proxy in front of it that fails as networks and stores do."""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode

HOST = "127.0.0.1"
#: Never sent anywhere: the store is on this machine, and the SDK is configured not to use the cloud's metadata service.
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_REGION": "us-east-1",
}
#: Azure's emulator, its account, and its public key.
AZURITE = shutil.which("azurite-blob")
ACCOUNT, AZURE_VERSION = "devstoreaccount1", "2021-08-06"
ACCOUNT_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
HOP_BY_HOP = {"connection", "content-length", "date", "keep-alive", "server", "transfer-encoding"}

#: The body of an answer that the store is busy.
BUSY = (
    b'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>ServerBusy</Code><Message>The server is currently unable to '
    b"receive requests. Please retry your request.</Message><RequestId>4442587FB7D0A2F9</RequestId></Error>"
)
#: Headers of conditional writes: of S3 and Azure, and of Google.
CONDITIONS = ("if-match", "if-none-match", "x-goog-if-generation-match")

#: What happens to a request: None, a status, or the name of a failure.
Fault = Callable[[str, str], "int | str | None"]


P = TypeVar("P", bound="FaultyProxy")


class FaultyProxy(ThreadingHTTPServer):
    """Hands requests on to a store; ``fault(method, path)`` says which go wrong, and how.

    ``drop`` closes the connection, ``truncate`` after half of the body, ``stall`` says nothing, ``stall-body``
    nothing after half of the body, ``short`` answers with half of it as if it were all, ``drip`` is slow; a number
    is a status, with a body from 500 on. ``lose`` hands the request on, not the answer; ``late`` does so when the
    client has given up, after ``delay`` seconds; ``slow`` answers late; ``forget`` acknowledges a request that it
    does not hand on. With ``ignores_conditions``, requests are handed on without them, as by gateways that drop
    headers which they do not know.
    """

    daemon_threads = True

    def __init__(self, store: int, handler: type[ProxyHandler] | None = None) -> None:
        super().__init__((HOST, 0), handler or ProxyHandler)
        self.store = store
        self.fault: Fault = lambda method, path: None
        self.requests: list[tuple[str, str, str | None]] = []
        self.released = threading.Event()
        self.delay = 0.0
        self.ignores_conditions = False
        #: Requests that are held back now; conditions hold one at a time, as in real stores.
        self.held = 0
        self.counting = threading.Lock()
        self.conditions = threading.Lock()

    @property
    def endpoint(self) -> str:
        return f"http://{HOST}:{self.server_port}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that gave up is what the tests are about."""


class ProxyHandler(BaseHTTPRequestHandler):
    """Hands one request on."""

    protocol_version = "HTTP/1.1"
    # Else every answer on a connection that is kept waits 40 ms for an acknowledgement.
    disable_nagle_algorithm = True
    server: FaultyProxy

    def log_message(self, *_: Any) -> None:
        """Print nothing, to keep the output of tests clean."""

    def handle_expect_100(self) -> bool:
        """Ask for the body where there is one; Azure's client takes what follows a needless 100 for a body."""
        return self.headers.get("content-length") == "0" or super().handle_expect_100()

    def _body(self) -> bytes:
        if self.headers.get("transfer-encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("content-length", 0)))
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        del self.headers["transfer-encoding"]
        body = b"".join(parts)
        self.headers["content-length"] = str(len(body))
        return body

    def _hand_on(self) -> None:
        body = self._body()
        self.server.requests.append((self.command, self.path, self.headers.get("range")))
        fault = self.server.fault(self.command, self.path)
        if fault == "drop":
            self._hang_up()
        elif fault == "stall":
            self._stall()
        elif fault == "lose":
            self._ask(body)
            self._hang_up()
        elif fault == "late":
            self._hold(body)
        elif fault == "damage":
            middle = len(body) // 2
            self._answer(body[:middle] + bytes([body[middle] ^ 1]) + body[middle + 1 :], None)
        elif fault == "forget":
            self.send_response(200)
            self.send_header("etag", '"d41d8cd98f00b204e9800998ecf8427e"')
            self.send_header("content-length", "0")
            self.end_headers()
        elif isinstance(fault, int):
            body = BUSY if fault >= 500 and self.command != "HEAD" else b""
            self.send_response(fault)
            self.send_header("content-type", "application/xml")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        else:
            self._answer(body, fault)

    def _ask(self, body: bytes) -> tuple[http.client.HTTPResponse, bytes]:
        """The store's answer."""
        if self.server.ignores_conditions:
            for name in CONDITIONS:
                del self.headers[name]
        conditional = self.headers.get("if-match") or self.headers.get("if-none-match")
        with self.server.conditions if conditional else nullcontext():
            store = http.client.HTTPConnection(HOST, self.server.store)
            store.request(self.command, self.path, body, dict(self.headers))
            answer = store.getresponse()
            data = answer.read()
            store.close()
        return answer, data

    def _hold(self, body: bytes) -> None:
        with self.server.counting:
            self.server.held += 1
        try:
            time.sleep(self.server.delay)
            self._ask(body)
        finally:
            with self.server.counting:
                self.server.held -= 1
        self._hang_up()

    def _answer(self, body: bytes, fault: str | None) -> None:
        if fault == "slow":
            time.sleep(self.server.delay / 4)
        answer, data = self._ask(body)
        if fault == "short":
            data = data[: len(data) // 2]
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in HOP_BY_HOP:
                self.send_header(name, value)
        size = answer.getheader("content-length") if self.command == "HEAD" else str(len(data))
        self.send_header("content-length", size or "0")
        self.end_headers()
        half = len(data) // 2
        if fault in ("truncate", "stall-body"):
            self.wfile.write(data[:half])
            self.wfile.flush()
            self._hang_up() if fault == "truncate" else self._stall()
        elif fault == "drip":
            for low in range(0, len(data), 1 << 14):
                time.sleep(0.01)
                self.wfile.write(data[low : low + (1 << 14)])
        elif self.command != "HEAD":
            self.wfile.write(data)

    def _hang_up(self) -> None:
        with suppress(OSError):  # the client was faster
            self.connection.shutdown(socket.SHUT_RDWR)
        self.close_connection = True

    def _stall(self) -> None:
        self.server.released.wait(60)
        self.close_connection = True

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _hand_on  # noqa: N815  (names of the base class)


@contextmanager
def s3_store() -> Iterator[int]:
    """A running S3 server; its port."""
    port = _free_port()
    with _running([sys.executable, "-m", "moto.server", "-H", HOST, "-p", str(port)], port):
        yield port


@contextmanager
def azure_store() -> Iterator[int]:
    """Azure's emulator with a container ``bucket``; its port."""
    port = _free_port()
    options = ["--silent", "--skipApiVersionCheck", "--inMemoryPersistence", "--disableTelemetry"]
    with _running([str(AZURITE), *options, "--blobPort", str(port)], port):
        _make_container(port, "bucket")
        yield port


def shared_access_signature(container: str, permissions: str = "racwdl", expiry: str = "2099-01-01T00:00:00Z") -> str:
    """A token for the blobs of one container of the emulator."""
    place = f"/blob/{ACCOUNT}/{container}"
    fields = [permissions, "", expiry, place, "", "", "", AZURE_VERSION, "c", "", "", "", "", "", "", ""]
    signature = _signed("\n".join(fields))
    return urlencode({"sp": permissions, "se": expiry, "sv": AZURE_VERSION, "sr": "c", "sig": signature})


def _make_container(port: int, name: str) -> None:
    """Make a container, by a request that is signed with the account's key."""
    moment = datetime.now(UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")
    headers = f"x-ms-date:{moment}\nx-ms-version:{AZURE_VERSION}\n"
    signature = _signed("PUT" + "\n" * 12 + f"{headers}/{ACCOUNT}/{ACCOUNT}/{name}\nrestype:container")
    connection = http.client.HTTPConnection(HOST, port)
    authorization = {"x-ms-date": moment, "x-ms-version": AZURE_VERSION, "content-length": "0"}
    authorization["authorization"] = f"SharedKey {ACCOUNT}:{signature}"
    connection.request("PUT", f"/{ACCOUNT}/{name}?restype=container", headers=authorization)
    answer = connection.getresponse()
    connection.close()
    assert answer.status == 201, answer.status


def _signed(text: str) -> str:
    return base64.b64encode(hmac.digest(base64.b64decode(ACCOUNT_KEY), text.encode(), hashlib.sha256)).decode()


def _free_port() -> int:
    with socket.socket() as free:
        free.bind((HOST, 0))
        return int(free.getsockname()[1])


@contextmanager
def _running(command: list[str], port: int) -> Iterator[None]:
    """A server of a store, while it listens."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, env={**os.environ, **CREDENTIALS}, **quiet)
    try:
        _wait_for(process, port)
        yield
    finally:
        process.terminate()
        process.wait(30)


def _wait_for(process: subprocess.Popen[bytes], port: int) -> None:
    for _ in range(1200):
        assert process.poll() is None, "the server did not start: is moto[server] installed?"
        try:
            with socket.create_connection((HOST, port), timeout=1):
                return
        except OSError:
            time.sleep(0.1)
    raise AssertionError("the server did not listen within two minutes")


@contextmanager
def faulty_proxy(store: int) -> Iterator[FaultyProxy]:
    """A proxy before a store."""
    with running_proxy(FaultyProxy(store)) as proxy:
        yield proxy


@contextmanager
def running_proxy(proxy: P) -> Iterator[P]:
    """A proxy, while it listens."""
    thread = threading.Thread(target=proxy.serve_forever, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.released.set()
        proxy.shutdown()
        proxy.server_close()
        thread.join(10)


def upload(store: int, bucket: str, folder: Path, prefix: str) -> None:
    """The files of a folder as objects."""
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            put(store, f"/{bucket}/{prefix}/{file.relative_to(folder).as_posix()}", file.read_bytes())


def put(store: int, path: str, data: bytes = b"") -> None:
    """One object, or a bucket."""
    _send(store, "PUT", path, data)


def delete(store: int, path: str) -> None:
    """Delete one object."""
    _send(store, "DELETE", path)


def _send(store: int, method: str, path: str, data: bytes = b"") -> None:
    # The server requires credentials and accepts any.
    scope = f"{CREDENTIALS['AWS_ACCESS_KEY_ID']}/20200101/{CREDENTIALS['AWS_REGION']}/s3/aws4_request"
    signed = f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0"
    connection = http.client.HTTPConnection(HOST, store)
    connection.request(method, path, data, {"authorization": signed})
    answer = connection.getresponse()
    answer.read()
    connection.close()
    assert answer.status in (200, 204), (method, path, answer.status)
