"""Migration of a snapshot to another release of Flink, without Spark: shared by the Python API and the command line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import IO

import cloudpickle

from pyspark_savepoint.formats.errors import OptionError, SavepointError, UnsupportedStateError
from pyspark_savepoint.formats.io.local_files import cpus
from pyspark_savepoint.formats.metadata import OperatorState
from pyspark_savepoint.formats.snapshot.changes import assemble, metadata_version
from pyspark_savepoint.formats.snapshot.relocation import Relocation
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.formats.snapshot.write_folder import to_free_path
from pyspark_savepoint.options.paths import path_text
from pyspark_savepoint.plan.engine import Pieces
from pyspark_savepoint.statebackends.migration.findings import StateFindings
from pyspark_savepoint.statebackends.migration.migration_check import verdicts_of
from pyspark_savepoint.statebackends.migration.migration_plan import Knowledge, expect_names, expect_types_fit
from pyspark_savepoint.statebackends.migration.migration_work import Planned, ScanWork, WriteWork
from pyspark_savepoint.statebackends.migration.rewriting.verdicts import MigrationCheck, PartVerdict
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator, headers_ahead
from pyspark_savepoint.statebackends.type_extraction import ExtractionRelease
from pyspark_savepoint.text import progress
from pyspark_savepoint.write.copying import publish

#: Verdicts that an error lists; its text is bounded.
LISTED = 6
#: Seconds of work in this process before others are started, each of which takes about a second of a processor.
SECONDS_IN_ONE_PROCESS = 3.0
Paths = str | PathLike[str] | Sequence[str | PathLike[str]] | None


#: Runs all pieces of some work, and returns their results by their numbers.
Run = Callable[[Pieces], Mapping[int, bytes]]


def run_here(work: Pieces, parallelism: int | None = None) -> dict[int, bytes]:
    """Run the pieces of some work on this machine.

    Values are read by Python, so that threads would wait for each other.

    Args:
        work: The work.
        parallelism: The number of processes; 1: only this one. By default this one works alone for some seconds, and
            then there are as many as processors.

    Returns:
        The results of the pieces, by their numbers.

    Raises:
        OptionError: If ``parallelism`` is less than 1.
        SavepointError: Of the first piece that fails.

    """
    if parallelism is not None and parallelism < 1:
        raise OptionError("parallelism is a number of processes", expected="1 or more", found=parallelism)
    progress.detail("scanned" if isinstance(work, ScanWork) else "migrated")
    count = len(work.pieces)
    progress.parts(count)
    results: dict[int, bytes] = {}
    process_count = cpus() if parallelism is None else parallelism
    began = time.monotonic() - (0 if parallelism is None else SECONDS_IN_ONE_PROCESS)
    for number in range(count):
        processes = min(process_count, count - number)
        if processes > 1 and time.monotonic() - began >= SECONDS_IN_ONE_PROCESS:
            return results | _Processes(work, processes).run(range(number, count))
        results[number] = work.run(number)
        progress.part_done()
    return results


class _Processes:
    """Processes of this machine that run pieces of some work: the same classes that Spark's tasks run.

    They are new interpreters and no forks, which threads of this process could block, and they do not run the user's
    script again. Messages through their pipes have lengths; those to them are the pickled work, and numbers of pieces.
    """

    def __init__(self, work: Pieces, count: int) -> None:
        self.sent = cloudpickle.dumps(work.unopened())
        self.count = count
        self.lock = threading.Lock()
        self.failures: dict[int, Exception] = {}
        self.results: dict[int, bytes] = {}

    def run(self, numbers: Iterable[int]) -> dict[int, bytes]:
        """Return the results of pieces; raise the error of the first that failed."""
        left = iter(numbers)
        program = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import work_for_another; work_for_another()"
        command = [sys.executable, "-c", program]
        started: list[subprocess.Popen[bytes]] = []
        with ThreadPoolExecutor(self.count) as pool:
            try:
                for _ in range(self.count):
                    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603
                    started.append(process)
                for following in [pool.submit(self._follow, process, left) for process in started]:
                    following.result()
            finally:
                for process in started:  # also after Ctrl-C: what they wrote is removed when they are gone
                    process.kill()
                    process.communicate()
        if self.failures:
            raise self.failures[min(self.failures)]
        return self.results

    def _follow(self, process: subprocess.Popen[bytes], left: Iterator[int]) -> None:
        """Hand pieces to a process until there are no more, or one failed: those before it were handed out already."""
        assert process.stdin is not None
        assert process.stdout is not None
        message = self.sent
        while True:
            with self.lock:
                number = None if self.failures else next(left, None)
            if number is None:
                return
            try:
                if message:
                    _send(process.stdin, message)
                    message = b""
                _send(process.stdin, str(number).encode())
                is_done, result = cloudpickle.loads(_received(process.stdout))
            except (OSError, EOFError):
                is_done, result = (
                    False,
                    SavepointError(
                        "a process of the work ended before it was done",
                        found=f"exit code {process.wait()}",
                        remedy="run it again with parallelism 1, which takes less memory",
                    ),
                )
            with self.lock:
                if is_done:
                    self.results[number] = result
                else:
                    self.failures[number] = result
            progress.part_done()


def work_for_another() -> None:
    """Run the pieces that the process which started this one names, until it closes the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the other, which ends this one
    requests, replies = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what else is printed is no reply
    try:
        work = cloudpickle.loads(_received(requests))
    except EOFError:  # the other was interrupted while it started this one
        return
    while True:
        try:
            number = int(_received(requests))
        except EOFError:
            return
        try:
            reply = cloudpickle.dumps((True, work.run(number)))
        except Exception as error:
            reply = cloudpickle.dumps((False, error))
        _send(replies, reply)


def _send(pipe: IO[bytes], message: bytes) -> None:
    pipe.write(len(message).to_bytes(8, "big") + message)
    pipe.flush()


def _received(pipe: IO[bytes]) -> bytes:
    """Return the next message; raise EOFError if the pipe was closed."""
    size = int.from_bytes(_exactly(pipe, 8), "big")
    return _exactly(pipe, size)


def _exactly(pipe: IO[bytes], size: int) -> bytes:
    payload = pipe.read(size)
    if len(payload) < size:
        raise EOFError
    return payload


@dataclass(frozen=True)
class Migration:
    """A migration of a snapshot. Nothing is written yet."""

    source: Snapshot
    knowledge: Knowledge
    drop: frozenset[str] = frozenset()
    as_is: frozenset[str] = frozenset()
    #: Whether what is written anew is verified, so that what is damaged gets no new checksums.
    verifies: bool = True
    #: Opens an operator of the source, if its headers may have been read; the check uses it.
    opened: Callable[[OperatorState], OpenOperator] | None = field(default=None, repr=False, compare=False)

    def check(self, run: Run = run_here) -> MigrationCheck:
        """Return the verdicts about all parts."""
        planned = Planned(self.source, self.knowledge, opened=self.opened)
        self._expect_known(self._planned() if self.drop or self.as_is else planned)
        return verdicts_of(planned.wanted, self._scanned(planned, run))

    def _planned(self) -> Planned:
        return Planned(self.source, self.knowledge, self.drop, self.as_is)

    def _expect_known(self, planned: Planned) -> None:
        with headers_ahead(self.source, self.source.operators):
            expect_names(planned.plans, self.drop, "drop")
            expect_names(planned.plans, self.as_is, "as_is")
            expect_types_fit(planned.plans, self.knowledge)

    @staticmethod
    def _scanned(planned: Planned, run: Run) -> Mapping[int, Mapping[str, StateFindings]]:
        work = ScanWork(planned)
        return work.findings(run(work))

    def write(
        self, path: str, run: Run = run_here, checkpoint_id: int | None = None, *, dry_run: bool = False
    ) -> MigrationCheck:
        """Write the migrated savepoint to a free path, and return the verdicts about its parts.

        Raises UnsupportedStateError before anything is written if a part cannot be. With ``dry_run`` nothing is.
        """
        planned = self._planned()
        self._expect_known(planned)
        staging = to_free_path(path, checkpoint_id)
        refs = self.drop | self.as_is
        findings = self._scanned(planned, run)
        checked = verdicts_of(planned.wanted, findings)
        blocked = [part for part in checked.missing if not part.ref.is_named(refs)]
        if blocked:
            raise _blocked(blocked, self.source)
        if dry_run:
            return checked
        relocation = Relocation(f"{staging.token}-copy", verifies=self.verifies)
        work = WriteWork(planned.knowing(findings), replace(staging, begun=True), self.verifies)
        # Readers of the savepoint derive the version of Kryo from this version.
        version = metadata_version(self.knowledge.release.version)
        publish(
            staging,
            lambda _: assemble(work.operators(run(work), relocation), [self.source.metadata], version),
            relocation,
        )
        return checked


def migration_of(
    source: Snapshot,
    flink: str,
    *,
    classes: Paths = None,
    types: Mapping[str, str] | None = None,
    types_from: Snapshot | None = None,
    kryo_types: str | None = None,
    drop: Iterable[str] | None = None,
    as_is: Iterable[str] | None = None,
    verifies: bool = True,
) -> Migration:
    """Return a migration to a release, such as 2.3, with what is known of the new job."""
    paths = [classes] if isinstance(classes, str | PathLike) else list(classes or ())
    located = tuple(path_text(path) for path in paths)
    words = dict(types or {})
    for name, kind in words.items():
        if not (isinstance(name, str) and isinstance(kind, str)):
            raise OptionError(
                "types maps states to types in words", expected="texts", found=f"{name!r}: {kind!r}"[:200]
            )
    knowledge = Knowledge(ExtractionRelease.parse(flink), located, words, types_from, kryo_types or "")
    knowledge.described  # noqa: B018 (jars that are not there are an error now, not when a class is looked for)
    if both := names_of(drop) & names_of(as_is):
        raise OptionError("a state is left out (drop), or keeps its bytes (as_is), not both", found=min(both))
    return Migration(source, knowledge, names_of(drop), names_of(as_is), verifies)


def names_of(states: Iterable[str] | None) -> frozenset[str]:
    """Return the names of an argument: of one state, or of several."""
    names = [states] if isinstance(states, str) else list(states or ())
    for name in names:
        if not isinstance(name, str):
            raise OptionError("states are named by texts", found=repr(name)[:200])
    return frozenset(names)


def _blocked(parts: Sequence[PartVerdict], source: Snapshot) -> UnsupportedStateError:
    """Return the error that lists what is missing."""
    lines = [f"{part.label}: {part.reason}" for part in parts[:LISTED]]
    remedies = list(dict.fromkeys(part.remedy for part in parts if part.remedy))[:3]
    if not any("(drop)" in remedy for remedy in remedies):
        remedies.append("leave the states out (drop), or as they are (as_is)")
    more = f"; and {len(parts) - LISTED} more, which check_migration lists" if len(parts) > LISTED else ""
    return UnsupportedStateError(
        f"{len(parts)} part{'' if len(parts) == 1 else 's'} of the state cannot be migrated with the given types "
        "and classes; nothing was written",
        path=source.path,
        found="; ".join(line[:240] for line in lines) + more,
        remedy="; or: ".join(remedies),
    )
