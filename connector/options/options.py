"""Options of a read: the only place of their names, defaults and descriptions.

They are parsed once, on the driver, with one error for all problems.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self, TypeVar

from pyspark_savepoint.formats.columns import DecodeOptions
from pyspark_savepoint.formats.errors import (
    OptionError,
    SavepointWarning,
    SnapshotGoneError,
    SnapshotNotFoundError,
    StateFileNotFoundError,
)
from pyspark_savepoint.formats.filesystems.filesystem import locate
from pyspark_savepoint.formats.filesystems.storage_options import OPTION, StoragePath
from pyspark_savepoint.formats.metadata.key_groups import UPPER_BOUND_MAX_PARALLELISM
from pyspark_savepoint.formats.plug_ins import KRYO_CLASSES, plugged_in
from pyspark_savepoint.formats.redaction import redacted
from pyspark_savepoint.formats.serializers.registry import GivenSerializers
from pyspark_savepoint.formats.snapshot.as_of import (
    LATEST,
    VersionRange,
    explained,
    snapshot_as_of,
    versions_between,
)
from pyspark_savepoint.formats.snapshot.histories import SnapshotInfo
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot, find_snapshots
from pyspark_savepoint.options.option_fields import (
    SERIALIZERS_DOC,
    STORAGE_OPTIONS_DOC,
    absolute_path,
    class_paths,
    collect,
    given_names,
    listed,
    named,
    storage,
    table_of,
)
from pyspark_savepoint.options.option_values import is_version
from pyspark_savepoint.statebackends.jobs.graph.operator_ids import operator_at_plan
from pyspark_savepoint.statebackends.jobs.graph.stream_graph import StreamGraphHasher
from pyspark_savepoint.statebackends.requests.applicability import (
    CONNECTORS_WITH_CHANGES,
    DECODED,
    FEED,
    FUNCTIONS,
    HEAVIEST_KEYS,
    NAMES,
    OF_ONE_SNAPSHOT,
    OF_OPERATORS,
    OF_SERIALIZERS,
    OF_VALUES,
    STREAM,
    SURVEYED,
    TABLES,
    WITH_CHANGES,
)
from pyspark_savepoint.statebackends.requests.request import (
    DEFAULT_BATCH_ROWS,
    ComparisonRequest,
    EntriesRequest,
    FeedRequest,
    FeedVersion,
    TableRequest,
)
from pyspark_savepoint.statebackends.requests.table_options import (
    InvalidOptionValueError,
    TableOptions,
    choice,
    flag,
    kryo_words,
    names,
    option,
    required,
    typed,
    whole_number,
)
from pyspark_savepoint.statebackends.requests.table_options import (
    text as words,
)

if TYPE_CHECKING:
    from pyspark_savepoint.formats.serializers.kryo.described.job_classes import JobClasses

A = TypeVar("A")
#: How often the newest snapshot is opened, while its job deletes one after the other.
ATTEMPTS = 5
MAX_BATCH_ROWS = 1 << 20
MAX_DECIMAL_PRECISION = 38
#: Options that choose a snapshot of a folder, in lower case.
AS_OF = frozenset({"versionasof", "timestampasof", "asof"})
#: The largest checkpoint id, of 18 digits.
MAX_VERSION = 10**18 - 1
#: The largest number of checkpoints of one micro-batch.
MAX_CHECKPOINTS = 1_000_000
DROP_CARRYOVERS, NO_DEDUPLICATION, NET_CHANGES = "dropCarryovers", "none", "netChanges"
#: Options whose rows a change feed compares by their values, so that it does not see changes of bytes alone.
BY_VALUE = ("flatten", "keys")

# -- values of options of reads -----------------------------------------------------------------------------


@typed("int | str")
def _version(value: str) -> int | str:
    """Parse a checkpoint id, or ``latest``."""
    folded = value.strip().casefold()
    if folded == LATEST:
        return LATEST
    if not re.fullmatch("[0-9]{1,19}", folded):
        raise InvalidOptionValueError("a checkpoint id, such as 42, or latest")
    return int(folded)


@typed("int")
def _starting_version(value: str) -> int | str:
    """Parse the checkpoint id of the first changes, or ``latest``."""
    if value.strip().casefold() == LATEST:
        return LATEST
    try:
        return int(whole_number(0, MAX_VERSION)(value))
    except InvalidOptionValueError:
        raise InvalidOptionValueError("a checkpoint id, such as 42, 0, or for a stream latest") from None


@typed("datetime | str")
def _time(value: str) -> datetime:
    """Parse a time with a zone.

    >>> _time("2026-11-24T12:00:00Z").isoformat()
    '2026-11-24T12:00:00+00:00'
    """
    try:
        moment = datetime.fromisoformat(value.strip())
    except ValueError:
        raise InvalidOptionValueError("a time with its zone, such as 2026-11-24T12:00:00Z or ...+02:00") from None
    if moment.tzinfo is None:
        raise InvalidOptionValueError(
            f"a time with its zone, such as {moment.isoformat()}Z or {moment.isoformat()}+02:00"
        )
    return moment


def _version_or_time(value: str) -> int | str | datetime:
    """Parse what chooses a version: a checkpoint id, ``latest``, or a time with a zone."""
    try:
        version = is_version(value)
    except OptionError as error:
        raise InvalidOptionValueError(f"a checkpoint id, {LATEST}, or a time: {error.facts['expected']}") from None
    return _version(value) if version else _time(value)


def _deduplication(value: str) -> str:
    modes = {mode.casefold(): mode for mode in (DROP_CARRYOVERS, NO_DEDUPLICATION, NET_CHANGES)}
    if value.strip().casefold() not in modes:
        raise InvalidOptionValueError(" or ".join(modes.values()))
    return modes[value.strip().casefold()]


def _no_option(_: str) -> NoReturn:
    raise InvalidOptionValueError("no text: users do not set this option")


def _decimals(value: str) -> str:
    folded = value.strip().casefold()
    match = re.fullmatch(r"([0-9]{1,2})\s*,\s*([0-9]{1,2})", folded)
    if match and 1 <= int(match[1]) <= MAX_DECIMAL_PRECISION and int(match[2]) <= int(match[1]):
        return f"{int(match[1])},{int(match[2])}"
    if folded not in ("auto", "string"):
        raise InvalidOptionValueError("auto, string, or precision and scale, such as 38,18")
    return folded


def parse_serializers(value: str) -> GivenSerializers:
    """Return the serializers of a text."""
    from pyspark_savepoint.options.pickled_serializers import serializers_of

    return serializers_of(value)


# -- the options --------------------------------------------------------------------------------------------

_ROWS_OF_DELETES = "deletes and updates are rows of a change feed: filter by '_change_type'"
_COLUMNS_OF_STREAM = (
    "a query that is started again has the columns of the newest checkpoint, and .schema(...) chooses some of them"
)
_INCLUSIVE = "both ends of a range are inclusive: name the next version, or the one before"
_NOT_A_TEXT = "columns and their types are those of the state, so nothing is inferred or parsed"
_ONE_FOLDER = "load() takes the folder of one snapshot. A folder with several lists them, and 'versionAsOf' chooses one"
_PER_TRIGGER = "a micro-batch has whole checkpoints: 'maxCheckpointsPerTrigger' says how many"
_WRITTEN = "it is for what is written, and a read has what is there"
#: Options of writes that people look for in reads.
OF_WRITES = ("types", "typesfrom", "inferredby", "ttl", "flinkversion", "maxparallelism", "compression", "drop")
#: Options of other sources for the same, in lower case, and what is there in their place: those of Delta, Spark's
#: change data capture, its state store, its file sources and Kafka, and Iceberg.
ELSEWHERE: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(OF_WRITES, _WRITTEN),
        "readchangedata": "its name is 'readChangeFeed'",
        "maxfilespertrigger": _PER_TRIGGER,
        "maxbytespertrigger": _PER_TRIGGER,
        "maxoffsetspertrigger": _PER_TRIGGER,
        "streaming-max-files-per-micro-batch": _PER_TRIGGER,
        "streaming-max-rows-per-micro-batch": _PER_TRIGGER,
        "ignoredeletes": _ROWS_OF_DELETES,
        "ignorechanges": _ROWS_OF_DELETES,
        "skipchangecommits": _ROWS_OF_DELETES,
        "streaming-skip-delete-snapshots": _ROWS_OF_DELETES,
        "streaming-skip-overwrite-snapshots": _ROWS_OF_DELETES,
        "ignorefiledeletion": "'failOnDataLoss' = false steps over checkpoints that are gone",
        "ignoremissingfiles": "'failOnDataLoss' = false steps over checkpoints that are gone",
        "excluderegex": "the folder of one job, or 'startingVersion', leaves checkpoints out",
        "witheventtimeorder": "checkpoints are read one after the other, in the order of their ids",
        "schematrackinglocation": _COLUMNS_OF_STREAM,
        "schemalocation": _COLUMNS_OF_STREAM,
        "streamingsourcetrackingid": _COLUMNS_OF_STREAM,
        "allowsourcecolumnrename": _COLUMNS_OF_STREAM,
        "allowsourcecolumndrop": _COLUMNS_OF_STREAM,
        "allowsourcecolumntypechange": _COLUMNS_OF_STREAM,
        "mergeschema": _COLUMNS_OF_STREAM,
        "computeupdates": "rows with a key are always updated, as two rows: 'update_preimage' and 'update_postimage'",
        "startingboundinclusive": _INCLUSIVE,
        "endingboundinclusive": _INCLUSIVE,
        "batchid": "'versionAsOf' chooses a snapshot by its checkpoint id",
        "snapshot-id": "'versionAsOf' chooses a snapshot by its checkpoint id",
        "as-of-timestamp": "'timestampAsOf' chooses a snapshot by a time, such as 2026-11-24T12:00:00Z",
        "snapshotstartbatchid": "a checkpoint is whole: 'versionAsOf' chooses it by its id",
        "branch": "a folder has one history: 'versionAsOf' chooses a snapshot by its checkpoint id",
        "tag": "'versionAsOf' chooses a snapshot by its checkpoint id; one that is held has its folder as its path",
        "as.of.instant": "'timestampAsOf' chooses a snapshot by a time, such as 2026-11-24T12:00:00Z",
        "start-timestamp": "'startingTimestamp' is a time with its zone, such as 2026-11-24T12:00:00Z",
        "end-timestamp": "'endingTimestamp' is a time with its zone, such as 2026-11-24T12:00:00Z",
        "operatorid": "'uid' names the operator, 'state' one of its states",
        "storename": "'uid' names the operator, 'state' one of its states",
        "statevarname": "'state' names a state; 'flatten' shows its elements as rows",
        "changestartbatchid": "'startingVersion' is the checkpoint id of the first changes",
        "start-snapshot-id": "'startingVersion' is the checkpoint id of the first changes, inclusive",
        "startingoffsets": "'startingVersion' says where a stream begins: a checkpoint id, 0, or latest",
        "stream-from-timestamp": "'startingTimestamp' says where a stream begins",
        "changeendbatchid": "'endingVersion' is the checkpoint id of the last changes",
        "end-snapshot-id": "'endingVersion' is the checkpoint id of the last changes",
        "endingoffsets": "'endingVersion' is the checkpoint id of the last changes",
        **dict.fromkeys(("header", "inferschema", "samplingratio", "sep", "delimiter", "multiline"), _NOT_A_TEXT),
        **dict.fromkeys(("pathglobfilter", "recursivefilelookup", "basepath"), _ONE_FOLDER),
        **dict.fromkeys(
            ("modifiedbefore", "modifiedafter"), "'timestampAsOf' chooses a snapshot of a folder by a time"
        ),
        "timestampformat": "'timestamps' says how times are shown",
        "columnnameofcorruptrecord": "'undecodable' says what values become that only the job's code can decode",
    }
)


@redacted
@dataclass(frozen=True, slots=True, kw_only=True)
class SavepointReadOptions(TableOptions):
    """Options of a read: those of the table, and those that choose it, or say how its values become rows."""

    ELSEWHERE: ClassVar[Mapping[str, str]] = ELSEWHERE

    path: str = required(
        absolute_path,
        "the directory of a savepoint or checkpoint, its `_metadata` file, or a directory with several of them. It "
        "is the argument of `load(path)`",
    )
    version_as_of: int | str | None = option(
        _version,
        "of a folder of snapshots the one with this checkpoint id, or the newest: `latest`",
        tables=OF_ONE_SNAPSHOT,
    )
    timestamp_as_of: datetime | None = option(  # noqa: RUF009 (a field)
        _time,
        "of a folder of snapshots the newest whose `_metadata` was written at this time or before, such as "
        "`2026-11-24T12:00:00Z`",
        tables=OF_ONE_SNAPSHOT,
    )
    as_of: int | str | datetime | None = option(  # noqa: RUF009 (a field)
        _version_or_time,
        "`versionAsOf` or `timestampAsOf`, by a name that SQL's `FROM table WITH (...)` takes: Spark has its own time "
        "travel by the other two",
        tables=OF_ONE_SNAPSHOT,
    )
    read_change_feed: bool = option(
        flag,
        "of a folder of snapshots the rows that changed from each to the next, with columns `_change_type` (`insert`, "
        "`delete`, `update_preimage`, `update_postimage`), `_commit_version` and `_commit_timestamp`",
        False,
        tables=WITH_CHANGES,
    )
    starting_version: int | str | None = option(
        _starting_version,
        "with `readChangeFeed`, the checkpoint id to start from (inclusive). `0` starts before the oldest "
        "checkpoint, so all of its rows are inserts. A stream starts at `0` by default, and with `latest` after the "
        "newest checkpoint",
        tables=WITH_CHANGES,
    )
    ending_version: int | str | None = option(
        _version,
        "with `readChangeFeed`, the checkpoint id of the last changes, inclusive",
        shown="`latest`",
        tables=WITH_CHANGES,
    )
    starting_timestamp: datetime | None = option(  # noqa: RUF009 (a field)
        _time,
        "with `readChangeFeed`, changes from the first snapshot on that was complete at this time or later",
        tables=WITH_CHANGES,
    )
    ending_timestamp: datetime | None = option(  # noqa: RUF009 (a field)
        _time,
        "with `readChangeFeed`, changes up to the last snapshot that was complete at this time",
        tables=WITH_CHANGES,
    )
    deduplication_mode: str = option(
        _deduplication,
        "with `readChangeFeed`: `dropCarryovers` leaves out rows whose values did not change. `none` also shows rows "
        "of keyed state of which only other bytes changed, such as the time of last access. `netChanges` shows one "
        "change per row, from before the first version to the last. A row that changed and changed back is not shown",
        DROP_CARRYOVERS,
        shown="dropCarryovers",
        tables=WITH_CHANGES,
    )
    max_checkpoints_per_trigger: int = option(
        whole_number(1, MAX_CHECKPOINTS),
        "with `readStream`, the number of checkpoints whose changes are in one micro-batch",
        1,
        tables=WITH_CHANGES,
    )
    fail_on_data_loss: bool = option(
        flag,
        "with `readStream`, what happens if the job deleted a checkpoint before the query read it. `true`: an error. "
        "`false`: it is skipped, and the micro-batch has the net changes to the next one that exists",
        True,
        tables=WITH_CHANGES,
    )
    pin_folder: str | None = option(
        absolute_path,
        "with `readStream`, a folder of the query. It keeps the checkpoints there that it needs (`pin`), so nothing "
        "is lost if the job deletes them",
        shown="they are not held",
        tables=WITH_CHANGES,
    )
    node: str | None = option(
        words, "the operator, by its name or number in `executionPlan`: for operators without uid", tables=OF_OPERATORS
    )
    execution_plan: str | None = option(
        words,
        "the JSON of the job's `env.getExecutionPlan()`. An object `settings` beside its `nodes` adds what it leaves "
        "out, such as uids",
    )
    stream_graph_hasher: str = option(
        choice(*StreamGraphHasher),
        "with `executionPlan`, the hasher for ids of operators without uid: `v2`, or the proposed `v3`",
        "v2",
    )
    parallelism: int | None = option(
        whole_number(1, UPPER_BOUND_MAX_PARALLELISM),
        "number of partitions. Each has the key groups that one subtask of a job with this parallelism would restore",
        shown="from CPUs and bytes, at most max parallelism",
        tables=(*DECODED, *SURVEYED, *FUNCTIONS),
    )
    include_row_kind: bool = option(flag, "adds a field `__row_kind` to rows of SQL jobs", False, tables=OF_VALUES)
    timestamps: str = option(
        choice("micros", "truncate", "raw"),
        "times that Spark's microseconds cannot hold: `micros` fails, `truncate` cuts digits, `raw` returns the "
        "numbers that Flink stores",
        "micros",
        tables=OF_VALUES,
    )
    decimals: str = option(
        _decimals,
        "big numbers: `auto` (BigInteger as DECIMAL(38,0), BigDecimal as STRING), `string`, or precision and scale, "
        "such as `38,18`",
        "auto",
        tables=OF_VALUES,
    )
    text: str = option(
        choice("escape", "replace", "error"),
        "strings with half of a surrogate pair, which Java can hold and UTF-8 cannot. `escape` shows it as U+10FFFF "
        "and its four hex digits, and a write turns it back. `replace` shows U+FFFD. Both warn and name the keys. "
        "`error` fails",
        "escape",
        tables=(*DECODED, HEAVIEST_KEYS, *FUNCTIONS),
    )
    classes: tuple[str, ...] = option(
        class_paths,
        "jars and folders of the job's class files, separated by commas or as a JSON list. Values of these classes "
        "that Kryo wrote become columns. POJO subclasses that are not registered can be read from the hashmap "
        "backend. Every task reads the files",
        (),
        shown="none",
        tables=OF_SERIALIZERS,
    )
    kryo_types: str = option(
        kryo_words,
        "the same without class files, by name and fields, such as `com.shop.Money(cents LONG, cur STRING)`",
        "",
        shown="none",
        tables=OF_SERIALIZERS,
    )
    serializers: GivenSerializers | None = option(  # noqa: RUF009 (a field)
        parse_serializers,
        SERIALIZERS_DOC,
        shown="Flink's, and those of entry points",
        tables=OF_SERIALIZERS,
        typed="SerializerInput | str",
    )
    pickle: bool = option(
        flag,
        "decode pickled values in byte arrays of operators that are not PyFlink's own, without unpickling them",
        False,
        tables=OF_VALUES,
    )
    storage_options: str | None = option(storage, STORAGE_OPTIONS_DOC, shown="the environment")
    batch_size: int = option(whole_number(1, MAX_BATCH_ROWS), "rows per Arrow batch", DEFAULT_BATCH_ROWS, tables=TABLES)
    inherited: tuple[str, ...] = option(names, "", ())
    #: The changes are those of a stream.
    streamed: bool = option(_no_option, "", False)
    #: The snapshots of a change feed, the first None if there is none before the others.
    versions: tuple[SnapshotInfo | None, ...] = option(_no_option, "", ())
    #: The folder that the snapshot was chosen from by its version or time, and whether it is the newest.
    chosen_of: str | None = option(_no_option, "", None)
    chosen_newest: bool = option(_no_option, "", False)
    #: Warnings about snapshots that cannot be read, and are left out.
    unread: tuple[str, ...] = option(_no_option, "", ())
    #: What plans read in place of a table of users: entries, or the differences of two reads.
    entries: EntriesRequest | None = option(_no_option, "", None)  # noqa: RUF009 (a field)
    compared: ComparisonRequest | None = option(_no_option, "", None)  # noqa: RUF009 (a field)

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> Self:
        """Parse Spark's options, and look up the snapshots of versions, or raise one OptionError for all problems."""
        read = cls(**collect(cls, options, _conflicts))
        if read.read_change_feed:
            versions, unread = versions_between(read.located, read._range())
            return replace(read, versions=versions, unread=unread)
        version, time = read.version_as_of, read.timestamp_as_of
        if isinstance(read.as_of, datetime):
            time = read.as_of
        elif read.as_of is not None:
            version = read.as_of
        if version is None and time is None:
            return read
        chosen, unread = snapshot_as_of(read.located, version, time)
        newest = version == LATEST
        whole = replace(read, version_as_of=None, timestamp_as_of=None, as_of=None, unread=unread)
        return replace(whole, path=chosen.path, chosen_of=read.path, chosen_newest=newest)

    def again(self) -> Self:
        """Return the options with the snapshots that are there now: the newest one, or the versions of a feed."""
        if self.streamed:
            return self.between([None, snapshot_as_of(self.located, LATEST)[0]])
        if self.read_change_feed:
            versions, unread = versions_between(self.located, self._range())
            return replace(self, versions=versions, unread=unread)
        assert self.chosen_of is not None
        chosen, _ = snapshot_as_of(StoragePath.of(self.chosen_of, self.storage_options), LATEST)
        return replace(self, path=chosen.path)

    def with_variants(self, form: str) -> Self:
        """Return the options with a form of variants, unless the user chose one. Tables without any accept it."""
        if self.variants is not None:
            return self
        return replace(self, variants=form, inherited=(*self.inherited, "variants"))

    @property
    def snapshots(self) -> list[str]:
        """Return the paths of the snapshots that are read, with their storage options."""
        paths = [version.path for version in self.versions if version is not None] or [self.path]
        if self.compared is not None:
            return [side.path for side in self.compared.sides if side is not None]
        return [StoragePath.of(path, self.storage_options) for path in paths]

    @classmethod
    def parse_stream(cls, options: Mapping[str, str]) -> Self:
        """Parse Spark's options of a stream of changes, whose snapshots are looked up while it runs."""
        read = cls(**collect(cls, options, _conflicts_of_stream))
        return replace(read, read_change_feed=True, streamed=True)

    @property
    def first(self) -> VersionRange:
        """Return the range from the first version on. ``latest`` has none."""
        start = self.starting_version
        assert not isinstance(start, str)
        return VersionRange(start, None, self.starting_timestamp, None)

    def between(self, versions: Sequence[SnapshotInfo | None]) -> Self:
        """Return the options of the changes from the first of some snapshots to the others."""
        return replace(self, versions=tuple(versions))

    def _range(self) -> VersionRange:
        last = None if self.ending_version == LATEST else self.ending_version
        assert not isinstance(last, str)
        return replace(self.first, end=last, end_time=self.ending_timestamp)

    def _feed(self) -> FeedRequest:
        """Return the request for the changes between the versions."""
        ends = self.versions[:: max(1, len(self.versions) - 1)]
        own: type = type(self)
        of_one: dict[str, Any] = {
            attribute.name: attribute.default for name, attribute in named(own) if name in (*FEED, *STREAM)
        }
        versions: list[FeedVersion | None] = []
        for snapshot in ends if self.deduplication_mode == NET_CHANGES else self.versions:
            if snapshot is None:
                versions.append(None)
                continue
            time = None if snapshot.modified is None else round(snapshot.modified * 1_000_000)
            alone = replace(self, path=snapshot.path, versions=(), streamed=False, **of_one)
            versions.append(FeedVersion(alone.request(), snapshot.checkpoint_id or 0, time))
        return FeedRequest(tuple(versions), self.deduplication_mode == NO_DEDUPLICATION, self.streamed)

    def request(self) -> TableRequest:
        """Return the request for the table."""
        decode = DecodeOptions(
            timestamps=self.timestamps,
            decimals=self.decimals,
            row_kind=self.include_row_kind,
            pickle=self.pickle,
            text=self.text,
        )
        same = {field.name: getattr(self, field.name) for field in fields(TableOptions)}
        own: dict[str, Any] = {
            "path": self.located,
            "uid_hash": self.uid_hash if self.node is None or self.versions else self._place(self.node),
            "classes": self._job_classes(),
            "decode": decode,
            "batch_rows": self.batch_size,
            "entries": self.entries,
            "compared": self.compared,
            "feed": self._feed() if self.versions else None,
            "explicit_options": dict(self._explicit_options()),
        }
        return TableRequest(**{**same, **own})

    def _job_classes(self) -> JobClasses | None:
        """Return the job's classes that options or plug-ins describe. Import their readers only if there are any."""
        if not (self.classes or self.kryo_types or self.serializers or plugged_in(KRYO_CLASSES)):
            return None
        from pyspark_savepoint.formats.serializers.kryo.described.job_classes import JobClasses
        from pyspark_savepoint.statebackends.types.pojo_subclasses import ClassFileSubclasses

        subclasses = ClassFileSubclasses(self.classes) if self.classes else None
        return JobClasses.of(self.classes, self.kryo_types, self.serializers, subclasses)

    @property
    def names_operator(self) -> bool:
        """Return whether an option names an operator as the snapshot does."""
        return any(name is not None for name in (self.uid, self.uid_hash, self.operator_name))

    @property
    def located(self) -> str:
        """Return the path with its storage options."""
        return StoragePath.of(self.path, self.storage_options)

    def _explicit_options(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield options that are neither at their defaults nor inherited from ``Savepoint.load``, with their tables."""
        held = {name.casefold() for name in self.inherited}
        own: type = type(self)
        for name, field in named(own):
            changed = getattr(self, field.name) != field.default
            if changed and field.metadata["doc"] and name.casefold() not in held:
                yield name, field.metadata["tables"]

    def _place(self, node: str) -> str:
        """Return the uid hash of the operator at a position in the execution plan."""
        snapshot = Snapshot.open(self.located, allow_outside=self.allow_outside)
        hasher = StreamGraphHasher(self.stream_graph_hasher)
        return operator_at_plan(snapshot, self.execution_plan or "", node, hasher).hex


def at_version(options: Mapping[str, str]) -> dict[str, str]:
    """Return options of a read of a folder at a version as those of a read of that snapshot."""
    version = {name: text for name, text in options.items() if name.casefold() in AS_OF}
    if not version:
        return dict(options)
    reached = {name: text for name, text in options.items() if name.casefold() in ("path", OPTION.casefold())}
    read = SavepointReadOptions.parse({**version, **reached})
    for warning in read.unread:
        warnings.warn(warning, SavepointWarning, stacklevel=3)
    others = {name: text for name, text in options.items() if name not in version and name.casefold() != "path"}
    return {**others, "path": read.path}


def opened_at(options: Mapping[str, str], opened: Callable[[dict[str, str]], A]) -> A:
    """Open a snapshot with options of a read of a folder at a version, and return what that gives.

    The next newest is opened if the newest was asked for, and its job deleted it meanwhile.
    """
    folder = next((text for name, text in options.items() if name.casefold() == "path"), "")
    newest = next((text for name, text in options.items() if name.casefold() in AS_OF), "")
    for attempt in range(ATTEMPTS):
        chosen = at_version(options)
        try:
            return opened(dict(chosen))
        except (SnapshotNotFoundError, StateFileNotFoundError) as error:
            storage, existed = chosen.get(OPTION), chosen != dict(options)
            above = StoragePath.of(folder, storage) if existed else None
            failure = explained(error, [StoragePath.of(chosen["path"], storage)], above, there=existed)
            again = newest.strip().casefold() == LATEST and isinstance(failure, SnapshotGoneError)
            if not again or attempt == ATTEMPTS - 1:
                raise failure from None
    raise AssertionError


def options_table() -> str:
    """Return all options as a Markdown table, for the README."""
    return table_of(SavepointReadOptions)


def options_of_load(options: Mapping[str, str]) -> SavepointReadOptions:
    """Return the options of a read or of a stream: Spark asks for the columns of both in the same way.

    Options of a stream are those of an operator (or of splits, or offsets) below a folder of snapshots, of which they
    choose none. They are returned as those of the changes up to the newest snapshot, whose columns the stream has.
    """
    stream = _of_stream(options)
    if stream is None:
        return SavepointReadOptions.parse(options)
    begins = stream.starting_version is not None or stream.starting_timestamp is not None  # version 0 is one
    if begins and "readchangefeed" in map(str.casefold, options):
        # Columns of a read as well. A stream that is started again may have begun with what is gone now.
        with suppress(OptionError, SnapshotNotFoundError):
            return SavepointReadOptions.parse(options)
    try:
        return stream.again()
    except SnapshotNotFoundError as error:
        filesystem, located = locate(stream.located)
        if filesystem.info(located) is not None and not find_snapshots(stream.located):
            remedy = error.facts.get("remedy")
            error.facts["remedy"] = f"{remedy}; a stream waits for the first, where .schema(...) gives its columns"
        raise


def _of_stream(options: Mapping[str, str]) -> SavepointReadOptions | None:
    """Return the options as those of a stream, if they can be, or None if they are those of a read alone."""
    names = {name.casefold(): text.strip().casefold() for name, text in options.items()}
    of_streams = names.keys() & {name.casefold() for name in STREAM}
    if not of_streams and (
        names.keys() & {*AS_OF, "endingversion", "endingtimestamp"}
        or not (names.keys() & {name.casefold() for name in NAMES} or names.get("table") in CONNECTORS_WITH_CHANGES)
    ):
        return None
    try:
        read = SavepointReadOptions.parse_stream(options)
    except OptionError:
        if of_streams or "readchangefeed" in names:
            raise
        return None
    try:
        Snapshot.find(read.located)
    except SnapshotNotFoundError:
        return read
    if of_streams:
        raise one_is_no_stream(read.path)
    return None


def one_is_no_stream(path: str) -> OptionError:
    """Return the error for a stream of one snapshot."""
    return OptionError(
        "a savepoint is not a stream: a stream has the changes from each checkpoint of a job to the next",
        path=path,
        remedy="readStream with the folder of the job's checkpoints, which has a folder chk-N for each; "
        "spark.read.format('savepoint') reads one snapshot",
    )


def _conflicts(values: Mapping[str, Any]) -> list[str]:
    given = given_names(SavepointReadOptions, values)
    problems = _conflicts_of_both(given, values)
    versions = [name for name in given if name.casefold() in AS_OF]
    if len(versions) > 1:
        problems.append(f"options {listed(versions)} each choose a snapshot: give one of them")
    if versions and values.get("table") == "snapshots":
        problems.append(f"table 'snapshots' lists all versions: option {listed(versions)} chooses one")
    of_streams = [name for name in given if name in STREAM]
    if of_streams:
        problems.append(f"option {listed(of_streams)} is for streams: spark.readStream")
    return problems + _conflicts_of_feed(values, given, versions)


def _conflicts_of_stream(values: Mapping[str, Any]) -> list[str]:
    given = given_names(SavepointReadOptions, values)
    problems = _conflicts_of_both(given, values)
    versions = [name for name in given if name.casefold() in AS_OF]
    if versions:
        problems.append(
            f"option {listed(versions)} chooses one snapshot, a stream has the changes from each to the next: "
            "'startingVersion' says where it begins"
        )
    ends = [name for name in given if name.startswith("ending")]
    if ends:
        problems.append(
            f"option {listed(ends)} is for reads: a stream has no end, but ends with the newest checkpoint if the "
            "trigger is availableNow"
        )
    return problems + _conflicts_of_changes(values, given)


def _conflicts_of_both(names: list[str], values: Mapping[str, Any]) -> list[str]:
    problems = []
    operators = [name for name in names if name in ("uid", "uidHash", "operatorName", "node")]
    if len(operators) > 1:
        problems.append(f"options {listed(operators)} each name the operator: give one of them")
    if (values.get("node") is None) != (values.get("execution_plan") is None):
        problems.append("options 'node' and 'executionPlan' go together: an operator, and the graph that it is in")
    if "streamGraphHasher" in names and "executionPlan" not in names:
        problems.append("option 'streamGraphHasher' is for operators that 'node' and 'executionPlan' name")
    return problems


def _conflicts_of_feed(values: Mapping[str, Any], names: list[str], versions: list[str]) -> list[str]:
    mine = [name for name in names if name in FEED[1:]]
    if not values.get("read_change_feed"):
        if not mine:
            return []
        ends = any(name.startswith("ending") for name in mine)
        stream = "; a stream has no end" if ends else "; so does a stream (readStream)"
        verb = "s {} are" if len(mine) > 1 else " {} is"
        missing = f"option{verb.format(listed(mine))} for changes: 'readChangeFeed' = true reads them{stream}"
        return [missing, *_conflicts_of_changes(values, names)]
    problems = []
    if versions:
        problems.append(f"option {listed(versions)} chooses one snapshot, 'readChangeFeed' the changes between several")
    if not any(name.startswith("starting") for name in mine):
        problems.append(
            "'readChangeFeed' shows what changed, and needs 'startingVersion' or 'startingTimestamp': "
            "with version 0 all rows of the first snapshot are inserts"
        )
    if values.get("starting_version") == LATEST:
        problems.append("'startingVersion' = 'latest' is for streams: it is what changes after the newest version")
    return problems + _conflicts_of_changes(values, names)


def _conflicts_of_changes(values: Mapping[str, Any], names: list[str]) -> list[str]:
    problems = []
    for end in ("starting", "ending"):
        both = [name for name in names if name in FEED and name.startswith(end)]
        if len(both) > 1:
            problems.append(f"options {listed(both)} each choose a version: give one of them")
    if values.get("include_state_window"):
        problems.append(
            "option 'includeStateWindow' cannot apply to changes: where a window's contents are kept is not a value of "
            "its row; leave it out, or read one snapshot with 'versionAsOf'"
        )
    if values.get("deduplication_mode") == NO_DEDUPLICATION:
        useless = [name for name in BY_VALUE if values.get(name)]
        if useless:
            problems.append(
                f"'deduplicationMode' = '{NO_DEDUPLICATION}' cannot apply with option {listed(useless)}, whose rows "
                "are compared by their values"
            )
    return problems
