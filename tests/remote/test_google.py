"""Google's preconditions: what a publication asks for, at a server that keeps one object as Google documents it.

No emulator that PyPI or npm has refuses a request because of its generation (``gcp-storage-emulator`` ignores the
header), so the server here supports only ``x-goog-if-generation-match`` of the XML API.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from pyspark_savepoint.formats.errors import ConcurrentWriteError, SavepointWarning
from pyspark_savepoint.formats.filesystems.filesystem import locate
from pyspark_savepoint.formats.filesystems.storage_options import StorageOptions, StoragePath


class OneObject(ThreadingHTTPServer):
    """A bucket with one object, of generation 0 while it is not there."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.generation, self.data = 0, b""
        self.conditions: list[str | None] = []
        self.ignores = False


class _Handler(BaseHTTPRequestHandler):
    server: OneObject

    def log_message(self, *_: object) -> None:
        """Print nothing, to keep the output of tests clean."""

    def do_GET(self) -> None:
        self._answer(200 if self.server.generation else 404, self.server.data)

    def do_PUT(self) -> None:
        data = self.rfile.read(int(self.headers["content-length"]))
        condition = self.headers["x-goog-if-generation-match"]
        self.server.conditions.append(condition)
        if condition is not None and int(condition) != self.server.generation and not self.server.ignores:
            self._answer(412)
            return
        self.server.generation, self.server.data = self.server.generation + 7, data
        self._answer(200)

    def _answer(self, status: int, data: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("content-length", str(len(data)))
        self.send_header("etag", '"same"')
        self.send_header("last-modified", "Mon, 01 Jan 2024 00:00:00 GMT")
        self.send_header("x-goog-generation", str(self.server.generation))
        self.end_headers()
        self.wfile.write(data)


@pytest.fixture
def bucket() -> Iterator[OneObject]:
    server = OneObject()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join(10)


def test_publication_asks_for_the_generation_that_was_read(bucket: OneObject) -> None:
    options = StorageOptions.of({"endpoint": f"http://127.0.0.1:{bucket.server_port}", "anonymous": True})
    filesystem, _ = locate(StoragePath.of("gs://bucket/sp", options))
    path = "/sp/_metadata"
    assert filesystem.read_published(path) is None
    filesystem.publish(path, b"one")
    with pytest.raises(ConcurrentWriteError):
        filesystem.publish(path, b"two")
    one = filesystem.read_published(path)
    assert one is not None
    assert one.data == b"one"
    filesystem.publish(path, b"two", one)
    with pytest.raises(ConcurrentWriteError):
        filesystem.publish(path, b"three", one)
    assert bucket.data == b"two"
    assert bucket.conditions == ["0", "0", "7", "7"]


@pytest.mark.parametrize("ignores", [False, True])
def test_whether_conditions_are_honoured_is_tried(bucket: OneObject, ignores: bool) -> None:
    options = StorageOptions.of({"endpoint": f"http://127.0.0.1:{bucket.server_port}", "anonymous": True})
    filesystem, _ = locate(StoragePath.of("gs://bucket/sp", options))
    filesystem.publish("/sp/mark", b"")
    bucket.ignores = ignores
    for replacing in (False, True):
        if ignores:
            with pytest.warns(SavepointWarning, match="ignores the conditions"):
                assert filesystem.lacks_conditions("/sp/_metadata", "/sp/mark", replacing)
        else:
            assert not filesystem.lacks_conditions("/sp/_metadata", "/sp/mark", replacing)
    assert bucket.conditions == ["0", "0", "1"]
