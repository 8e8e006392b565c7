"""What a streaming query of Spark logs in its checkpoint: batches, offsets, watermark, stateful operators.

::

    offsets/N   v1   metadata as JSON   { offsets of a source as JSON, or - }        a line each; N: a batch that began
                v2   metadata as JSON   { name of a source : offsets, or - }         sources with names, Spark 4.2 on
    commits/N   v1 or v2   { nextBatchWatermarkMs, ... }                              a batch that was committed

Files of other batches than the one that is opened are not read: they may be damaged. Stateful operators are those that
Spark's own source ``state-metadata`` lists.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pyspark_savepoint.engines.spark.spark_engine import SPARK_ERRORS, first_line, readable_state
from pyspark_savepoint.formats.errors import (
    DAMAGED,
    CorruptStateError,
    OptionError,
    SnapshotNotFoundError,
    StorageError,
    UnsupportedStateError,
    UnsupportedVersionError,
)
from pyspark_savepoint.formats.filesystems.filesystem import LocalFileSystem, locate
from pyspark_savepoint.formats.io.local_files import leads_out, real_path
from pyspark_savepoint.formats.json_text import number_of, parse_json
from pyspark_savepoint.formats.snapshot.vacuum import below

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AGGREGATION, JOIN = "stateStoreSave", "symmetricHashJoin"
DEDUPLICATION, WITHIN_WATERMARK = "dedupe", "dedupeWithinWatermark"
#: Arbitrary state with one value for a key: of Python and of Scala.
GROUP_STATE = ("applyInPandasWithState", "flatMapGroupsWithState")
#: Arbitrary state with variables and timers begins with it: of Python and of Scala.
VARIABLES = "transformWithState"
#: Operators whose state Flink has not, or only in another form, and why.
UNSUPPORTED_OPERATORS: Mapping[str, str] = MappingProxyType(
    {
        "sessionWindowStateStoreSaveExec": "open sessions: Flink keeps them by merged windows of its own",
        "globalLimit": "the number of rows that passed a limit: Flink has no limit of a stream",
    }
)
#: Timers are recorded as a variable of this type.
TIMERS = "TimerState"
KINDS: Mapping[str, str] = MappingProxyType({"ValueState": "value", "ListState": "list", "MapState": "map"})
LOG_VERSIONS = ("v1", "v2")
_RESTORE = f"{DAMAGED}; or take another batch: batch_id=..."
OFFSETS, COMMITS = "offsets", "commits"
MAX_LONG, MAX_INT = (1 << 63) - 1, (1 << 31) - 1


@dataclass(frozen=True)
class StreamingState:
    """A state of a stateful operator: its name, ``value``, ``list`` or ``map``, and whether its values expire."""

    name: str
    kind: str
    ttl: bool = False


@dataclass(frozen=True)
class StreamingOperator:
    """A stateful operator of a streaming query: its number, Spark's name of it, and the states that Spark records.

    ``time_mode`` is that of ``transformWithState`` in lower case, such as ``eventtime``; of others it is empty.
    """

    number: int
    name: str
    states: tuple[StreamingState, ...] = ()
    time_mode: str = ""

    def __str__(self) -> str:
        """Return the number and the name, as errors have them."""
        return f"{self.number} ({self.name})"

    @property
    def has_variables(self) -> bool:
        """Whether it is ``transformWithState``."""
        return self.name.startswith(VARIABLES)

    @property
    def is_carried(self) -> bool:
        """Whether its state can become that of a Flink job."""
        return self.has_variables or self.name in (AGGREGATION, JOIN, DEDUPLICATION, WITHIN_WATERMARK, *GROUP_STATE)


@dataclass(frozen=True)
class QueryLog:
    """A committed batch: its number, the next watermark (0 for none), offsets by source, the newest that had begun."""

    batch: int
    watermark: int
    sources: Mapping[str, str | None]
    newest: int


def query_log(spark: SparkSession, path: str, batch_id: int | None) -> QueryLog:
    """Return what a query logged of a batch, by default the last, or raise errors as ``open_streaming`` does."""
    _expect_no_links_out(path)
    began, committed = logged_batches(spark, path, OFFSETS), logged_batches(spark, path, COMMITS)
    if not committed or not began:
        raise SnapshotNotFoundError(
            "the query has committed no batch" if began else "this is not a checkpoint of a streaming query",
            path=path,
            expected="folders 'offsets', 'commits' and 'state', as of option checkpointLocation",
            remedy="let the query finish a batch: processAllAvailable()"
            if began
            else "name the folder that the query has as checkpointLocation; a savepoint of Flink: Savepoint.load",
        )
    last = max(committed)
    if batch_id is None and max(began) > last:
        raise OptionError(
            f"batch {max(began)} began and was not committed: the query runs, or was stopped in it",
            path=path,
            remedy="stop the query after a batch (query.processAllAvailable(); query.stop()); of a query that has "
            f"stopped, batch_id={last} is the last complete one",
        )
    if batch_id is None:
        _expect_stopped(spark, path)
    batch = last if batch_id is None else batch_id
    if batch_id is None and batch not in began:
        raise CorruptStateError(
            f"batch {batch} was committed, but its offsets are missing",
            path=path,
            remedy=f"restore file offsets/{batch}, or take another batch: batch_id=...",
        )
    if batch not in committed & began:
        raise OptionError(
            f"batch {batch_id} is not among those that were committed and are retained",
            path=path,
            expected=f"one of {', '.join(map(str, sorted(committed & began)[-10:]))}",
        )
    files = [f"{path}/{OFFSETS}/{batch}", f"{path}/{COMMITS}/{batch}"]
    before, sources = _sources(files[0], _text(spark, files[0]))
    after, *_ = _lines(files[1], _text(spark, files[1]))[1:] or [""]
    watermark = max(_number(files[0], before, "batchWatermarkMs"), _number(files[1], after, "nextBatchWatermarkMs"))
    earlier = max((number for number in began if number < batch), default=None)
    if earlier is not None:
        _expect_as_many_sources(files[0], sources, _text_or_empty(spark, f"{path}/{OFFSETS}/{earlier}"))
    return QueryLog(batch, watermark, sources, max(began))


def _expect_no_links_out(path: str) -> None:
    """Raise UnsafePathError for a link out of a checkpoint on this machine: Spark would read, and quote, what it names.

    The rule is that of state files: the user's path may be a link, and links in the folder may name files there.
    """
    try:
        filesystem, folder = locate(path)
    except OptionError:
        return  # a file system of Spark alone, which has no links
    if not isinstance(filesystem, LocalFileSystem) or filesystem.info(folder) is None:
        return
    inside = real_path(folder).rstrip("/") + "/"
    for entry in below(filesystem, folder):
        if entry.is_link and not (real := real_path(entry.path)).startswith(inside):
            raise leads_out(entry.path, real, folder)


def logged_batches(spark: SparkSession, path: str, name: str) -> set[int]:
    """Return the batches of a log by the names of its files. Empty if there is none."""
    folder = f"{path}/{name}"
    try:
        rows = spark.read.format("binaryFile").load(folder).select("path").collect()
    except SPARK_ERRORS as error:
        if "PATH_NOT_FOUND" in str(error):
            return set()
        raise _unreadable(folder, error) from error
    split = [row["path"].rsplit("/", 2)[1:] for row in rows]
    return {int(number) for parent, number in split if parent == name and number.isascii() and number.isdecimal()}


def _text(spark: SparkSession, file: str) -> str:
    """Return the text of a file. The empty one if there is none."""
    try:
        rows = spark.read.format("text").option("wholetext", True).load(file).collect()
    except SPARK_ERRORS as error:
        if "PATH_NOT_FOUND" in str(error):
            return ""
        raise _unreadable(file, error) from error
    return "".join(row["value"] for row in rows)


def _unreadable(path: str, error: Exception) -> StorageError:
    return StorageError(
        "a log of the query cannot be read",
        path=path,
        found=first_line(error),
        remedy="it is damaged, or must not be read by this session: the cause says which; restore it from a copy, or "
        "take another batch: batch_id=...",
    )


def _expect_stopped(spark: SparkSession, path: str) -> None:
    """Raise OptionError if the query runs in this session. File ``metadata`` has its id."""
    running = {query.id for query in spark.streams.active}
    if running and any(number in _text(spark, f"{path}/metadata") for number in running):
        raise OptionError(
            "the query runs in this session: what it reads from now on would be read twice",
            path=path,
            remedy="stop it after a batch (query.processAllAvailable(); query.stop()); batch_id= takes a committed "
            "batch all the same",
        )


def _text_or_empty(spark: SparkSession, file: str) -> str:
    """Return the text of a file that need not be readable."""
    with suppress(StorageError):
        return _text(spark, file)
    return ""


def _lines(file: str, text: str) -> list[str]:
    """Return the lines of a file of a log, or raise an error if it is empty, or of no known version."""
    lines = text.split("\n")
    if not text.strip():
        raise CorruptStateError("a log of the query is empty", path=file, remedy=_RESTORE)
    if lines[0].strip() not in LOG_VERSIONS:
        raise UnsupportedVersionError(
            "the log of the query has an unknown version",
            path=file,
            expected=", ".join(LOG_VERSIONS),
            found=f"{lines[0]!r:.40}",
            remedy="it is damaged, or of a release of Spark that this one does not know",
        )
    return lines


def _parsed(text: str) -> Any:
    """Return the value of JSON, or None if it is none."""
    try:
        return parse_json(text)
    except ValueError:
        return None


def _number(file: str, text: str, name: str) -> int:
    """Return a number of the metadata in a log. 0 if it has none."""
    metadata = _parsed(text)
    number = metadata.get(name, 0) if isinstance(metadata, dict) else None
    if type(number) is not int or not 0 <= number <= MAX_LONG:
        raise CorruptStateError(
            f"the log of the query has no number {name}", path=file, found=f"{text:.100}", remedy=_RESTORE
        )
    return number


def _sources(file: str, text: str) -> tuple[str, dict[str, str | None]]:
    """Return the metadata and the offsets of the sources after a batch, by their names or numbers."""
    version, *lines = _lines(file, text)
    metadata = lines.pop(0) if lines else ""
    sources: dict[str, str | None] = {}
    for number, line in enumerate(lines):
        name, logged = (line.partition(":")[0], line.partition(":")[2]) if version == "v2" else (str(number), line)
        damaged = not logged or (logged[0] in "{[" and _parsed(logged) is None)
        if damaged or not _are_offsets(logged):
            raise CorruptStateError(
                f"the log of the query has no whole offsets of source {name}",
                path=file,
                found=f"{line:.100}",
                remedy=_RESTORE,
            )
        sources[name] = None if logged == "-" else logged
    if not sources:
        raise CorruptStateError("the log of the query has no sources", path=file, found=f"{text:.100}", remedy=_RESTORE)
    return metadata, sources


def _expect_as_many_sources(file: str, sources: Mapping[str, object], before: str) -> None:
    """Raise CorruptStateError if a batch lacks sources of one before it. Their number changes only with names (v2)."""
    version, *lines = before.split("\n")
    if version.strip() == "v1" and len(lines) - 1 > len(sources) and "0" in sources:
        raise CorruptStateError(
            "the log of the query has not all sources",
            path=file,
            expected=f"{len(lines) - 1}, as the batch before it",
            found=f"{len(sources)}",
            remedy=_RESTORE,
        )


def _partitions(logged: str) -> dict[tuple[str, str], Any]:
    """Return what a source logs by two names, as Kafka's does by topic and partition. Nothing if it logs other things.

    >>> _partitions('{"orders":{"0":23}}'), _partitions('{"logOffset":3}')
    ({('orders', '0'): 23}, {})
    """
    topics = _parsed(logged)
    if not isinstance(topics, dict) or not all(isinstance(partitions, dict) for partitions in topics.values()):
        return {}
    return {(topic, number): offset for topic, partitions in topics.items() for number, offset in partitions.items()}


def _are_offsets(logged: str) -> bool:
    """Return whether all numbers of partitions, if there are such, have an offset from 0."""
    partitions = _partitions(logged)
    if not all(number.lstrip("+-").isdecimal() for _, number in partitions):
        return True  # of another kind of source
    return all(
        number_of(number, MAX_INT) is not None and type(offset) is int and 0 <= offset <= MAX_LONG
        for (_, number), offset in partitions.items()
    )


def partitions_of(logged: str) -> dict[tuple[str, int], int] | None:
    """Return offsets by topic and partition, or None if a source does not log them so.

    >>> partitions_of('{"orders":{"0":23,"10":7}}'), partitions_of('{"logOffset":3}'), partitions_of("17")
    ({('orders', 0): 23, ('orders', 10): 7}, None, None)
    """
    offsets = {}
    for (topic, number), offset in _partitions(logged).items():
        partition = number_of(number, MAX_INT)
        if partition is None or type(offset) is not int or not 0 <= offset <= MAX_LONG:
            return None
        offsets[topic, partition] = offset
    return offsets or None


def stateful_operators(spark: SparkSession, path: str, batch: int) -> tuple[tuple[StreamingOperator, ...], int]:
    """Return the stateful operators of a query, as Spark's own source lists them, and the first batch with state."""
    with spark_errors(path, "the stateful operators of the query cannot be listed by this Spark"):
        rows = spark.read.format("state-metadata").option("batchId", batch).load(path).collect()
    first = max((row["minBatchId"] for row in rows), default=batch)
    if batch < first:
        raise OptionError(f"the state after batch {batch} was deleted", path=path, remedy=f"choose one from {first} on")
    operators: dict[int, StreamingOperator] = {}
    for row in sorted(rows, key=lambda row: row["operatorId"]):
        number, name = row["operatorId"], row["operatorName"]
        properties = _parsed(row["operatorProperties"] or "{}")
        variables = [one for one in _variables(properties, path) if one["stateVariableType"] != TIMERS]
        unknown = [one for one in variables if one["stateVariableType"] not in KINDS]
        if unknown:
            raise UnsupportedVersionError(
                f"variable {unknown[0]['stateName']!r} is of a kind that this release does not know",
                path=path,
                expected=", ".join(KINDS),
                found=unknown[0]["stateVariableType"],
                remedy="a newer release of pyspark-savepoint may know it",
            )
        states = (
            StreamingState(one["stateName"], KINDS[one["stateVariableType"]], one["ttlEnabled"]) for one in variables
        )
        mode = str(properties.get("timeMode", "")).lower()
        operators[number] = StreamingOperator(number, name, tuple(sorted(states, key=lambda state: state.name)), mode)
    if not operators and _has_files(spark, f"{path}/state"):
        raise UnsupportedVersionError(
            "Spark did not record the stateful operators of the query",
            path=path,
            expected="folder state/0/_metadata, which Spark 4.0 and later write",
            remedy="run the query with Spark 4.0 or later for a batch",
        )
    return tuple(operators.values()), first


def _variables(properties: Any, path: str) -> list[dict[str, Any]]:
    """Return the variables that Spark recorded of an operator, or raise CorruptStateError for another form."""
    variables = properties.get("stateVariables", []) if isinstance(properties, dict) else None
    kinds = {"stateName": str, "stateVariableType": str, "ttlEnabled": bool}
    if not isinstance(variables, list) or not all(
        isinstance(one, dict) and all(type(one.get(name)) is kind for name, kind in kinds.items()) for one in variables
    ):
        raise CorruptStateError(
            "the checkpoint's record of a stateful operator is damaged",
            path=path,
            expected="stateVariables, each with a stateName, a stateVariableType and ttlEnabled",
            found=f"{properties!r:.200}",
            remedy=_RESTORE,
        )
    return variables


def _has_files(spark: SparkSession, path: str) -> bool:
    """Return whether there is a file below a folder."""
    try:
        files = spark.read.format("binaryFile").option("recursiveFileLookup", True).load(path).select("path")
        return not files.isEmpty()
    except SPARK_ERRORS as error:
        if "PATH_NOT_FOUND" in str(error):
            return False
        raise _unreadable(path, error) from error


@contextmanager
def spark_errors(path: str, problem: str) -> Iterator[None]:
    """Raise UnsupportedStateError with the first line of an error of Spark's own source. StorageError of its files."""
    try:
        with readable_state():
            yield
    except SPARK_ERRORS as error:
        raise UnsupportedStateError(
            problem,
            path=path,
            found=first_line(error),
            remedy="restore a file that is damaged or gone from a copy; else read it with the release of Spark that "
            "the query ran on, 4.0 or later, or run the query there for a batch; if its schema evolved, run a batch "
            "that writes all keys",
        ) from error
