"""A real object store on this machine, and a proxy before it that fails as networks and stores do."""

from __future__ import annotations

import http.client
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

HOST = "127.0.0.1"
#: Never sent anywhere: the store is on this machine, and the SDK is told not to ask the cloud's metadata service.
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_REGION": "us-east-1",
}
HOP_BY_HOP = {"connection", "content-length", "date", "server", "transfer-encoding"}

#: What happens to a request: None, a status, or the name of a failure.
Fault = Callable[[str, str], "int | str | None"]


class FaultyProxy(ThreadingHTTPServer):
    """Hands requests on to a store; ``fault(method, path)`` says which go wrong, and how.

    ``drop`` closes the connection, ``truncate`` after half of the body, ``stall`` says nothing, ``stall-body`` nothing
    after half of the body, ``drip`` is slow; a number is a status without a body. ``lose`` hands the request on, not
    the answer; ``late`` does so when the client has given up, after ``delay`` seconds; ``slow`` answers late.
    """

    daemon_threads = True

    def __init__(self, store: int) -> None:
        super().__init__((HOST, 0), _Handler)
        self.store = store
        self.fault: Fault = lambda method, path: None
        self.requests: list[tuple[str, str, str | None]] = []
        self.released = threading.Event()
        self.delay = 0.0
        #: Requests that are held back now; conditions hold one at a time, as in real stores.
        self.held = 0
        self.counting = threading.Lock()
        self.conditions = threading.Lock()

    @property
    def endpoint(self) -> str:
        return f"http://{HOST}:{self.server_port}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that gave up is what the tests are about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Else every answer on a connection that is kept waits 40 ms for an acknowledgement.
    disable_nagle_algorithm = True
    server: FaultyProxy

    def log_message(self, *_: Any) -> None:
        """Not on the tests' output."""

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
        elif isinstance(fault, int):
            self.send_response(fault)
            self.send_header("content-length", "0")
            self.end_headers()
        else:
            self._answer(body, fault)

    def _ask(self, body: bytes) -> tuple[http.client.HTTPResponse, bytes]:
        """The store's answer."""
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
    with socket.socket() as free:
        free.bind((HOST, 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", HOST, "-p", str(port)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, env={**os.environ, **CREDENTIALS}, **quiet)
    try:
        _wait_for(process, port)
        yield port
    finally:
        process.terminate()
        process.wait(10)


def _wait_for(process: subprocess.Popen[bytes], port: int) -> None:
    for _ in range(300):
        assert process.poll() is None, "the S3 server did not start: is moto[server] installed?"
        try:
            with socket.create_connection((HOST, port), timeout=1):
                return
        except OSError:
            time.sleep(0.1)
    raise AssertionError("the S3 server did not listen within 30 s")


@contextmanager
def faulty_proxy(store: int) -> Iterator[FaultyProxy]:
    """A proxy before a store."""
    proxy = FaultyProxy(store)
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
    """One object less."""
    _send(store, "DELETE", path)


def _send(store: int, method: str, path: str, data: bytes = b"") -> None:
    # The server wants to know who asks, and takes everybody's word.
    scope = f"{CREDENTIALS['AWS_ACCESS_KEY_ID']}/20200101/{CREDENTIALS['AWS_REGION']}/s3/aws4_request"
    signed = f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0"
    connection = http.client.HTTPConnection(HOST, store)
    connection.request(method, path, data, {"authorization": signed})
    answer = connection.getresponse()
    answer.read()
    connection.close()
    assert answer.status in (200, 204), (method, path, answer.status)
