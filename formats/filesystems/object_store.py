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
import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, count, repeat
from typing import Any, NoReturn, TypeVar

from pyspark_savepoint.formats.errors import (
    ConcurrentWriteError,
    OutputError,
    SavepointError,
    StateFileNotFoundError,
    StorageError,
    StoreBusyError,
    UncertainOutcomeError,
)
from pyspark_savepoint.formats.filesystems.credentials import not_given
from pyspark_savepoint.formats.filesystems.listing import Listing
from pyspark_savepoint.formats.filesystems.remote import MISSING_BUCKET, StoreTarget, refuse, storage_error
from pyspark_savepoint.formats.filesystems.remote_files import RemoteInputFile, fetched
from pyspark_savepoint.formats.filesystems.store_answers import (
    ANSWERS,
    BUSY,
    FIRST_PAUSE,
    IN_BETWEEN,
    LONGEST_PAUSE,
    NO_CONDITIONS,
    NO_KEYS_NOW,
    NO_RANGES,
    NOWHERE,
    REFUSED,
    STATUS,
    UNCHANGED,
    UNREACHED,
    Answer,
    RefusedError,
    described,
    errors,
    is_passing,
)
from pyspark_savepoint.formats.filesystems.store_clients import Client, client_of
from pyspark_savepoint.formats.filesystems.store_files import SINGLE, UPLOAD, UPLOADERS, ObjectFile, ObjectOutputFile
from pyspark_savepoint.formats.io.local_files import too_large
from pyspark_savepoint.formats.io.one_verb import failing
from pyspark_savepoint.formats.io.snapshot_files import MAX_PUBLISHED, FileInfo, Opening, Published
from pyspark_savepoint.formats.redaction import redacted

T = TypeVar("T")
#: Seconds within which a store must be reached for the first time.
REACH_LIMIT = 4.0
#: Attempts of requests that the client itself repeats: pages of lists and deletions of many.
INNER_ATTEMPTS = 4
#: Attempts of the parts of an upload, which its budget ends.
MANY = 1000
#: A version that no object has, in the form of every store: an ETag, and a generation of Google's.
NEVER = (("e_tag", '"0x8D0000000000000"'), ("version", "1"))
#: Seconds between attempts to try the conditions of a store.
PROBE_PAUSES = (0.1, 0.3, 1.0)
#: Schemes of stores that may copy after their answer.
LATER_COPIES = frozenset({"abfs", "abfss"})


@redacted
@dataclass(eq=False)
class ObjectStore:
    """A bucket or container."""

    client: Callable[[], Client] = field(repr=False)
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
        itself repeats the parts of the request a few times, until the whole has failed.
        """
        client = self._current
        attempts = min(INNER_ATTEMPTS, client.attempts or INNER_ATTEMPTS) if inner else 1
        begin, pause, renewed, failed = time.monotonic(), FIRST_PAUSE, False, failing()
        with contextlib.ExitStack() as waiting:
            for attempt in count(attempts):
                generation = self._generation
                try:
                    answer = request(self._open(size, attempts))
                except errors() as error:
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
                pause, attempts = min(2 * pause, LONGEST_PAUSE), 1
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
        said = described(error)
        if self.target.scheme == "s3" and (refused := not_given(said, self.uri + path)) is not None:
            return refused
        return storage_error(OSError(said), self.uri + path)

    def get(self, path: str, byte_range: Any, version: str | None = None, unless: str | None = None) -> Answer:
        """Return a range of an object in one request; FileNotFoundError if there is none."""
        options: dict[str, Any] = {} if byte_range is None else {"range": byte_range}
        if version is not None:
            options["if_match"] = version
        if unless is not None:
            options["if_none_match"] = unless

        def request(client: Any) -> Answer:
            return Answer(client.get(path.lstrip("/"), options=options))

        answer = self._ask(path, request)
        answer.expect(byte_range, self.uri + path)
        return answer

    # -- files ----------------------------------------------------------------------------------------------

    def open_input(self, path: str, opening: Opening) -> RemoteInputFile:
        """Open a file by one GET, of what is probably wanted first."""
        return RemoteInputFile(ObjectFile(self, path), opening)

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

    def put_file(self, path: str, parts: Sequence[Any]) -> None:
        """Write a file in one request, whatever is there."""
        size, whole = sum(map(len, parts)), list(parts)
        try:
            self._ask(
                path,
                lambda client: client.put(path.lstrip("/"), whole, mode="overwrite", use_multipart=False),
                size=UPLOAD if size <= UPLOAD else SINGLE,
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
        self.deletion(path)()

    def deletion(self, path: str) -> Callable[[], None]:
        """List the files below a folder, and return what deletes them."""
        prefix = path.strip("/")
        try:
            names = self._ask(path, lambda client: self._listing(client, path).below(prefix), inner=True)
        except SavepointError as error:
            refuse(error, self.uri + path)
        return partial(self.delete_files, ["/" + name for name in names])

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

        Stores limit the sizes that they copy in one request (S3: 5 GB, Azure: 256 MB), so a refusal is not an error.
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
            parts += fetched(ObjectFile(self, path, answer), answer.stop, answer.size)
        return Published(b"".join(parts), answer.version, answer.modified)

    def put(self, path: str, data: bytes, over: Published | None) -> None:
        """Publish in one attempt; NotImplementedError if the store has no conditional writes."""
        mode = "create" if over is None else dict(over.version)
        for renewed in (False, True):
            generation = self._generation
            try:
                self._open(len(data)).put(path.lstrip("/"), data, mode=mode, use_multipart=False)
            except errors() as error:
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
            end = time.monotonic() + self.retry_seconds
            for pause in chain(PROBE_PAUSES, repeat(PROBE_PAUSES[-1])):
                last = time.monotonic() >= end and pause == PROBE_PAUSES[-1]
                try:
                    self.honoured[replacing] = self._refuses(path, replacing)
                    break
                except (StoreBusyError, UncertainOutcomeError):
                    if last:
                        raise
                    time.sleep(pause)
        return self.honoured[replacing]

    def try_conditions(self, path: str, replacing: bool) -> None:
        """Try once what :meth:`honours` tells, with a new object of this write; an error leaves it to that."""
        if replacing in self.honoured:
            return
        with contextlib.suppress(SavepointError, NotImplementedError):
            self.put(path, b"", None)
            self.honoured[replacing] = self._refuses(path, replacing)

    def _refuses(self, path: str, replacing: bool) -> bool:
        """Return whether the store refuses to put over an empty object that exists, which the condition forbids."""
        try:
            self.put(path, b"", Published(b"", NEVER) if replacing else None)
        except ConcurrentWriteError:
            return True
        return False

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
        elif (status is not None and status[1] in BUSY) or NO_KEYS_NOW.search(str(error)):
            kind = StoreBusyError
        raise kind(
            "a file of the savepoint cannot be written",
            path=self.uri + path,
            found=f"{meaning.message}: {meaning.facts.get('found', '')}",
            remedy=meaning.facts.get("remedy"),
        ) from None


def object_store(target: StoreTarget) -> ObjectStore:
    """Return the store of a path; LookupError explains why only pyarrow has its identity."""
    return ObjectStore(client_of(target), target)
