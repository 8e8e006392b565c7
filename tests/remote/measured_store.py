"""An S3 server in this process that logs its requests, delays them, and fails as it is told, with bodies of XML.

It has what the package asks of a store: ranges, conditions, pages of lists, copies, uploads in parts, and deletions of
many objects. It checks no signatures: keys of ``refused`` are refused.
"""

from __future__ import annotations

import hashlib
import re
import socket
import struct
import threading
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import formatdate
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote
from xml.sax.saxutils import escape, unescape

PAGE = 1000
NAMESPACE = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'
TIME = "2024-01-01T00:00:00.000Z"


@dataclass
class Request:
    """A request that was answered: of which kind, for what, with how many bytes in and out, and when."""

    kind: str
    key: str
    status: int
    taken: int
    given: int
    begin: float
    end: float


#: What happens to a request of a kind for a key: nothing; an error of a status; ``reset`` or ``stall``: it is not done,
#: and the connection breaks or says nothing; ``lost``, ``vanished`` or ``hang``: it is done, and answered by 503, by a
#: broken connection or not at all; ``cut`` or ``cut-stall``: half of the answer comes, then the connection breaks or
#: says nothing.
Fault = Callable[[str, str], "int | str | None"]


class MeasuredStore(ThreadingHTTPServer):
    """The server, with its objects, its log and its rules."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects: dict[str, bytes] = {}
        self.uploads: dict[str, dict[int, bytes]] = {}
        self.requests: list[Request] = []
        #: The headers of each.
        self.headers: list[dict[str, str]] = []
        self.latency = 0.0
        #: Bytes in a second of one connection; 0 for as many as there are.
        self.bandwidth = 0.0
        self.fault: Fault = lambda kind, key: None
        self.refused: set[str] = set()
        #: Seconds for which a connection says nothing.
        self.silence = 3.0
        #: Kinds of requests that the keys have no right to.
        self.denied: set[str] = set()
        #: What answers to lists become: stores that lie.
        self.listing: Callable[[bytes], bytes] = lambda page: page
        #: Where requests are sent instead, by their keys.
        self.elsewhere: Callable[[str], str | None] = lambda key: None
        self.lock = threading.Lock()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def log(self) -> list[Request]:
        """The requests, by the name that other stores have for them."""
        return self.requests

    def upload(self, folder: Path, prefix: str) -> None:
        """Put the files of a folder as objects."""
        for file in folder.rglob("*"):
            if file.is_file():
                self.put(f"{prefix}/{file.relative_to(folder).as_posix()}", file.read_bytes())

    def put(self, name: str, data: bytes) -> None:
        """Put one object."""
        self.objects[name] = data

    def sizes(self) -> dict[str, int]:
        """Return all objects with their sizes."""
        return {name: len(data) for name, data in self.objects.items()}

    def remove(self, names: Iterable[str]) -> None:
        """Remove objects."""
        for name in names:
            del self.objects[name]

    def kinds(self) -> dict[str, int]:
        """Return the number of requests of each kind."""
        kinds = [request.kind for request in self.requests]
        return {kind: kinds.count(kind) for kind in sorted(set(kinds))}

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that gave up is what some tests are about."""


def chain(requests: Iterable[Request]) -> int:
    """Return the most requests of which none overlaps another: how many waited for the one before."""
    number, end = 0, float("-inf")
    for request in sorted(requests, key=lambda one: one.end):
        if request.begin >= end:
            number, end = number + 1, request.end
    return number


def waited(requests: Iterable[Request]) -> float:
    """Return the seconds with at least one request under way."""
    total, until = 0.0, float("-inf")
    for request in sorted(requests, key=lambda one: one.begin):
        total += max(0.0, request.end - max(request.begin, until))
        until = max(until, request.end)
    return total


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: MeasuredStore

    def log_message(self, *_: Any) -> None:
        """Print nothing, to keep the output of tests clean."""

    def _do(self) -> None:
        begin = time.monotonic()
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        path, _, text = self.path.partition("?")
        query = {name: values[0] for name, values in parse_qs(text, keep_blank_values=True).items()}
        key = unquote(path).removeprefix("/bucket").lstrip("/")
        kind = self._kind(key, query)
        fault = self.server.fault(kind, key)
        if self.server.latency:
            time.sleep(self.server.latency)
        named = re.search("Credential=([^/]+)/", self.headers.get("authorization", ""))
        if named is not None and named[1] in self.server.refused:
            answer = _error(400, "ExpiredToken")
        elif (place := self.server.elsewhere(key)) is not None:
            answer = 307, {"location": place + self.path}, b""
        elif kind in self.server.denied:
            answer = _error(403, "AccessDenied")
        elif isinstance(fault, int):
            answer = _error(fault, "SlowDown")
        elif fault in ("reset", "stall"):
            self._break(fault, Request(kind, key, 0, len(body), 0, begin, begin))
            return
        else:
            with self.server.lock:
                answer = self._answer(kind, key, query, body)
            if fault == "lost":
                answer = _error(503, "SlowDown")
            elif fault in ("vanished", "hang"):
                self._break(fault, Request(kind, key, 0, len(body), 0, begin, begin))
                return
        status, headers, data = answer
        if self.server.bandwidth:
            time.sleep((len(body) + len(data)) / self.server.bandwidth)
        given = 0 if kind == "HEAD" else len(data)
        logged = Request(kind, key or query.get("prefix", ""), status, len(body), given, begin, time.monotonic())
        self.server.headers.append(dict(self.headers.items()))
        self.server.requests.append(logged)  # before the client has the answer, and may ask for the log
        self.send_response(status)
        for name, value in {"content-length": str(len(data)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if fault in ("cut", "cut-stall"):
            self.wfile.write(data[: len(data) // 2])
            self._hang_up(fault, logged)
            return
        if kind != "HEAD":
            self.wfile.write(data)
        logged.end = time.monotonic()

    def _break(self, fault: str, logged: Request) -> None:
        """End the connection without an answer, at once or after some silence."""
        self.server.headers.append(dict(self.headers.items()))
        self.server.requests.append(logged)
        self._hang_up(fault, logged)

    def _hang_up(self, fault: str, logged: Request) -> None:
        if fault in ("stall", "hang", "cut-stall"):
            time.sleep(self.server.silence)
        logged.end = time.monotonic()
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _do  # noqa: N815  (names of the base class)

    def _kind(self, key: str, query: dict[str, str]) -> str:
        if self.command == "GET":
            return "GET" if key else "LIST"
        if self.command == "PUT":
            return "COPY" if self._copied() else "PART" if "uploadId" in query else "PUT"
        if self.command == "POST":
            return "DELETES" if "delete" in query else "BEGIN" if "uploads" in query else "COMPLETE"
        if "uploadId" in query:
            return "ABORT"
        return self.command

    def _answer(self, kind: str, key: str, query: dict[str, str], body: bytes) -> tuple[int, dict[str, str], bytes]:
        objects, uploads = self.server.objects, self.server.uploads
        now = objects.get(key)
        if kind in ("GET", "HEAD"):
            return self._read(now)
        if kind == "LIST":
            page = _listed(sorted(objects), objects, query)
            return 200, {"content-type": "application/xml"}, self.server.listing(page)
        if kind == "COPY":
            source = unquote(self._copied()).lstrip("/").removeprefix("bucket/")
            if source not in objects:
                return _error(404, "NoSuchKey")
            objects[key] = objects[source]
            return _said("CopyObjectResult", f"<LastModified>{TIME}</LastModified><ETag>{_tag(objects[key])}</ETag>")
        if kind == "BEGIN":
            uploads[name := f"upload-{len(uploads)}"] = {}
            return _said("InitiateMultipartUploadResult", f"<UploadId>{name}</UploadId>")
        if kind in ("PART", "COMPLETE", "ABORT"):
            parts = uploads.get(query["uploadId"])
            if parts is None:
                return _error(404, "NoSuchUpload")
            if kind == "PART":
                parts[int(query["partNumber"])] = body
                return 200, {"etag": _tag(body)}, b""
            del uploads[query["uploadId"]]  # as stores do that forget what is complete
            if kind == "ABORT":
                return 204, {}, b""
            objects[key] = b"".join(data for _, data in sorted(parts.items()))
            return _said("CompleteMultipartUploadResult", f"<ETag>{_tag(objects[key])}</ETag>")
        if kind == "PUT":
            if not self._may_put(now):
                return _error(412, "PreconditionFailed")
            objects[key] = body
            return 200, _version(body), b""
        names = (
            [unescape(name) for name in re.findall("<Key>(.*?)</Key>", body.decode())] if kind == "DELETES" else [key]
        )
        for name in names:
            objects.pop(name, None)
        deleted = "".join(f"<Deleted><Key>{escape(name)}</Key></Deleted>" for name in names)
        return _said("DeleteResult", deleted) if kind == "DELETES" else (204, {}, b"")

    def _copied(self) -> str:
        """Return what is copied, as S3 or Google is asked for it."""
        return self.headers.get("x-amz-copy-source") or self.headers.get("x-goog-copy-source") or ""

    def _may_put(self, now: bytes | None) -> bool:
        """Return whether the conditions of S3 and of Google hold for an object that is there, or is not."""
        generation = self.headers.get("x-goog-if-generation-match")
        if generation is not None and generation != ("0" if now is None else _version(now)["x-goog-generation"]):
            return False
        if self.headers.get("if-none-match") == "*" and now is not None:
            return False
        wanted = self.headers.get("if-match")
        return not wanted or (now is not None and wanted == _tag(now))

    def _read(self, now: bytes | None) -> tuple[int, dict[str, str], bytes]:
        if now is None:
            return _error(404, "NoSuchKey")
        headers = {**_version(now), "last-modified": formatdate(1704067200, usegmt=True)}
        if self.headers.get("if-none-match") == headers["etag"]:
            return 304, headers, b""
        if self.headers.get("if-match") not in (None, headers["etag"]):
            return _error(412, "PreconditionFailed")
        found = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("range", ""))
        if found is None:
            return 200, headers, now
        start = int(found[1]) if found[1] else max(0, len(now) - int(found[2]))
        stop = min(int(found[2]) + 1, len(now)) if found[1] and found[2] else len(now)
        if start >= len(now):
            return _error(416, "InvalidRange")
        return 206, {**headers, "content-range": f"bytes {start}-{stop - 1}/{len(now)}"}, now[start:stop]


@lru_cache(maxsize=1024)
def _tag(data: bytes) -> str:
    return f'"{hashlib.md5(data, usedforsecurity=False).hexdigest()}"'


def _version(data: bytes) -> dict[str, str]:
    """Return the headers that tell the version of an object: of S3, and of Google, where it is a number."""
    return {"etag": _tag(data), "x-goog-generation": str(1 + int(_tag(data)[1:13], 16))}


def _said(kind: str, content: str) -> tuple[int, dict[str, str], bytes]:
    return 200, {"content-type": "application/xml"}, f"<{kind} {NAMESPACE}>{content}</{kind}>".encode()


def _error(status: int, code: str) -> tuple[int, dict[str, str], bytes]:
    text = (
        f'<?xml version="1.0" encoding="UTF-8"?><Error><Code>{code}</Code><Message>{code} {"." * 200}</Message></Error>'
    )
    return status, {"content-type": "application/xml"}, text.encode()


def _listed(names: list[str], objects: dict[str, bytes], query: dict[str, str]) -> bytes:
    """Return one page of a list."""
    prefix, delimiter, after = query.get("prefix", ""), query.get("delimiter", ""), query.get("continuation-token", "")
    entries: list[str] = []
    last, at = "", bisect_right(names, after) if after else bisect_left(names, prefix)
    while at < len(names) and names[at].startswith(prefix) and len(entries) < PAGE:
        name = names[at]
        folder, slash, _ = name[len(prefix) :].partition(delimiter) if delimiter else (name, "", "")
        if slash:
            last = f"{prefix}{folder}{slash}"
            entries.append(f"<CommonPrefixes><Prefix>{escape(last)}</Prefix></CommonPrefixes>")
            last += "\U0010ffff"
            at = bisect_left(names, last)
            continue
        size, tag = len(objects[name]), escape(_tag(objects[name]))
        entries.append(
            f"<Contents><Key>{escape(name)}</Key><LastModified>{TIME}</LastModified><ETag>{tag}</ETag><Size>{size}</Size></Contents>"
        )
        last, at = name, at + 1
    more = at < len(names) and names[at].startswith(prefix)
    token = f"<NextContinuationToken>{escape(last)}</NextContinuationToken>" if more else ""
    head = (
        f"<Name>bucket</Name><KeyCount>{len(entries)}</KeyCount><IsTruncated>{str(more).lower()}</IsTruncated>{token}"
    )
    return f"<ListBucketResult {NAMESPACE}>{head}{''.join(entries)}</ListBucketResult>".encode()


@contextmanager
def measured_store() -> Iterator[MeasuredStore]:
    """A store without objects, as long as the block runs."""
    with MeasuredStore() as store:
        thread = threading.Thread(target=store.serve_forever, daemon=True)
        thread.start()
        try:
            yield store
        finally:
            store.shutdown()
            thread.join(10)
