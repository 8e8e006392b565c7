"""Arguments that several commands have in common: each class has those of one subject."""

from __future__ import annotations

from pyspark_savepoint.command_line.declarations import Arguments, option, positional

UID = positional("the operator: its uid or its uid hash, 32 hex digits (default: all)")
JSON = option("print one JSON object per line")


class Runs(Arguments, shared=True):
    """Of commands that may take some time."""

    progress: bool = option("show progress even if standard error is not a terminal")
    quiet: bool = option("show neither progress nor a note when code is compiled")


class Stored(Runs, shared=True):
    """Of commands whose paths may be in an object store."""

    storage_option: list[str] = option(
        "a setting of the object store, such as endpoint=http://host:9000 or region=eu-west-1", metavar="NAME=VALUE"
    )


class Opens(Stored, shared=True):
    """Of commands that open files which a snapshot names."""

    allow_outside: bool = option("open files that the snapshot names outside its own folder")


class AtPath(Stored, first=True):
    """Of commands whose path is a snapshot, or a folder of several."""

    path: str = positional(
        "a savepoint, a retained checkpoint (chk-N), or its _metadata, on a local disk or in s3://, gs://, abfs://, hdfs://"
    )


class OfVersion(AtPath):
    """Of commands that take one snapshot of a folder of several."""

    as_of: str | None = option(
        "the path is a folder of snapshots: take the one with this checkpoint id, the newest (latest), or the newest "
        "at a time such as 2026-11-24T12:00:00Z",
        metavar="VERSION",
    )


class OfSnapshot(OfVersion, Opens):
    """Of commands that take one snapshot, and open its files."""


class WithTarget(Stored, first=True):
    """Of commands that write to a new folder."""

    target: str = positional("the folder of the new savepoint, which must not exist yet", metavar="new")


class Copied(Arguments, shared=True):
    """Of commands that write files of a snapshot anew, or copy them."""

    checksums: str | None = option(
        "how files are read that have checksums: ignore takes a damaged file as it is, verify makes it an error (the "
        "default) and has salvage leave its state out, require also refuses files without checksums",
        choices=("ignore", "verify", "require"),
        metavar="HOW",
    )


class OldAndNew(Copied, OfSnapshot, WithTarget, first=True):
    """Of commands that write a new savepoint of a snapshot."""

    path: str = positional("the snapshot", metavar="old")


class Record(Arguments, shared=True):
    """Of commands that print text, or a record."""

    json: bool = JSON


class Table(Arguments, shared=True):
    """Of commands that print a table."""

    json: bool = JSON
    csv: bool = option("print CSV, with a header")
    safe_csv: bool = option("print CSV with texts that a spreadsheet cannot take for formulas")
    wide: bool = option("do not cut columns to the width of the terminal")


CHECKPOINT_ID = option(
    "the checkpoint id of the new savepoint, from which the job counts on (default: as before)", metavar="N"
)
PORTABLE = option("write all keyed state so that every state backend restores it")
DRY_RUN = option("check everything, show what would change, and write nothing")


class Writes(Arguments):
    """Of commands that write an edited savepoint."""

    dry_run: bool = DRY_RUN
    flink: str | None = option(
        "the oldest Flink that must restore it, such as 1.20 (default: as before)", metavar="VERSION"
    )
    portable: bool = PORTABLE
    checkpoint_id: int | None = CHECKPOINT_ID


FILE_FORMAT = option("the format of the file (default: by its name)", choices=("parquet", "arrow", "json", "csv"))
KEYS = option("only these keys (write composite keys as JSON)", metavar="KEY")
KEYS_FILE = option(
    "the keys of a file: column key, or the only one, of .parquet, .arrow, .jsonl or .csv, or a key per line of .txt",
    metavar="FILE",
)
WHERE = option(
    "the rows for which a condition is true, in SQL without functions: \"total < 0 AND profile.tier = 'GOLD'\"",
    metavar="CONDITION",
)


class Edited(Writes, OldAndNew):
    """Of commands that write an edited savepoint."""


class OfErasure(Arguments):
    """Of commands that erase keys, and prove it."""

    keys: list[str] | None = KEYS
    keys_file: str | None = KEYS_FILE
    where: list[str] = option(
        "rows for which the condition is true. NAME is UID (all of their keys), UID.STATE (their elements, "
        "entries or values), or UID.splits, UID.source_coordinator, UID.committables, UID.in_flight (rows of "
        "these tables)",
        metavar="NAME: CONDITION",
    )
    salt_file: str | None = option(
        "the secret with which the report hashes keys, made if it is missing. Keep it apart from the report "
        "(default: the name of the report with .salt)",
        metavar="FILE",
    )
    format: str | None = FILE_FORMAT


class OfFile(Arguments):
    """Of commands that write a file as state."""

    uid: str = positional("the operator: its uid, or the uid hash of an existing one")
    file: str = positional("the file, with one row per key: .parquet, .arrow, .feather, .jsonl or .csv")
    state: str | None = positional(
        "the state, if the file has only one (default: every column except the key is a state)"
    )
    key: str | None = option("the column of the key, or several of a composite key (default: key)", metavar="COLUMNS")
    type: list[str] = option(
        "the Flink type of a column, such as total=LONG or tags=LIST<STRING> (default: as in the existing "
        "state, else by the file)",
        metavar="COLUMN=TYPE",
    )
    kind: list[str] = option(
        "value, list, map, reducing or aggregating (default: that of the existing state, else list and map for "
        "such columns, else value)",
        metavar="COLUMN=KIND",
    )
    ttl: str | None = option(
        "columns whose states have a time to live in the job (default: as in the existing state, "
        "and -o ttl=false removes it)",
        metavar="COLUMNS",
    )
    table: str | None = option(
        "what the rows are: keyed_state (default), window_state, timers, or operator state: list, union, broadcast",
        metavar="TABLE",
        choices=("keyed_state", "window_state", "timers", "list", "union", "broadcast"),
    )
    name: str | None = option("the name of a new operator, which Flink 2 shows")
    format: str | None = FILE_FORMAT
    option: list[str] = option(
        "an option of a write of the Spark data source, such as typesFrom=/savepoints/old#accounts",
        short="-o",
        metavar="NAME=VALUE",
    )


READ_OPTION = option(
    "an option of the Spark data source, such as timestamps=raw or uids=accounts,orders",
    short="-o",
    metavar="NAME=VALUE",
)


class Migrates(Arguments):
    """Of commands about another release of Flink."""

    flink: str = option("the Flink that must restore it, such as 2.3", metavar="VERSION")
    classes: list[str] = option("a jar or folder of class files", metavar="PATH")
    types_from: str | None = option("a savepoint that the new job has taken", metavar="PATH")
    type: list[str] = option("the type of a state: UID.STATE=LIST<STRING>", metavar="STATE=TYPE")
    kryo_types: str = option(
        "classes that Kryo wrote, without class files: 'com.shop.Money(cents LONG, cur STRING)'",
        metavar="CLASSES",
        default="",
    )
    parallelism: int | None = option(
        "how many processes read and write (default: as many as processors, after some seconds)", metavar="N"
    )
