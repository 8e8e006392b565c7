"""What clients send when a store redirects a request to another host, where that cannot be refused.

``test_requests.py`` has the stores whose redirects are an error.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pyarrow as pa
import pyarrow.fs as arrow
import pytest
from obstore.store import AzureStore, GCSStore

SECRET = "SECRET"


class Server(ThreadingHTTPServer):
    """A store that redirects all requests to ``target``, or answers with a few bytes."""

    daemon_threads = True

    def __init__(self, target: Server | None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.target, self.received = target, list[str]()
        threading.Thread(target=self.serve_forever, daemon=True).start()


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def log_message(self, *_: object) -> None:
        """Print nothing, to keep the output of tests clean."""

    def do_GET(self) -> None:
        target = self.server.target
        self.server.received.append(f"{self.path}\n{self.headers}")
        if target is not None:
            self.send_response(307)
            self.send_header("location", f"http://localhost:{target.server_port}{self.path}")
        else:
            self.send_response(200)
            self.send_header("etag", '"one"')
            self.send_header("last-modified", "Mon, 01 Jan 2024 00:00:00 GMT")
        self.send_header("content-length", "0" if target else "5")
        self.end_headers()
        self.wfile.write(b"" if target or self.command == "HEAD" else b"hello")

    def do_HEAD(self) -> None:
        self.do_GET()


@pytest.fixture
def servers() -> Iterator[tuple[Server, Server]]:
    other = Server(None)
    first = Server(other)
    yield first, other
    for server in (first, other):
        server.shutdown()
        server.server_close()


def token() -> dict[str, object]:
    return {"token": SECRET, "expires_at": datetime.now(UTC) + timedelta(hours=1)}


def google(host: str) -> None:
    options = {"client_options": {"allow_http": True}, "retry_config": {"max_retries": 0}}
    GCSStore("bucket", config={"base_url": f"http://{host}"}, credential_provider=token, **options).get("file").bytes()


def azure(host: str) -> None:
    options = {"client_options": {"allow_http": True}, "retry_config": {"max_retries": 0}}
    store = AzureStore("c", account_name="a", endpoint=f"http://{host}", credential_provider=token, **options)
    store.get("file").bytes()


def arrow_google(host: str) -> None:
    expires = datetime.now(UTC) + timedelta(hours=1)
    limit = {"retry_time_limit": timedelta(seconds=2)}
    store = arrow.GcsFileSystem(
        access_token=SECRET, credential_token_expiration=expires, endpoint_override=host, scheme="http", **limit
    )
    store.open_input_file("bucket/file").read()


def arrow_s3(host: str) -> None:
    retries = arrow.AwsStandardS3RetryStrategy(max_attempts=1)
    keys = {"access_key": "a", "secret_key": "the-key", "session_token": SECRET}
    store = arrow.S3FileSystem(
        **keys, endpoint_override=host, scheme="http", region="x", retry_strategy=retries, request_timeout=5
    )
    store.open_input_file("bucket/file").read()


@pytest.mark.parametrize("ask", [google, azure])
def test_identities_are_not_sent(servers: tuple[Server, Server], ask: Callable[[str], None]) -> None:
    """Tokens of Google's and Azure's identities: the redirect is followed without them."""
    first, other = servers
    ask(f"127.0.0.1:{first.server_port}")
    assert SECRET in first.received[0]
    assert other.received
    assert SECRET not in "".join(other.received)


def test_google_by_pyarrow_does_not_follow(servers: tuple[Server, Server]) -> None:
    first, other = servers
    with pytest.raises(pa.ArrowException, match="307"):
        arrow_google(f"127.0.0.1:{first.server_port}")
    assert SECRET in first.received[0]
    assert other.received == []


def test_s3_by_pyarrow_sends_the_session_token_without_a_signature(servers: tuple[Server, Server]) -> None:
    """What README says of ``roleArn``: pyarrow has no option against it."""
    first, other = servers
    arrow_s3(f"127.0.0.1:{first.server_port}")
    assert "Signature=" in first.received[0]
    assert SECRET in other.received[0]
    assert "Signature=" not in "".join(other.received)
    assert "the-key" not in "".join(other.received)
