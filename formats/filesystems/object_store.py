r"""Object stores: S3, Google and Azure through one client, obstore (Rust's ``object_store``).

Everything is one client's work, so that there is one chain of credentials, one policy of retries and one dialect of
errors: reads of ranges, lists, copies, uploads, and publication under a condition (S3 has ``If-None-Match`` and
``If-Match`` on PutObject, Google has generations, Azure ETags). Where it cannot use an identity that pyarrow can
(``roleArn``, ``serviceAccount``, profiles without boto3, processes forked from one that used it), ``ArrowStore`` takes
over (``filesystem``).

One GET opens a file: its answer has size, ETag and time besides bytes. Later ranges carry ``If-Match``, and the ETag of
each answer is compared too, for stores that ignore conditions.

A request that a store could not answer is made again, after pauses that grow and are random, until the budget of time
is used up: 5xx and 429 with any body, resets, stalls, short answers. The requests of a verb have one budget together,
of the seconds in which at least one of them fails. Where no request has been answered yet, the reason
is rather the endpoint, and the budget is shorter. Refused credentials are asked for again once.
"""

from __future__ import annotations

import contextlib
import functools
import os
import random
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import chain, count, repeat
from types import MappingProxyType
from typing import Any, NoReturn, TypeVar

from pyspark_savepoint.formats.errors import (
    ConcurrentWriteError,
    CorruptStateError,
    FileReplacedError,
    OutputError,
    SavepointError,
    StateFileNotFoundError,
    StorageError,
    StoreBusyError,
    UncertainOutcomeError,
)
from pyspark_savepoint.formats.filesystems.credentials import azure_identity, expect_google, s3_credentials
from pyspark_savepoint.formats.filesystems.listing import Listing
from pyspark_savepoint.formats.filesystems.remote import (
    CONNECT_TIMEOUT,
    MISSING_BUCKET,
    REQUEST_TIMEOUT,
    RETRY_LIMIT,
    StoreTarget,
    azure_settings,
    bucket_of,
    parts_of,
    refuse,
    region_of,
    storage_error,
)
from pyspark_savepoint.formats.filesystems.remote_files import RemoteInputFile, fetched
from pyspark_savepoint.formats.io.local_files import read_regular, too_large
from pyspark_savepoint.formats.io.one_verb import failing
from pyspark_savepoint.formats.io.snapshot_files import MAX_PUBLISHED, FileInfo, Opening, Published
from pyspark_savepoint.formats.redaction import redacted

T = TypeVar("T")
ADDRESS = re.compile(r"[0-9.]+(?::|$)|\[")
STATUS = re.compile(r"status code: (\d{3})")
#: Status codes of stores without conditional writes.
NO_CONDITIONS = frozenset({"405", "501"})
#: Status codes of a proxy or timeout, after which the store may still complete the request.
IN_BETWEEN = frozenset({"408", "502", "504"})
BUSY = frozenset({"429", "500", "503"})
#: Answers to what was asked for: not modified, another version, no such range.
UNCHANGED, CHANGED, NO_RANGE = ANSWERS = ("304", "412", "416")
#: The answer of a store that has no ranges: the whole file.
NO_RANGES = "200"
#: What a store says of credentials that have expired or were replaced; answers to HEAD have no text.
REFUSED = re.compile(
    r"status code: 401|ExpiredToken|InvalidAccessKeyId|InvalidToken|TokenRefreshRequired|RequestExpired"
    r"|AuthenticationFailed"
    r"|Error performing HEAD .*status code: 40[03]|Unauthenticated|lacked valid authentication",
    re.DOTALL,
)
#: The client's words for requests without an answer, and for a place that is not reached at all.
UNANSWERED = re.compile(
    r"HTTP error: |error sending request|kind: (?:Connect|Timeout|Interrupted|Request|Decode|Unknown)"
)
UNREACHED = re.compile(r"kind: Connect|Connect,\s*TimedOut")
#: Where requests to other hosts than the store's are sent, which redirects would send credentials to: no one is there.
NOWHERE = "127.0.0.1:0"
#: Variables that name proxies, to which requests are sent instead; the client reads them.
PROXIES = frozenset({"http_proxy", "https_proxy", "all_proxy"})
HOPELESS = re.compile(rf"{re.escape(NOWHERE)},|certificate|InvalidContentType|builder error|invalid URL", re.IGNORECASE)
#: Innermost causes in the client's description of an error, which are appended to its first line.
CAUSE = re.compile(
    r'"(dns error)"|kind: (ConnectionRefused|ConnectionReset|TimedOut)|(InvalidContentType|UnknownIssuer)'
    r'|(?:Body|Connect),\s*(TimedOut)|(invalid peer certificate[^"\n]*)'
)
#: The first pause and the longest, in seconds; each is random between half of it and all.
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 10.0
#: Seconds within which a store must be reached for the first time.
REACH_LIMIT = 4.0
#: The request timeout grows by one second for each of these bytes.
BYTES_PER_SECOND = 1 << 20
#: Maximum size of a file of certificates, in bytes.
MAX_CERTIFICATES = 1 << 26
#: Files up to this size are uploaded in one request, which is repeated as a whole; larger ones in parts of it.
UPLOAD, UPLOADERS = 8 << 20, 3
#: Attempts of requests that the client itself repeats: pages of lists and deletions of many.
INNER_ATTEMPTS = 4
#: Attempts of the parts of an upload, which its budget ends.
MANY = 1000

#: A version that no object has, in the form of every store: an ETag, and a generation of Google's.
NEVER = (("e_tag", '"0x8D0000000000000"'), ("version", "1"))
#: Seconds between attempts to try the conditions of a store.
PROBE_PAUSES = (0.1, 0.3, 1.0)


class _Process:
    """Whether this process can use obstore: a child of a process that used it has none of its threads."""

    used = False
    forked = False

    @classmethod
    def after_fork(cls) -> None:
        cls.forked = cls.used


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_Process.after_fork)


@dataclass(frozen=True)
class _Client:
    """Arguments of an obstore client; ``patience`` is the timeout of a small request in seconds."""

    kind: str
    arguments: Mapping[str, Any] = field(repr=False)
    connect_timeout: float = CONNECT_TIMEOUT
    patience: float = REQUEST_TIMEOUT
    attempts: int | None = None
    budget: float = RETRY_LIMIT
    client_options: Mapping[str, Any] = field(default_factory=dict)

    def open(self, size: int, attempts: int) -> Any:
        """Return a client for requests of ``size`` bytes that makes ``attempts`` attempts itself."""
        from obstore import store

        _Process.used = True
        kinds = {"s3": store.S3Store, "gs": store.GCSStore, "abfs": store.AzureStore}
        timeouts = {
            "connect_timeout": timedelta(seconds=self.connect_timeout),
            "read_timeout": timedelta(seconds=self.patience + size / BYTES_PER_SECOND),
            "timeout": timedelta(hours=1),
        }
        return kinds[self.kind](
            **self.arguments,
            client_options={**timeouts, **self.client_options},
            retry_config={
                "max_retries": attempts - 1,
                "retry_timeout": timedelta(seconds=self.budget),
                "backoff": {"max_backoff": timedelta(seconds=LONGEST_PAUSE)},
            },
        )


class RefusedError(Exception):
    """The store's answer to a condition that does not hold, or to a range that is not there: its status."""


class _Answer:
    """What one GET brings: bytes from ``start`` on, and what is known of the whole object."""

    def __init__(self, response: Any) -> None:
        meta = response.meta
        self.size = int(meta["size"])
        self.version = tuple((name, meta[name]) for name in ("e_tag", "version") if meta.get(name))
        self.e_tag: str | None = meta.get("e_tag")
        self.modified = meta["last_modified"].timestamp()
        self.start, self.stop = response.range
        self.data = memoryview(response.bytes())

    def expect(self, wanted: Any, uri: str) -> None:
        """Raise StorageError unless the bytes are those of the range that was asked for, and as many.

        A store, or a proxy before it, may answer with fewer bytes than its headers say.
        """
        start, stop = (0, self.size) if wanted is None else wanted if isinstance(wanted, tuple) else (None, self.size)
        if start is None:
            start = max(0, self.size - wanted["suffix"])
        stop = min(stop, self.size)
        if (self.start, self.stop, len(self.data)) != (start, stop, stop - start):
            raise StorageError(
                "the store answered with other bytes than were asked for",
                path=uri,
                expected=f"{stop - start} bytes from {start} on",
                found=f"{len(self.data)} bytes, which it calls {self.start} to {self.stop}",
                remedy="look at the proxy or gateway before the store",
            )


@redacted
@dataclass(eq=False)
class ObjectStore:
    """A bucket or container."""

    client: Callable[[], _Client] = field(repr=False)
    target: StoreTarget
    #: Whether the store has refused a put whose condition did not hold, by whether that would have replaced an object.
    honoured: dict[bool, bool] = field(default_factory=dict)
    renames = False

    def __post_init__(self) -> None:
        self.uri = f"{self.target.scheme}://{self.target.authority}"
        self._current = self.client()
        self._clients: dict[tuple[int, int], Any] = {}
        self._generation = 0
        self._lock = threading.Lock()
        self._reached = False

    # -- requests -------------------------------------------------------------------------------------------

    def _open(self, size: int = 0, attempts: int = 1) -> Any:
        """Return a client; those of one size and number of attempts share their connections."""
        with self._lock:
            key = (size, attempts)
            if key not in self._clients:
                self._clients[key] = self._current.open(*key)
            return self._clients[key]

    def _renew(self, generation: int) -> None:
        """Forget credentials that were refused, unless another thread has done so."""
        with self._lock:
            if generation == self._generation:
                self._current, self._clients = self.client(), {}
                self._generation += 1

    def _ask(self, path: str, request: Callable[[Any], T], *, size: int = 0, inner: bool = False) -> T:
        """Make a request that may be repeated, and repeat it within the budget.

        Raises FileNotFoundError and RefusedError for answers, and a SavepointError for all else. ``inner``: the client
        itself repeats the parts of the request a few times.
        """
        client = self._current
        attempts = min(INNER_ATTEMPTS, client.attempts or INNER_ATTEMPTS) if inner else 1
        begin, pause, renewed, failed = time.monotonic(), FIRST_PAUSE, False, failing()
        with contextlib.ExitStack() as waiting:
            for attempt in count(attempts, attempts):
                generation = self._generation
                try:
                    answer = request(self._open(size, attempts))
                except _errors() as error:
                    if isinstance(error, SavepointError):
                        raise  # there are no credentials any more
                    text = str(error)
                    if not renewed and REFUSED.search(text):
                        self._renew(generation)
                        renewed = True
                        continue
                    if pause == FIRST_PAUSE:
                        waiting.enter_context(failed.since(begin))
                    known = self._reached or not UNREACHED.search(text)
                    limit = client.budget if known else min(client.budget, REACH_LIMIT)
                    out_of_time = failed.seconds + pause > limit
                    if not is_passing(error) or out_of_time or attempt >= (client.attempts or attempt + 1):
                        self._fail(error, path)
                else:
                    self._reached = True
                    return answer
                time.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311
                pause = min(2 * pause, LONGEST_PAUSE)
        raise AssertionError

    def _fail(self, error: Exception, path: str) -> NoReturn:
        """Raise what the client's error means, without the client's error: its text repeats what a store answered."""
        meaning = self._failure(error, path)
        try:
            raise meaning from None
        finally:
            meaning.__context__ = None

    def _failure(self, error: Exception, path: str) -> Exception:
        status = STATUS.search(str(error))
        if "non-partial response" in str(error):
            return RefusedError(NO_RANGES)
        if isinstance(error, FileNotFoundError) and not MISSING_BUCKET.search(str(error)):
            return FileNotFoundError(path)
        if status is not None and status[1] in ANSWERS:
            return RefusedError(status[1])
        return self._meaning(error, path)

    def _meaning(self, error: Exception, path: str) -> SavepointError:
        if f"{NOWHERE}," in str(error):
            return StorageError(
                "the store redirects the request to another host, which is not followed",
                path=self.uri + path,
                found=described(error).partition(" (")[0],
                remedy="set the endpoint that serves the bucket, and its region: endpoint and region in option "
                "'storageOptions'",
            )
        return storage_error(OSError(described(error)), self.uri + path)

    def get(self, path: str, wanted: Any, version: str | None = None, unless: str | None = None) -> _Answer:
        """Return a range of an object in one request; FileNotFoundError if there is none."""
        options: dict[str, Any] = {} if wanted is None else {"range": wanted}
        if version is not None:
            options["if_match"] = version
        if unless is not None:
            options["if_none_match"] = unless

        def request(client: Any) -> _Answer:
            return _Answer(client.get(path.lstrip("/"), options=options))

        answer = self._ask(path, request)
        answer.expect(wanted, self.uri + path)
        return answer

    # -- files ----------------------------------------------------------------------------------------------

    def open_input(self, path: str, opening: Opening) -> RemoteInputFile:
        """Open a file by one GET, of what is probably wanted first."""
        return RemoteInputFile(_Object(self, path), opening)

    def info(self, path: str) -> FileInfo | None:
        """Return the entry at the path; None if it does not exist."""
        if path != "/":
            try:
                meta = self._ask(path, lambda client: client.head(path.lstrip("/")))
            except FileNotFoundError:
                pass
            else:
                return FileInfo(path, False, int(meta["size"]), meta["last_modified"].timestamp())
        return FileInfo(path, True, 0, None) if path == "/" or self.first_names(path, 1) else None

    def is_file(self, path: str) -> bool:
        """Return whether there is an object of this name."""
        try:
            self.size(path)
        except FileNotFoundError:
            return False
        return True

    def identity(self, path: str) -> str | None:
        """Return the store's version of a file, and its size; None if it is not there or cannot be asked for."""
        try:
            meta = self._ask(path, lambda client: client.head(path.lstrip("/")))
        except OSError:
            return None
        return f"{meta['e_tag']} of {meta['size']} bytes" if meta.get("e_tag") else None

    def list(self, path: str) -> list[FileInfo]:
        """Return the entries of a folder, sorted by name."""
        prefix = path.strip("/")
        folders, files = self._ask(path, lambda client: self._listing(client, path).folder(prefix), inner=True)
        entries = [FileInfo("/" + name.rstrip("/"), True, 0, None) for name in folders]
        for meta in files:
            if meta["path"].rstrip("/") != prefix:  # other tools mark folders by empty objects of their names
                modified = meta["last_modified"].timestamp()
                entries.append(FileInfo("/" + meta["path"], False, int(meta["size"]), modified))
        if not entries and not files and prefix:
            raise storage_error(FileNotFoundError(path), self.uri + path)
        return sorted(entries, key=lambda info: info.path)

    def first_names(self, path: str, limit: int) -> tuple[str, ...]:
        """Return at most this many names of objects below a path, relative to it, from one page of a listing."""
        prefix = path.strip("/")
        found = self._ask(path, lambda client: self._listing(client, path).first(prefix, limit), inner=True)
        return tuple(one["path"].removeprefix(prefix).lstrip("/") for one in found)

    def _listing(self, client: Any, path: str) -> Listing:
        return Listing(client, self.uri + path, self._current.budget + self._current.patience)

    def create(self, path: str) -> ObjectOutputFile:
        """Create a file, which the store shows when it is closed."""
        return ObjectOutputFile(self, path)

    def put_file(self, path: str, data: Any) -> None:
        """Write a small file, whatever is there."""
        try:
            self._ask(
                path,
                lambda client: client.put(path.lstrip("/"), data, mode="overwrite", use_multipart=False),
                size=UPLOAD,
            )
        except (SavepointError, FileNotFoundError) as error:
            refuse(error, self.uri + path)

    def create_directory(self, path: str) -> None:
        """Do nothing: object stores need no folders."""

    def delete_files(self, paths: Sequence[str]) -> None:
        """Delete files if they exist."""
        if not paths:
            return
        names = [path.lstrip("/") for path in paths]
        try:
            self._ask(paths[0], lambda client: client.delete(names), inner=True)
        except FileNotFoundError:
            pass
        except SavepointError as error:
            refuse(error, self.uri + paths[0])

    def delete_directory(self, path: str) -> None:
        """Delete all files below a folder."""
        prefix = path.strip("/")
        try:
            names = self._ask(path, lambda client: self._listing(client, path).below(prefix), inner=True)
        except SavepointError as error:
            refuse(error, self.uri + path)
        self.delete_files(["/" + name for name in names])

    def delete_empty_directory(self, path: str) -> None:
        """Do nothing: a folder without files is not there."""

    def move(self, source: str, target: str) -> None:
        """Give a file another name, by a copy."""
        try:
            self._ask(source, lambda client: client.copy(source.lstrip("/"), target.lstrip("/")), size=UPLOAD)
        except (SavepointError, FileNotFoundError) as error:
            refuse(error, self.uri + source)
        self.delete_files([source])

    def copy(self, source: str, target: str, size: int) -> bool:
        """Have the store copy a file of this size within it; return whether it did.

        Stores limit the sizes that they copy in one request (S3: 5 GB, Azure: 256 MB), so that a refusal is no error.
        Azure may answer before it has copied.
        """
        # Few clients, which differ in the time that they give to a request.
        patience = 1 << max(size, UPLOAD).bit_length()
        try:
            self._ask(source, lambda client: client.copy(source.lstrip("/"), target.lstrip("/")), size=patience)
            return self.target.scheme not in LATER_COPIES or self.size(target) == size
        except (SavepointError, OSError, RefusedError):
            return False

    def writer(self, path: str) -> Any:
        """Return a client's upload in parts, which it repeats within the budget."""
        from obstore import open_writer

        client = self._open(UPLOAD, self._current.attempts or MANY)
        return open_writer(client, path.lstrip("/"), buffer_size=UPLOAD, max_concurrency=UPLOADERS)

    def size(self, path: str) -> int:
        """Return the size of a file; FileNotFoundError if there is none."""
        return int(self._ask(path, lambda client: client.head(path.lstrip("/")))["size"])

    def missing(self) -> str | None:
        """Return a hint if the bucket or container does not exist; else None."""
        try:
            self.first_names("/", 1)
        except StateFileNotFoundError as error:
            if "bucket" in error.message:
                name = self.target.authority.partition("@")[0]
                return f"there is no bucket or container {name!r}: check its name, and the endpoint"
        except SavepointError:
            return None  # without permission to list the bucket, its files may still be readable
        return None

    # -- publication ----------------------------------------------------------------------------------------

    def read_published(
        self, path: str, limit: int = MAX_PUBLISHED, unless: Published | None = None
    ) -> Published | None:
        """Return an object in one version; None if it does not exist, ``unless`` if it still has that version."""
        known = dict(unless.version).get("e_tag") if unless is not None else None
        try:
            answer = self.get(path, (0, UPLOAD), unless=known)
        except FileNotFoundError:
            return None
        except RefusedError as refused:
            if refused.args == (UNCHANGED,):
                return unless
            answer = self.get(path, None)  # an empty object has no ranges
        if answer.size > limit:
            raise too_large(self.uri + path, answer.size, limit)
        parts = [answer.data]
        if answer.stop < answer.size:
            parts += fetched(_Object(self, path, answer), answer.stop, answer.size)
        return Published(b"".join(parts), answer.version, answer.modified)

    def put(self, path: str, data: bytes, over: Published | None) -> None:
        """Publish in one attempt; NotImplementedError if the store has no conditional writes."""
        mode = "create" if over is None else dict(over.version)
        for renewed in (False, True):
            generation = self._generation
            try:
                self._open(len(data)).put(path.lstrip("/"), data, mode=mode, use_multipart=False)
            except _errors() as error:
                if not renewed and REFUSED.search(str(error)):
                    self._renew(generation)  # what is refused for its credentials has not been written
                    continue
                self._refuse(error, path)
            else:
                return

    def honours(self, path: str, replacing: bool) -> bool:
        """Return whether the store refuses a put whose condition does not hold, by trying it once per process.

        ``path`` is an existing empty object of this write: the put would create it, or replace a version that it never
        had. Raise an error if there is no clear answer, NotImplementedError if the store has no conditional writes.
        """
        if replacing not in self.honoured:
            over = Published(b"", NEVER) if replacing else None
            end = time.monotonic() + self.retry_seconds
            for pause in chain(PROBE_PAUSES, repeat(PROBE_PAUSES[-1])):
                last = time.monotonic() >= end and pause == PROBE_PAUSES[-1]
                try:
                    self.put(path, b"", over)
                    self.honoured[replacing] = False
                    break
                except ConcurrentWriteError:
                    self.honoured[replacing] = True
                    break
                except (StoreBusyError, UncertainOutcomeError):
                    if last:
                        raise
                    time.sleep(pause)
        return self.honoured[replacing]

    @property
    def retry_seconds(self) -> float:
        """Return for how long a request that fails is made again; 0 if the user limits the attempts."""
        return self._current.budget if self._current.attempts is None else 0.0

    @property
    def verifies_uploads(self) -> bool:
        """Return whether the store compares an upload with its SHA-256, which is part of each signed request of S3."""
        return self.target.scheme == "s3" and not self.target.options.anonymous

    def _refuse(self, error: Exception, path: str) -> NoReturn:
        """Raise the error that corresponds to a failed put, or an uncertain outcome if there was no answer."""
        from obstore import exceptions

        status = STATUS.search(str(error))
        meaning = self._meaning(error, path)
        if isinstance(error, exceptions.NotSupportedError) or (status and status[1] in NO_CONDITIONS):
            raise NotImplementedError(meaning.facts.get("found", meaning.message)) from None
        if isinstance(error, exceptions.AlreadyExistsError | exceptions.PreconditionError):
            # 409: two concurrent requests; the store accepted the other one, or neither.
            raise ConcurrentWriteError(
                "another writer has published a savepoint at this path",
                path=self.uri + path,
                remedy="nothing of this write was published: check the savepoint that is there now, then write again",
            ) from None
        kind: type[OutputError] = OutputError
        if (status is None and not REFUSED.search(str(error))) or (status is not None and status[1] in IN_BETWEEN):
            kind = UncertainOutcomeError
        elif status is not None and status[1] in BUSY:
            kind = StoreBusyError
        raise kind(
            "a file of the savepoint cannot be written",
            path=self.uri + path,
            found=f"{meaning.message}: {meaning.facts.get('found', '')}",
            remedy=meaning.facts.get("remedy"),
        ) from None


class _Object:
    """A file in an object store, of which all ranges are of the version that was opened."""

    is_lasting = True

    def __init__(self, store: ObjectStore, path: str, answer: _Answer | None = None) -> None:
        self._store, self._path = store, path
        self.path = store.uri + path
        self.size = -1
        self.modified: float | None = None
        self._e_tag: str | None = None
        if answer is not None:
            self._know(answer)

    def _know(self, answer: _Answer) -> None:
        self.size, self.modified, self._e_tag = answer.size, answer.modified, answer.e_tag

    def open(self, start: int | None, count: int) -> tuple[int, Any]:
        """Request the first range, which tells size and version."""
        wanted: Any = {"suffix": count} if start is None else (start, start + count)
        try:
            if start is None and self._store.target.scheme in NO_SUFFIXES:
                size = self._store.size(self._path)
                wanted = (max(0, size - count), max(size, 1))
            answer = self._store.get(self._path, wanted)
        except FileNotFoundError as error:
            raise storage_error(error, self.path) from None
        except RefusedError as refused:
            if refused.args != (NO_RANGES,):
                self.size = self._store.size(self._path)  # empty, or shorter than it should be
                return 0, b""
            answer = self._store.get(self._path, None)
        self._know(answer)
        return answer.start, answer.data

    def read(self, start: int, count: int) -> Any:
        """Return some bytes of the version that was opened."""
        try:
            answer = self._store.get(self._path, (start, start + count), version=self._e_tag)
        except FileNotFoundError as error:
            raise storage_error(error, self.path) from None
        except RefusedError as refused:
            if refused.args == (NO_RANGES,):
                answer = self._store.get(self._path, None)
                answer.data = answer.data[start : start + count]
            elif refused.args == (NO_RANGE,):
                raise CorruptStateError(
                    "the file is shorter than it was when it was opened",
                    path=self.path,
                    remedy="it was replaced while it was read: read the snapshot again",
                ) from None
            else:
                raise self._replaced(None) from None
        if answer.e_tag != self._e_tag or answer.size != self.size:
            raise self._replaced(answer)
        return answer.data

    def _replaced(self, now: _Answer | None) -> FileReplacedError:
        return FileReplacedError(
            "the file was replaced while it was read",
            path=self.path,
            expected=f"version {self._e_tag} of {self.size} bytes",
            found=None if now is None else f"version {now.e_tag} of {now.size} bytes",
            remedy="read the snapshot again: the new version is complete",
        )

    def close(self) -> None:
        """Do nothing: each answer was of the version that was opened."""


class ObjectOutputFile:
    """A new object: of a single request if it is small, else of parts; the store shows it when it is closed."""

    def __init__(self, store: ObjectStore, path: str) -> None:
        self.path = store.uri + path
        self.size = 0
        self._store, self._path = store, path
        self._waiting: bytearray | None = bytearray()
        self._writer: Any = None

    def write(self, buffer: Any) -> None:
        """Write all bytes of a buffer."""
        data = memoryview(buffer).cast("B")
        self.size += len(data)
        if self._waiting is not None and self.size <= UPLOAD:
            self._waiting += data
            return
        with self._failing():
            if self._waiting is not None:
                self._writer = self._store.writer(self._path)
                waiting, self._waiting = self._waiting, None
                self._writer.write(waiting)
            self._writer.write(data)

    def close(self) -> None:
        """Finish the object; where an answer is lost or forgotten, its size tells whether the store has it."""
        waiting, self._waiting = self._waiting, None
        writer, self._writer = self._writer, None
        if waiting is not None:
            self._store.put_file(self._path, bytes(waiting))
            return
        with self._failing():
            try:
                writer.close()
            except _errors():
                if not self._is_complete():
                    raise

    def _is_complete(self) -> bool:
        try:
            return self._store.size(self._path) == self.size
        except (SavepointError, OSError):
            return False

    def abort(self) -> None:
        """End and delete an upload, because it cannot be cancelled; a small file was not sent yet."""
        self._waiting = None
        writer, self._writer = self._writer, None
        if writer is not None:
            # A file that cannot be deleted can be found by its name: report the original error instead.
            with contextlib.suppress(*_errors(), SavepointError):
                writer.close()
            with contextlib.suppress(SavepointError):
                self._store.delete_files([self._path])

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except _errors() as error:
            if isinstance(error, SavepointError):
                raise
            refuse(OSError(described(error)), self.path)


def _errors() -> tuple[type[Exception], ...]:
    """Return the exceptions that the client raises."""
    from obstore.exceptions import BaseError

    return BaseError, OSError, ValueError


def described(error: Exception) -> str:
    """Return the first line of a client's error, and the innermost causes of its description."""
    text, _, debug = str(error).partition("\n\nDebug source")
    causes = dict.fromkeys(next(filter(None, found)) for found in CAUSE.findall(debug))
    return f"{text} ({', '.join(causes)})" if causes else text


def is_passing(error: Exception) -> bool:
    """Return whether the same request may succeed later: the store was busy, or did not answer."""
    text = str(error)
    status = STATUS.search(text)
    if status is not None:
        return status[1] in BUSY or status[1] in IN_BETWEEN
    return UNANSWERED.search(text) is not None and HOPELESS.search(text) is None


def object_store(target: StoreTarget) -> ObjectStore:
    """Return the store of a path; LookupError explains why only pyarrow has its identity."""
    if target.scheme not in CLIENTS:
        raise LookupError(f"{target.scheme}:// has no conditional writes")
    if _Process.forked:
        raise LookupError("this process was forked from one that had used obstore")
    return ObjectStore(functools.partial(CLIENTS[target.scheme], target), target)


def _s3(target: StoreTarget) -> _Client:
    bucket, options = bucket_of(target), target.options
    if options.role_arn:
        raise LookupError("option roleArn is used for reads only: name the role in an AWS profile")
    scheme, host = parts_of(options.endpoint)
    if options.virtual_hosted and host and ADDRESS.match(host):
        raise LookupError("virtualHosted needs an endpoint with a host name, not an IP address")
    credentials = None if options.anonymous else s3_credentials()
    region = region_of(bucket, options)
    scheme, host = scheme or "https", host or f"s3.{region}.amazonaws.com"
    endpoint = f"{scheme}://{bucket}.{host}" if options.virtual_hosted else f"{scheme}://{host}"
    return _Client(
        "s3",
        {
            "bucket": bucket,
            "region": region,
            # Both keys are set, because otherwise an endpoint in the environment would take precedence.
            "endpoint": endpoint,
            "aws_endpoint_url_s3": endpoint,
            "virtual_hosted_style_request": bool(options.virtual_hosted),
            "skip_signature": bool(options.anonymous),
            "unsigned_payload": False,
            "credential_provider": credentials,
        },
        options.connect_timeout or CONNECT_TIMEOUT,
        options.request_timeout or REQUEST_TIMEOUT,
        options.max_attempts,
        options.retry_limit or RETRY_LIMIT,
        {"allow_http": scheme == "http", **_staying_at(host), **_certificates(options.ca_file)},
    )


def _staying_at(host: str) -> dict[str, str]:
    """Return the client's options that let it send requests to this host, and those below it, alone.

    The client follows redirects, with all headers but ``Authorization`` (S3's session token is in another one), and has
    no option against it. So it gets a proxy that is nowhere, for all other hosts. Where the environment names a proxy,
    that one decides.
    """
    if PROXIES & {name.lower() for name, value in os.environ.items() if value}:
        return {}
    name = re.sub(r":[0-9]+$", "", host).strip("[]")
    return {"proxy_url": f"http://{NOWHERE}", "proxy_excludes": name}


def _certificates(path: str | None) -> dict[str, str]:
    if path is None:
        return {}
    return {"root_certificate": read_regular(path, MAX_CERTIFICATES).decode()}


def _gcs(target: StoreTarget) -> _Client:
    bucket, options = bucket_of(target), target.options
    if options.service_account:
        raise LookupError("serviceAccount is impersonated by pyarrow only")
    arguments: dict[str, Any] = {"bucket": bucket, "skip_signature": bool(options.anonymous)}
    scheme, host = parts_of(options.endpoint)
    scheme = scheme or ("http" if host and options.anonymous else "https")
    if options.anonymous:
        # The client requests a token before each put, even unsigned: by default from the cloud's metadata service.
        arguments["credential_provider"] = _no_token
    else:
        expect_google()
    if host:
        arguments["base_url"] = f"{scheme}://{host}"
    limit = options.retry_limit or RETRY_LIMIT
    return _Client("gs", arguments, budget=limit, client_options={"allow_http": scheme == "http"})


def _no_token() -> dict[str, Any]:
    """Return a placeholder for a token, for stores that need no credentials."""
    return {"token": "anonymous", "expires_at": None}


def _azure(target: StoreTarget) -> _Client:
    account, container, settings = azure_settings(target)
    owner = os.environ.get("AZURE_STORAGE_ACCOUNT")
    if target.recorded or (owner and owner != account):
        raise LookupError(f"the keys in the environment are not those of account {account!r}")
    host = settings.get("blob_storage_authority") or ".blob.core.windows.net"
    scheme = settings.get("blob_storage_scheme") or "https"
    arguments: dict[str, Any] = {
        "container_name": container,
        "account_name": account,
        "endpoint": f"{scheme}://{account}{host}" if host.startswith(".") else f"{scheme}://{host}/{account}",
        "client_id": settings.get("client_id"),
    }
    given = {name: value for name, value in arguments.items() if value}
    secrets = {
        "access_key": settings.get("account_key"),
        "sas_token": (settings.get("sas_token") or "").removeprefix("?"),
    }
    own = {name: value for name, value in secrets.items() if value}
    if own:
        name, secret = next(iter(own.items()))
        # The client would prefer an identity that the environment names, whose tokens come from another host.
        given["credential_provider"] = lambda: {name: secret, "expires_at": None}
        staying = _staying_at(given["endpoint"].partition("://")[2].partition("/")[0])
    else:
        given |= azure_identity()
        staying = {}  # tokens come from other hosts, and are sent in a header that no redirect gets
    limit = target.options.retry_limit or RETRY_LIMIT
    return _Client("abfs", given, budget=limit, client_options={"allow_http": scheme == "http", **staying})


CLIENTS: Mapping[str, Callable[[StoreTarget], _Client]] = MappingProxyType(
    {"s3": _s3, "gs": _gcs, "abfs": _azure, "abfss": _azure}
)
#: Schemes of stores without ranges that are counted from the end, and of those that may copy after their answer.
NO_SUFFIXES = LATER_COPIES = frozenset({"abfs", "abfss"})
