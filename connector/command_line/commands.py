"""Every command: its arguments, its help, and the examples that are shown and documented."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pyspark_savepoint.command_line.declarations import Arguments, Command, option, positional
from pyspark_savepoint.command_line.shared_arguments import (
    CHECKPOINT_ID,
    DRY_RUN,
    FILE_FORMAT,
    KEYS,
    KEYS_FILE,
    PORTABLE,
    READ_OPTION,
    UID,
    WHERE,
    AtPath,
    Copied,
    Edited,
    Migrates,
    OfErasure,
    OfFile,
    OfSnapshot,
    OfVersion,
    OldAndNew,
    Opens,
    Record,
    Table,
    WithTarget,
    Writes,
)
from pyspark_savepoint.statebackends.requests.applicability import DECODED, WITH_CHANGES
from pyspark_savepoint.statebackends.requests.parallelism import DEFAULT_MAX_PARALLELISM

LOOK, CHECK, EDIT, COPY, TOOL = "look inside", "check", "write an edited savepoint", "copy and export", "this tool"
COMMANDS: list[Command] = []
A = TypeVar("A", bound=Arguments)


def command(runs: str, group: str, *examples: str) -> Callable[[type[A]], type[A]]:
    """Declare a command: a class with its name, what it does, and a field for each argument."""

    def declared(takes: type[A]) -> type[A]:
        COMMANDS.append(Command(runs, group, takes, examples))
        return takes

    return declared


@command(
    "reading.ls",
    LOOK,
    "ls /savepoints/savepoint-2f1a3c",
    "ls s3://bucket/checkpoints --storage-option region=eu-west-1",
    "ls /checkpoints/7d2e --as-of latest",
    'ls /savepoints/savepoint-2f1a3c --sql "SELECT count(*) FROM accounts"',
)
class Ls(OfSnapshot, Table):
    """List the states of a snapshot, or the snapshots of a folder."""

    path: str = positional("a snapshot, or a folder with several, on a local disk or in s3://, gs://, abfs://, hdfs://")
    sql: list[str] = option("run a SQL query over the tables (needs Spark and Java, may be repeated)", metavar="QUERY")


@command(
    "retaining.retained_snapshots", LOOK, "retained /checkpoints/7d2e", "retained /checkpoints/7d2e --unneeded --csv"
)
class Retained(AtPath, Table):
    """Show how much space each checkpoint of a folder holds alone, and files that none needs.

    Nothing is deleted. Column alone is what becomes free if a checkpoint is deleted. A running job may still need
    files that are listed, and so may snapshots elsewhere, such as those of a job that was restored from one of
    these.
    """

    path: str = positional("a folder with snapshots, on a local disk or in s3://, gs://, abfs://, hdfs://")
    unneeded: bool = option("list the files that no snapshot below the folder needs")


@command(
    "reading.show",
    LOOK,
    "show /savepoints/savepoint-2f1a3c accounts --limit 5",
    "show /savepoints/savepoint-2f1a3c accounts total --keys 1042 1043",
    'show /savepoints/savepoint-2f1a3c accounts --where "total < 0" --columns key,total',
    "show /savepoints/savepoint-2f1a3c --keys 1042",
    "show /savepoints/savepoint-2f1a3c accounts --table timers --json --limit 0",
    "show /savepoints/savepoint-2f1a3c --table files",
)
class Show(OfSnapshot, Table):
    """Show the rows of a table of an operator.

    Keys without a row are listed. The exit code is 1 if none of the keys has a row.
    """

    uid: str | None = positional(
        "the operator: its uid or its uid hash, 32 hex digits (default: --keys looks into all "
        "operators, and "
        "--table shows the tables of the whole snapshot, or all timers)"
    )
    state: str | None = positional("one state (default: all keyed states, or the only operator state)")
    table: str | None = option(
        "the table: keyed_state, window_state, timers, operator_state, splits, source_coordinator, "
        "committables, in_flight, files, ... (ls shows which tables an operator has)"
    )
    keys: list[str] | None = KEYS
    where: str | None = WHERE
    columns: str | None = option("only these columns, separated by commas", metavar="NAMES")
    limit: int = option("how many rows, 0 for all (default: 20)", metavar="N", default=20)
    option: list[str] = READ_OPTION


@command(
    "reading.sizes",
    LOOK,
    "sizes /savepoints/savepoint-2f1a3c",
    "sizes /savepoints/savepoint-2f1a3c accounts --by subtask",
)
class Sizes(OfSnapshot, Table):
    """Show entries and bytes of every state, the largest first, without decoding values."""

    uid: str | None = UID
    by: str = option(
        "one row per state, subtask or key group (default: state)",
        choices=("state", "subtask", "key-group"),
        default="state",
    )
    option: list[str] = READ_OPTION


@command("reading.heaviest", LOOK, "heaviest /savepoints/savepoint-2f1a3c accounts --top 10")
class Heaviest(OfSnapshot, Table):
    """Show the keys of every state that take the most bytes."""

    uid: str | None = UID
    top: int = option("how many keys of each state (default: 5)", metavar="N", default=5)
    option: list[str] = READ_OPTION


@command(
    "reading.offsets",
    LOOK,
    "offsets /savepoints/savepoint-2f1a3c",
    "offsets s3://bucket/checkpoints/chk-42 orders-source --json",
    "offsets /checkpoints/7d2e --history --last 10",
)
class Offsets(OfSnapshot, Table):
    """Show where the sources continue: topic or stream, partition, next position."""

    uid: str | None = UID
    history: bool = option("the path is a folder: show every snapshot below it, oldest first")
    last: int | None = option("with --history: only the newest N snapshots", metavar="N")
    option: list[str] = READ_OPTION


@command(
    "moving.set_offsets",
    EDIT,
    "set-offsets /savepoints/savepoint-2f1a3c /savepoints/rewound orders-source --set orders-3=1200",
    "set-offsets /savepoints/savepoint-2f1a3c /savepoints/rewound --by -1000 --dry-run",
)
class SetOffsets(OldAndNew, Record):
    """Write a savepoint whose source continues at other positions (rewind or skip).

    Everything else is copied byte for byte. Command offsets lists the splits. A job that reads records again keeps
    the changes of state that they made before.
    """

    uid: str | None = positional("the source: its uid or its uid hash (default: the only one)")
    set: list[str] = option(
        "the next position of a split, such as orders-3=1200, or of a topic, such as orders=earliest",
        metavar="SPLIT=POSITION",
    )
    reset: str | None = option("one position for all splits: earliest, latest, committed", metavar="WORD")
    by: int | None = option("a number by which all positions move, such as -1000", metavar="N")
    clamp: bool = option("with --by: use 0 for positions that would be below 0")
    dry_run: bool = DRY_RUN
    checkpoint_id: int | None = CHECKPOINT_ID
    connector: str | None = option("the connector, such as kafka, if it is not recognized", metavar="NAME")


@command(
    "edits.rename",
    EDIT,
    "rename /savepoints/savepoint-2f1a3c /savepoints/renamed accounts=customers",
    "rename /savepoints/savepoint-2f1a3c /savepoints/renamed accounts.total=sum",
)
class Rename(Edited, Table):
    """Write a savepoint in which operators, states or timer services have new names.

    All names on the left are the old ones, so you can swap two operators.
    """

    names: list[str] = positional(
        "an operator: UID=NEW, or HASH=UID to give it a uid. A state or timer service: UID.STATE=NEW",
        metavar="NAME=NEW",
    )


@command("edits.copy_operator", EDIT, "copy-operator /savepoints/savepoint-2f1a3c /savepoints/two accounts accounts-2")
class CopyOperator(Edited, Table):
    """Write a savepoint with a copy of an operator, under another uid."""

    uid: str = positional("the operator: its uid or its uid hash (32 hex digits)")
    copies: list[str] = positional("the uid of the copy, or several", metavar="copy")


@command(
    "edits.remove",
    EDIT,
    "remove /savepoints/savepoint-2f1a3c /savepoints/new currency-converter",
    "remove /savepoints/savepoint-2f1a3c /savepoints/new accounts.coupon accounts.user-timers --dry-run",
)
class Remove(Edited, Table):
    """Write a savepoint without some operators, states or timer services."""

    names: list[str] = positional("an operator (UID), a state or a timer service (UID.STATE)", metavar="NAME")


@command(
    "edits.remove_keys",
    EDIT,
    "remove-keys /savepoints/savepoint-2f1a3c /savepoints/new accounts --keys 1042 1043",
    'remove-keys /savepoints/savepoint-2f1a3c /savepoints/new accounts --where "total < 0" --dry-run',
    "remove-keys /savepoints/savepoint-2f1a3c /savepoints/new accounts --keys-file closed.csv",
)
class RemoveKeys(Edited, Table):
    """Write a savepoint without some keys of an operator: its states, windows and timers lose them.

    Nothing is written if none of --keys has state, or no row matches --where. Keys of a file that have no state are
    ignored.
    """

    uid: str = positional("the operator: its uid or its uid hash (32 hex digits)")
    keys: list[str] | None = KEYS
    keys_file: str | None = KEYS_FILE
    where: str | None = WHERE
    table: str | None = option(
        "with --where: the table with the columns (default: the first of these that the operator has)",
        choices=("keyed_state", "window_state", "timers"),
    )
    format: str | None = FILE_FORMAT
    option: list[str] = READ_OPTION


@command(
    "erasing.erase",
    EDIT,
    "erase /savepoints/savepoint-2f1a3c /savepoints/erased --keys-file ids.parquet --report report.json",
    "erase /savepoints/savepoint-2f1a3c /savepoints/erased --keys 1042 --dry-run",
    "erase /savepoints/savepoint-2f1a3c /savepoints/erased --keys 1042 "
    '--where "warehouse-export.pending_orders: value.accountId = 1042"',
)
class Erase(OfErasure, Edited, Table):
    """Write a savepoint without some keys in all operators, and a report of what could not be searched.

    Keys of .txt files and of --keys are texts, and whole numbers too if they look like one. Other files have types:
    a text is not a key of an operator whose keys are numbers. With --dry-run the exit code is 1 if rows have the keys.
    """

    by: list[str] = option(
        "the column of the file that has the operator's keys, or UID:FIELD=COLUMN for one field of composite keys",
        metavar="UID=COLUMN",
    )
    record_type: list[str] = option(
        "the type of records in flight, if the savepoint does not have it: 'orders.input 0=LONG'",
        metavar="UID.PART=TYPE",
    )
    report: str | None = option("write the report as JSON here, and beside it as Markdown", metavar="FILE")
    strict: bool = option("write nothing if some state cannot be searched, or some keys cannot be removed")
    accept: list[str] = option(
        "with --strict: a place that is accepted, as --dry-run names it: UID.STATE, UID.TABLE, such as "
        "orders.coordinator_state of one's own source, or UID.STATE.COLUMN",
        metavar="PLACE",
    )
    below: str | None = option(
        "list in the report the snapshots below this folder that have the keys too (default: the job's folder)",
        metavar="FOLDER",
    )
    all_below: str | None = option("erase in every self-contained savepoint below this folder", metavar="FOLDER")
    all_to: str | None = option(
        "with --all-below: the folder for the new savepoints, which keep their names", metavar="FOLDER"
    )
    option: list[str] = READ_OPTION


@command("erasing.verify_erasure", CHECK, "verify-erasure /savepoints/erased report.json --keys-file ids.parquet")
class VerifyErasure(OfErasure, OfSnapshot, Table):
    """Prove an erasure: no key is left, and nothing else was removed."""

    report: str = positional("the report of erase, as JSON")
    old: str | None = option("the older snapshot, if it was moved", metavar="PATH")
    accept: list[str] = option(
        "a place where keys may stand, as the report names it: UID.STATE.COLUMN (values that are equal by "
        "chance), UID.STATE or UID.TABLE (not searched), or a file that _metadata does not name",
        metavar="PLACE",
    )
    option: list[str] = READ_OPTION


@command(
    "renaming.rename_class",
    EDIT,
    "rename-class /savepoints/savepoint-2f1a3c /savepoints/new 'oracle.Shop$Profile=com.shop.Profile'",
)
class RenameClass(Edited, Table):
    """Write a savepoint in which classes of the job have new names, as after a move to another package.

    Snapshots of serializers are written anew, values stay byte for byte. A value that names its class itself (Kryo
    and POJOs do where a class is not registered) is an error, which --dry-run finds too.
    """

    classes: list[str] = positional(
        "the name of a class and its new one, such as com.shop.Order=com.shop.Purchase (its inner classes "
        "are renamed, too)",
        metavar="CLASS=NEW",
    )
    operators: list[str] | None = option("only in these (default: all that have the class)", metavar="UID")


@command(
    "rekeying.rekey",
    EDIT,
    "rekey /savepoints/savepoint-2f1a3c /savepoints/by-text accounts --type key=STRING",
    "rekey /savepoints/savepoint-2f1a3c /savepoints/moved accounts new-ids.csv --dry-run",
)
class Rekey(Edited, Table):
    """Write a savepoint in which an operator has other keys: its states, windows and timers move to them.

    Two keys that would become one are an error. So is a key that the type does not hold exactly. --dry-run finds
    both. Values and operator state stay byte for byte.
    """

    uid: str = positional("the operator: its uid or its uid hash (32 hex digits)")
    file: str | None = positional(
        "columns key and new_key: .parquet, .arrow, .feather, .jsonl or .csv. Keys that are not in "
        "the file stay, if the type of the key stays (default: convert each key to --type)"
    )
    type: list[str] = option(
        "the Flink type of the new keys, such as key=LONG or key=TUPLE<STRING, LONG> (default: as before)",
        metavar="key=TYPE",
    )
    format: str | None = FILE_FORMAT
    option: list[str] = option(
        "an option of a write of the Spark data source, such as typesFrom=/savepoints/new-job#accounts",
        short="-o",
        metavar="NAME=VALUE",
    )


@command(
    "edits.set_max_parallelism",
    EDIT,
    "set-max-parallelism /savepoints/savepoint-2f1a3c /savepoints/wide 512",
    "set-max-parallelism /savepoints/savepoint-2f1a3c /savepoints/wide 512 --operators accounts audit",
)
class SetMaxParallelism(Edited, Table):
    """Write a savepoint with another max parallelism: keys are assigned to that many key groups.

    check-restore with the job's execution plan finds operators of one task that disagree.
    """

    number: int = positional("the max parallelism, 1 to 32768", metavar="n")
    operators: list[str] | None = option(
        "only these operators. Name all operators of a chain, since Flink has one max parallelism for a "
        "task "
        "(default: all)",
        metavar="UID",
    )


@command(
    "salvaging.salvage",
    EDIT,
    "salvage /checkpoints/7d2e/chk-42 /savepoints/salvaged --dry-run",
    "salvage /checkpoints/7d2e/chk-42 /savepoints/salvaged",
)
class Salvage(Edited, Table):
    """Write what can be read of a damaged snapshot, and list what is lost.

    Handles, key groups and states that cannot be read are left out. If a table file of RocksDB is missing, all
    entries of its state between its smallest and its largest key are left out, too: other files may have older
    values of them. An undamaged snapshot is refused.
    """


@command(
    "edits.create",
    EDIT,
    "create golden accounts accounts.jsonl --key id --type total=LONG --flink 2.3",
    "create golden accounts accounts.parquet --key tenant,account --ttl coupon --dry-run",
)
class Create(OfFile, Writes, WithTarget, Table):
    """Write a new savepoint with one operator, whose state comes from a file (put adds more operators).

    If nothing names the types of a .jsonl or .csv file, they are inferred from all of its rows. --dry-run shows
    them.
    """

    max_parallelism: int = option(
        f"the max parallelism of the job: its number of key groups (default: {DEFAULT_MAX_PARALLELISM})",
        metavar="N",
        default=DEFAULT_MAX_PARALLELISM,
    )
    state_backend: str | None = option("the job's state backend", choices=("hashmap", "rocksdb"))


@command(
    "edits.put",
    EDIT,
    "put /savepoints/savepoint-2f1a3c /savepoints/fixed accounts totals.csv total --upsert",
    "put /savepoints/savepoint-2f1a3c /savepoints/fixed accounts all-totals.csv total --replace --dry-run",
    "put golden with-timers accounts timers.jsonl --table timers --key id",
    "put golden with-rates currency-converter rates.csv rates --table broadcast",
)
class Put(OfFile, Edited, Table):
    """Write a savepoint with the rows of a file as state: a new operator, or states that are replaced or added.

    If keys of a state would go because the file lacks them, --upsert or --replace must say what is meant. Other
    states stay byte for byte. The output has the numbers of keys before and after.
    """

    upsert: bool = option(
        "change only the keys of the file: a row replaces what its key has of the state, an empty value "
        "removes it, all other keys keep theirs"
    )
    replace: bool = option("replace the whole state: keys that the file lacks lose it")


@command("edits.merge", EDIT, "merge /savepoints/accounts /savepoints/orders /savepoints/both")
class Merge(Writes, AtPath, Copied, Opens, WithTarget, Table):
    """Write the operators of several savepoints as one.

    Two of them must not have the same operator. Rename it in one of them first.
    """

    path: str = positional("a snapshot", metavar="one")
    others: list[str] = positional("another snapshot, or several", metavar="other")
    target: str = positional("the folder of the new savepoint, which must not exist yet", metavar="new")


@command(
    "edits.split",
    EDIT,
    "split /savepoints/savepoint-2f1a3c --to /savepoints/a accounts --to /savepoints/b orders-per-minute "
    "--rest /savepoints/c",
)
class Split(Writes, Copied, OfSnapshot, Table):
    """Write the operators of a savepoint as several savepoints, such as one for each new job.

    Every operator goes to one of them. Each is published on its own, after all were checked.
    """

    path: str = positional("the snapshot", metavar="old")
    to: list[list[str]] = option("the folder of a new savepoint, and its operators", metavar=("FOLDER", "UID"))
    rest: str | None = option("the folder of a new savepoint with all other operators", metavar="FOLDER")


@command(
    "comparing.diff",
    LOOK,
    "diff /savepoints/yesterday /savepoints/today",
    "diff /savepoints/yesterday /savepoints/today accounts total",
    "diff /checkpoints/7d2e /checkpoints/7d2e accounts --as-of 42 --new-as-of latest",
)
class Diff(OfSnapshot, Table):
    """Show the differences of two snapshots, of any state backends (exit code 1 if they differ)."""

    path: str = positional("the older snapshot", metavar="old")
    new: str = positional("the newer snapshot")
    new_as_of: str | None = option("as --as-of, for the folder of the newer snapshot", metavar="VERSION")
    uid: str | None = positional("the operator whose rows are shown (default: the numbers of all operators)")
    state: str | None = positional("one state (default: all keyed states)")
    table: str | None = option(
        f"{', '.join(DECODED)} (default: the first of these that the operator has)", metavar="TABLE", choices=DECODED
    )
    limit: int = option("how many rows, 0 for all (default: 20)", metavar="N", default=20)


@command(
    "reading.changes",
    LOOK,
    "changes /checkpoints/7d2e accounts total --start 42",
    "changes /checkpoints/7d2e accounts --follow --json",
    "changes /checkpoints/7d2e --table offsets --start 2026-11-24T12:00:00Z --json",
)
class Changes(AtPath, Opens, Table):
    """Show the rows that changed from snapshot to snapshot of a folder (exit code 1 if any did)."""

    path: str = positional("a folder of snapshots, such as that of a job's checkpoints", metavar="folder")
    uid: str | None = positional("the operator (with --table splits or offsets, default: all sources)")
    state: str | None = positional("one state (default: all keyed states)")
    table: str | None = option(f"{', '.join(WITH_CHANGES)}", metavar="TABLE", choices=WITH_CHANGES)
    start: str = option(
        "the checkpoint id or time of the first changes, since the snapshot before it (default: 0, all "
        "rows of the first snapshot are inserts)",
        metavar="VERSION",
        default="0",
    )
    end: str = option(
        "the checkpoint id or time of the last changes (default: latest)", metavar="VERSION", default="latest"
    )
    net: bool = option("one net change per row, from before the first snapshot to the last one")
    follow: bool = option("go on with each snapshot that the job completes, until Ctrl-C")
    limit: int | None = option("how many rows, 0 for all (default: 20, with --follow all)", metavar="N")
    option: list[str] = READ_OPTION


@command(
    "reading.verify",
    CHECK,
    "verify /savepoints/savepoint-2f1a3c",
    "verify s3://bucket/checkpoints/chk-42 accounts --json",
)
class Verify(OfSnapshot, Table):
    """Read every byte of every state and report errors (exit code 1 if there are any)."""

    uid: str | None = UID
    all: bool = option("also show what is in order")
    option: list[str] = READ_OPTION


#: Of a finding, the worst first.
SEVERITIES = ("error", "warning", "note")


@command(
    "diagnosing.doctor",
    CHECK,
    "doctor /savepoints/savepoint-2f1a3c --budget size=20GB,skew=4,ttl-age=30d",
    "doctor /savepoints/today --since /savepoints/yesterday --job job.json --json",
)
class Doctor(OfSnapshot, Table):
    """Find risks: no uids, skew, heavy keys, growth, Kryo, old timers, orphaned operators and others."""

    budget: str | None = option(
        "size, skew, key, floor, ttl-age, timer-age, such as size=20GB,skew=4,ttl-age=30d", metavar="LIMITS"
    )
    since: str | None = option("an older snapshot: also find states without TTL that only grew since", metavar="OLDER")
    job: str | None = option("the job, as for check-restore: also find operators that it does not have")
    fail_on: str = option(
        "the least severity that makes the exit code 1 (default: warning)",
        choices=SEVERITIES,
        default="warning",
    )


@command(
    "diagnosing.report",
    LOOK,
    "report /checkpoints/7d2e --file report.html",
    "report /savepoints/today --since /savepoints/yesterday --job job.json --flink 2.3",
)
class Report(AtPath, Opens, Record):
    """Write one HTML file to look at: sizes, skew, keys, ages, timers, sources, findings, types, growth.

    The file needs no network. Needs the extra "report": pip install "pyspark-savepoint[report]".
    """

    path: str = positional("a snapshot, or a folder with several: the newest is shown, and growth and changes up to it")
    file: str = option("the file to write (default: report.html)", metavar="FILE", default="report.html")
    last: int | None = option("of a folder the newest N snapshots (default: 50)", metavar="N")
    since: str | None = option("an older snapshot: also show what differs from it", metavar="OLDER")
    job: str | None = option("the job, as for check-restore: also show whether it would restore the snapshot")
    flink: str | None = option(
        "the Flink that must restore it: also show what a migration to it does", metavar="VERSION"
    )
    budget: str | None = option("limits of the findings, as for doctor", metavar="LIMITS")
    show_keys: bool = option("show the values of the heaviest keys")
    old_plan: str | None = option(
        "the compiled plan of the SQL job, with --new-plan: also show what becomes of its state", metavar="FILE"
    )
    new_plan: str | None = option("the plan of the new query, as for evolve", metavar="FILE")
    option: list[str] = READ_OPTION


@command(
    "diagnosing.metrics",
    CHECK,
    "metrics /checkpoints/7d2e",
    "metrics /checkpoints/7d2e --label job_name=shop --push-textfile /var/lib/node_exporter/savepoint.prom",
    "metrics /savepoints/savepoint-2f1a3c --format json",
)
class Metrics(AtPath, Opens, Record):
    """Print numbers for monitoring: sizes, entries and skew of every state of the newest snapshot.

    No value is decoded. notebooks/grafana.json is a dashboard of these names.
    """

    path: str = positional("a snapshot, or a folder of them, such as a job's checkpoints: then its newest snapshot")
    format: str = option(
        "openmetrics, which Prometheus reads too, or one JSON object per line (default: openmetrics)",
        choices=("openmetrics", "json"),
        default="openmetrics",
    )
    push_textfile: str | None = option(
        "write them to this file, at once and whole, for the textfile collector of a node exporter", metavar="FILE"
    )
    label: list[str] = option("a label of all series, such as job_name=shop (may be repeated)", metavar="NAME=VALUE")
    most: int = option(
        "how many of the largest states and operators have their own series: others are summed (default: 500)",
        metavar="N",
        default=500,
    )


@command(
    "files.vacuum_files", COPY, "vacuum /savepoints/new --dry-run", "vacuum s3://bucket/savepoints/new --older-than 6h"
)
class Vacuum(AtPath, Table):
    """Delete replaced files, and files that failed writes of this package left, in a savepoint's folder."""

    older_than: str = option(
        "smallest age of files to delete, longer than any write takes, such as 6h (default: 1d)",
        metavar="AGE",
        default="1d",
    )
    dry_run: bool = DRY_RUN


@command(
    "restoring.check_restore_of",
    CHECK,
    "check-restore golden/savepoint job.json --flink 2.3",
    "check-restore golden/savepoint job.json --junit build/restore.xml",
    "check-restore golden/savepoint /savepoints/of-the-new-job",
)
class CheckRestore(OfSnapshot, Record):
    """Check whether a job would restore a snapshot, without starting Flink.

    Exit code 0: Flink restores it. 1: it fails, or state is misread. 3: the description is not sufficient.
    """

    path: str = positional("the snapshot that the job starts from", metavar="savepoint")
    job: str = positional(
        "a JSON file: a description of the job, its execution plan, its compiled plan, or the plan of the "
        "REST interface. Or a savepoint that the new job has taken"
    )
    old_plan: str | None = option(
        "the compiled plan of the SQL job that wrote the snapshot, if the job is a compiled plan too. "
        "It finds state that has the same types and another meaning",
        metavar="FILE",
    )
    flink: str | None = option("the Flink that must restore it, such as 2.3", metavar="VERSION")
    state_backend: str | None = option("the job's state backend", metavar="NAME")
    classes: list[str] = option(
        "a jar or folder with the class files of values that Kryo wrote, for a job on Flink 2", metavar="PATH"
    )
    allow_non_restored_state: bool = option("accept state that no operator of the job restores, as Flink's option does")
    ids_only: bool = option(
        "accept operators whose types the job does not describe: only ids and parallelism are checked"
    )
    hasher: str = option("the hasher for ids of operators without uid", choices=("v2", "v3"), default="v2")
    junit: str | None = option("also write the verdicts as JUnit XML", metavar="FILE")


@command(
    "evolving.evolve",
    CHECK,
    "evolve /savepoints/savepoint-2f1a3c --old-plan old.json --new-plan new.json --dry-run",
    "evolve /savepoints/savepoint-2f1a3c /savepoints/evolved --old-plan old.json --new-plan new.json",
)
class Evolve(Writes, Copied, OfSnapshot, Record):
    """Carry the state of a SQL job over to a changed query, by the compiled plans of both.

    Without NEW, or with --dry-run, it shows what happens to each state. Exit code 0: no state is lost. 1: some
    state is lost, or begins empty. 2: nothing was written, because more arguments are needed.
    """

    path: str = positional("the snapshot that the old job wrote", metavar="old")
    target: str | None = positional("the folder of the savepoint for the new query", metavar="new")
    old_plan: str = option("the plan of the old job, from COMPILE PLAN", metavar="FILE")
    new_plan: str = option("the plan of the new query", metavar="FILE")
    fill: str = option(
        "initial: columns and aggregates that were added begin with their initial value (default: refuse)",
        choices=("refuse", "initial"),
        default="refuse",
    )
    backfill: list[str] = option(
        "rows from which added values are computed. NAME is a name that --dry-run prints (rows with key "
        "and "
        "value), a table (its rows up to the snapshot), or the id of a node (the rows of its input)",
        metavar="NAME=FILE",
    )
    filters: str = option(
        "keep: keep state of rows that the old query's conditions let in (default: refuse)",
        choices=("refuse", "keep"),
        default="refuse",
    )
    node: list[str] = option("which old node a new node is, if that is ambiguous", metavar="NEW=OLD")
    source: list[str] = option("a table that was renamed", metavar="NEW=OLD")
    column: list[str] = option("a column that was renamed or computed anew, with the same meaning", metavar="NEW=OLD")
    cast: list[str] = option("a cast that may change values", metavar="COLUMN=TYPE")
    old_explain: str | None = option("what EXPLAIN prints, if the old job ran without a plan", metavar="FILE")
    new_explain: str | None = option("what EXPLAIN prints, if the new job runs without a plan", metavar="FILE")
    stable_plan: str | None = option("also write the new plan with the ids of the old one to this file", metavar="FILE")


@command(
    "evolving.catch_up",
    CHECK,
    "catch-up /savepoints/old /savepoints/evolved --old-plan old.json --new-plan new.json --limit 0 --json",
)
class CatchUp(OfSnapshot, Table):
    """Show the changes that turn a sink's old result into the result of the new query (exit code 1 if any)."""

    path: str = positional("the snapshot that the old job wrote", metavar="old")
    evolved: str = positional("the savepoint that evolve wrote", metavar="new")
    old_plan: str = option("the plan of the old job, from COMPILE PLAN", metavar="FILE")
    new_plan: str = option("the plan of the new query", metavar="FILE")
    sink: str | None = option("the sink, if the new query has several", metavar="TABLE")
    limit: int = option("how many rows, 0 for all (default: 20)", metavar="N", default=20)


@command(
    "restoring.check_migration_of",
    CHECK,
    "check-migration /savepoints/of-1.20 --flink 2.3 --classes job.jar",
    "check-migration /savepoints/of-1.20 --flink 2.3 --types-from /savepoints/of-the-new-job --json",
)
class CheckMigration(Migrates, OfSnapshot, Table):
    """List what a snapshot needs so that Flink 2 (or again Flink 1) restores it with equal values.

    Exit code 0: Flink restores all of it without migration. 1: it does not, or values would be wrong.
    """

    all: bool = option("also show what needs no change")


@command(
    "restoring.migrate",
    EDIT,
    "migrate /savepoints/of-1.20 /savepoints/for-2.3 --flink 2.3 --classes job.jar",
    "migrate /savepoints/of-1.20 /savepoints/for-2.3 --flink 2.3 --classes job.jar --drop accounts.cache",
)
class Migrate(Migrates, OldAndNew, Record):
    """Write a savepoint that Flink 2 (or again Flink 1) restores with equal values.

    Nothing is written if arguments are missing. The error lists all of them.
    """

    drop: list[str] = option("leave a state out: UID.STATE, or UID", metavar="STATE")
    as_is: list[str] = option("keep the bytes of a state", metavar="STATE")
    dry_run: bool = DRY_RUN
    checkpoint_id: int | None = CHECKPOINT_ID


@command(
    "copying.copy",
    COPY,
    "cp s3://bucket/checkpoints/7d2e/chk-42 /savepoints/copy-of-42",
    "cp /savepoints/native /savepoints/canonical --portable",
)
class Cp(Copied, OfSnapshot, WithTarget, Record):
    """Copy a snapshot to a self-contained savepoint."""

    path: str = positional("the snapshot", metavar="source")
    target: str = positional("the folder of the new savepoint, which must not exist yet")
    dry_run: bool = DRY_RUN
    portable: bool = PORTABLE
    checkpoint_id: int | None = CHECKPOINT_ID


@command(
    "copying.pin",
    COPY,
    "pin /checkpoints/7d2e /savepoints/held --as-of latest",
    "pin s3://bucket/checkpoints/7d2e/chk-42 s3://bucket/savepoints/held-42",
)
class Pin(OfSnapshot, WithTarget, Record):
    """Keep a checkpoint that its job is about to delete, by hard links or by copies in the object store."""

    path: str = positional("the snapshot", metavar="source")
    target: str = positional("the folder of the new savepoint, which must not exist yet")
    dry_run: bool = DRY_RUN
    checkpoint_id: int | None = CHECKPOINT_ID


@command(
    "copying.relocate",
    COPY,
    "relocate /savepoints/moved hdfs://old/checkpoints s3://bucket/checkpoints /savepoints/relocated",
)
class Relocate(OfVersion, WithTarget, Record):
    """Write a savepoint whose files are now under another path, without copying them."""

    path: str = positional("the snapshot", metavar="source")
    old: str = positional("the prefix of files in the snapshot")
    new: str = positional("their prefix now")
    target: str = positional("the folder of the new savepoint, which must not exist yet")
    dry_run: bool = DRY_RUN
    checkpoint_id: int | None = CHECKPOINT_ID


@command(
    "reading.export",
    COPY,
    "export /savepoints/savepoint-2f1a3c accounts --format parquet",
    "export /savepoints/savepoint-2f1a3c accounts --table timers --file timers.jsonl",
)
class Export(OfSnapshot, Record):
    """Write a table of an operator to a file, batch by batch."""

    uid: str = positional("the operator: its uid or its uid hash (32 hex digits)")
    state: str | None = positional("one state (default: all keyed states, or the only operator state)")
    format: str | None = option(
        "the format (default: that of the file's ending, else parquet)", choices=("parquet", "arrow", "json", "csv")
    )
    file: str | None = option(
        "the file to write, such as total.csv, .jsonl, .parquet or .arrow "
        "(default: the operator's name and the format, in this folder)"
    )
    table: str | None = option("the table, as for show: keyed_state, timers, splits, committables, ...")
    columns: str | None = option("only these columns, separated by commas", metavar="NAMES")
    force: bool = option("replace the file if it exists")
    safe_csv: bool = option(
        "write ' before texts of CSV that begin with =, +, - or @: no spreadsheet takes them for formulas"
    )
    option: list[str] = READ_OPTION


@command(
    "comparing.schema",
    LOOK,
    "schema /savepoints/savepoint-2f1a3c --file golden/schema.json",
    "schema /savepoints/of-the-new-job --check golden/schema.json",
    "schema /savepoints/savepoint-2f1a3c --format avro",
)
class Schema(OfSnapshot, Record):
    """Print operators, states and types, to keep beside the job's code, or compare them with such a file."""

    format: str = option(
        "savepoint for --check, avro or json-schema for the rows of all tables (default: savepoint)",
        choices=("savepoint", "avro", "json-schema"),
        default="savepoint",
    )
    file: str | None = option("write it to this file")
    check: str | None = option("compare with this file (exit code 1 if anything differs)", metavar="FILE")


@command("warming.warm_up", TOOL, "warm-up", "warm-up /savepoints/savepoint-2f1a3c", "warm-up --file code.zip")
class WarmUp(Opens, Record):
    """Compile the loops that read and write state, so that the first query is as fast as later ones."""

    path: str | None = positional(
        "a snapshot like those that you will read (default: small ones of usual types; with --file, all loops)"
    )
    file: str | None = option("pack the compiled code in this zip file, for other machines", metavar="FILE")
    cpu: str | None = option(
        "with --file: the least that those machines' processors can do; x86-64, x86-64-v2, x86-64-v3 or "
        "x86-64-v4, on ARM generic; default: x86-64-v3 (Intel since 2013, AMD since 2015), or generic",
        metavar="NAME",
    )


@command("answers.help_with", TOOL, "help largest state", "help rename operator", "help erase person")
class Help(Record):
    """Search questions in your own words, and show the command that answers each."""

    words: list[str] = positional("words of your question, such as: largest state", metavar="WORDS")


@command(
    "completing.completion",
    TOOL,
    "completion bash > ~/.local/share/bash-completion/completions/pyspark-savepoint",
    "completion zsh > ~/.zfunc/_pyspark-savepoint    # a folder of $fpath",
    "completion fish > ~/.config/fish/completions/pyspark-savepoint.fish",
)
class Completion(Arguments):
    """Print a script with which a shell completes commands, options, operators, states and tables."""

    shell: str = positional("bash, zsh, fish", choices=("bash", "zsh", "fish"))
