"""Arguments of every command, with the help and the examples that are shown and documented."""

from __future__ import annotations

import argparse
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, NoReturn

from pyspark_savepoint.formats.errors import OptionError, did_you_mean, nearest
from pyspark_savepoint.statebackends.model.applicability import DECODED, WITH_CHANGES
from pyspark_savepoint.statebackends.model.parallelism import DEFAULT_MAX_PARALLELISM

PROGRAM = "pyspark-savepoint"
ABOUT = "Look into Apache Flink savepoints and checkpoints, check, edit and copy them: without Flink, Spark and Java."
EXIT_CODES = """exit codes:
  0  done, and nothing was found
  1  findings: errors in the snapshot, differences, a job that would not
     restore it
  2  wrong usage, or an error
  3  check-restore: the description of the job is not sufficient to tell"""
WIDTH = 80
LOOK, CHECK, EDIT, COPY, TOOL = "look inside", "check", "write an edited savepoint", "copy and export", "this tool"


@dataclass(frozen=True)
class Argument:
    """An argument of a command: names, and what argparse takes."""

    names: tuple[str, ...]
    settings: dict[str, Any]


def argument(*names: str, **settings: Any) -> Argument:
    return Argument(names, settings)


@dataclass(frozen=True)
class Command:
    """A command: its name, the module and function of this folder, its group, what it does, arguments and examples."""

    name: str
    runs: str
    group: str
    about: str
    arguments: tuple[Argument, ...]
    examples: tuple[str, ...]
    more: str = ""
    prints_table: bool = False

    @property
    def all_arguments(self) -> tuple[Argument, ...]:
        """Its arguments and those that every command has."""
        return (*self.arguments, *(TABLE if self.prints_table else (JSON,)), *COMMON)


PATH = argument(
    "path", help="a savepoint, a retained checkpoint (chk-N), or its _metadata; local, s3://, gs://, abfs://, hdfs://"
)
AS_OF = argument(
    "--as-of",
    metavar="VERSION",
    help="the path is a folder of snapshots: take the one with this checkpoint id, the newest (latest), or the newest "
    "at a time such as 2026-11-24T12:00:00Z",
)
UID = argument("uid", nargs="?", help="the operator: its uid or its uid hash (32 hex digits); default: all")
JSON = argument("--json", action="store_true", help="print one JSON object per line")
#: Of commands that print a table.
TABLE = (
    JSON,
    argument("--csv", action="store_true", help="print CSV, with a header"),
    argument("--safe-csv", action="store_true", help="print CSV whose texts no spreadsheet takes for a formula"),
    argument("--wide", action="store_true", help="cut nothing to the width of the terminal"),
)
COMMON = (
    argument(
        "--storage-option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="how an object store is reached, such as endpoint=http://host:9000 or region=eu-west-1",
    ),
    argument("--allow-outside", action="store_true", help="open files that the snapshot names outside its own folder"),
    argument("--progress", action="store_true", help="show progress where standard error is no terminal, too"),
    argument("--quiet", action="store_true", help="show no progress, and not that kernels are compiled"),
    argument("--debug", action="store_true", help="show the traceback of an error"),
)
TOP = (
    argument("--version", action="store_true", help="show the version"),
    argument("--help", help="show this help message"),
)

CHECKPOINT_ID = argument(
    "--checkpoint-id",
    type=int,
    metavar="N",
    help="the number of the new savepoint, from which the job counts on (default: as before)",
)
#: Of commands that write an edited savepoint.
OLD = argument("path", metavar="old", help="the snapshot")
NEW = argument("target", metavar="new", help="the folder of the new savepoint; there must be none yet")
PORTABLE = argument(
    "--portable", action="store_true", help="write all keyed state so that every state backend restores it"
)
DRY_RUN = argument("--dry-run", action="store_true", help="check all, show what would change, and write nothing")
WRITES = (
    DRY_RUN,
    argument(
        "--flink", metavar="VERSION", help="the oldest Flink that must restore it, such as 1.20 (default: as before)"
    ),
    PORTABLE,
    CHECKPOINT_ID,
)
FILE_FORMAT = argument(
    "--format", choices=("parquet", "arrow", "json", "csv"), help="the format of the file (default: by its name)"
)
KEYS = argument("--keys", nargs="+", metavar="KEY", help="these keys; composite ones as JSON")
KEYS_FILE = argument(
    "--keys-file",
    metavar="FILE",
    help="the keys of a file: column key, or the only one, of .parquet, .arrow, .jsonl or .csv, or a key per line of "
    ".txt",
)
WHERE = argument(
    "--where",
    metavar="CONDITION",
    help="the rows for which a condition is true, in SQL without functions: \"total < 0 AND profile.tier = 'GOLD'\"",
)
#: Of commands that erase keys, and prove it.
OF_ERASURE = (
    KEYS,
    KEYS_FILE,
    argument(
        "--where",
        action="append",
        default=[],
        metavar="NAME: CONDITION",
        help="UID: keys of rows for which a condition is true; UID.STATE: elements of list, union and broadcast state, "
        "elements of lists, entries of maps, values; UID.splits, UID.source_coordinator, UID.committables, "
        "UID.in_flight: rows of these tables",
    ),
    argument(
        "--salt-file",
        metavar="FILE",
        help="the secret by which the report hashes keys, made if it is missing (default: the name of the report with "
        ".salt; keep it apart)",
    ),
    FILE_FORMAT,
)
#: Of commands that write a file as state.
OF_FILE = (
    argument("uid", help="the operator: its uid, or the uid hash of an existing one"),
    argument("file", help="a row per key: .parquet, .arrow, .feather, .jsonl or .csv"),
    argument("state", nargs="?", help="the state, if the file has one; default: every column but the key is a state"),
    argument("--key", metavar="COLUMNS", help="the column of the key, or several of a composite key (default: key)"),
    argument(
        "--type",
        action="append",
        default=[],
        metavar="COLUMN=TYPE",
        help="the Flink type of a column, such as total=LONG or tags=LIST<STRING> (default: that of the existing "
        "state, else by the file)",
    ),
    argument(
        "--kind",
        action="append",
        default=[],
        metavar="COLUMN=KIND",
        help="value, list, map, reducing or aggregating (default: that of the existing state, else list and map for "
        "such columns, else value)",
    ),
    argument(
        "--ttl",
        metavar="COLUMNS",
        help="columns whose states have a time to live in the job (default: that of the existing state; -o ttl=false "
        "removes it)",
    ),
    argument(
        "--table",
        choices=("keyed_state", "window_state", "timers", "list", "union", "broadcast"),
        metavar="TABLE",
        help="what the rows are: keyed_state (default), window_state, timers; operator state: list, union, broadcast",
    ),
    argument("--name", help="the name of a new operator, which Flink 2 shows"),
    FILE_FORMAT,
    argument(
        "-o",
        "--option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an option of a write of the Spark data source, such as typesFrom=/savepoints/old#accounts",
    ),
)
READ_OPTION = argument(
    "-o",
    "--option",
    action="append",
    default=[],
    metavar="NAME=VALUE",
    help="an option of the Spark data source, such as timestamps=raw or uids=accounts,orders",
)
MIGRATION = (
    argument("--flink", metavar="VERSION", required=True, help="the Flink that must restore it, such as 2.3"),
    argument("--classes", action="append", default=[], metavar="PATH", help="a jar or folder of class files"),
    argument("--types-from", metavar="PATH", help="a savepoint that the new job has taken"),
    argument(
        "--type", action="append", default=[], metavar="STATE=TYPE", help="the type of a state: UID.STATE=LIST<STRING>"
    ),
    argument(
        "--kryo-types",
        default="",
        metavar="CLASSES",
        help="classes that Kryo wrote, without class files: 'com.shop.Money(cents LONG, cur STRING)'",
    ),
    argument(
        "--parallelism",
        type=int,
        metavar="N",
        help="how many processes read and write (default: as many as processors, after some seconds)",
    ),
)

COMMANDS = (
    Command(
        "ls",
        "reading.ls",
        LOOK,
        "list the states of a snapshot, or the snapshots of a folder",
        (
            argument("path", help="a snapshot, or a folder with several; local, s3://, gs://, abfs://, hdfs://"),
            AS_OF,
            argument(
                "--sql",
                action="append",
                default=[],
                metavar="QUERY",
                help="run a query over views of the tables, with Spark and Java; may be repeated",
            ),
        ),
        (
            "ls /savepoints/savepoint-2f1a3c",
            "ls s3://bucket/checkpoints --storage-option region=eu-west-1",
            "ls /checkpoints/7d2e --as-of latest",
            'ls /savepoints/savepoint-2f1a3c --sql "SELECT count(*) FROM accounts"',
        ),
        prints_table=True,
    ),
    Command(
        "retained",
        "retaining.retained_snapshots",
        LOOK,
        "show which bytes each checkpoint of a folder holds alone, and files that none needs; nothing is deleted",
        (
            argument("path", help="a folder with snapshots; local, s3://, gs://, abfs://, hdfs://"),
            argument("--unneeded", action="store_true", help="list the files that no snapshot below the folder needs"),
        ),
        ("retained /checkpoints/7d2e", "retained /checkpoints/7d2e --unneeded --csv"),
        "Column alone is what becomes free if a checkpoint is deleted. A running job may still need files that are "
        "listed, and so may snapshots elsewhere, such as those of a job that was restored from one of these.",
        prints_table=True,
    ),
    Command(
        "show",
        "reading.show",
        LOOK,
        "show the rows of a table of an operator",
        (
            PATH,
            AS_OF,
            argument(
                "uid",
                nargs="?",
                help="the operator: its uid or its uid hash (32 hex digits); without it, --keys looks into all, and "
                "--table shows tables of the whole snapshot, or all timers",
            ),
            argument("state", nargs="?", help="one state; default: all keyed states, or the only operator state"),
            argument(
                "--table",
                help="the table: keyed_state, window_state, timers, operator_state, splits, source_coordinator, "
                "committables, in_flight, files, ...; ls shows which an operator has",
            ),
            KEYS,
            WHERE,
            argument("--columns", metavar="NAMES", help="only these columns, separated by commas"),
            argument("--limit", type=int, default=20, metavar="N", help="how many rows; 0: all (default: 20)"),
            READ_OPTION,
        ),
        (
            "show /savepoints/savepoint-2f1a3c accounts --limit 5",
            "show /savepoints/savepoint-2f1a3c accounts total --keys 1042 1043",
            'show /savepoints/savepoint-2f1a3c accounts --where "total < 0" --columns key,total',
            "show /savepoints/savepoint-2f1a3c --keys 1042",
            "show /savepoints/savepoint-2f1a3c accounts --table timers --json --limit 0",
            "show /savepoints/savepoint-2f1a3c --table files",
        ),
        "Of --keys those without a row are told; exit code 1 if none has one.",
        prints_table=True,
    ),
    Command(
        "sizes",
        "reading.sizes",
        LOOK,
        "show entries and bytes of every state, the largest first; no value is decoded",
        (
            PATH,
            AS_OF,
            UID,
            argument(
                "--by",
                choices=("state", "subtask", "key-group"),
                default="state",
                help="one row per state, subtask or key group (default: state)",
            ),
            READ_OPTION,
        ),
        ("sizes /savepoints/savepoint-2f1a3c", "sizes /savepoints/savepoint-2f1a3c accounts --by subtask"),
        prints_table=True,
    ),
    Command(
        "heaviest",
        "reading.heaviest",
        LOOK,
        "show the keys of every state that take the most bytes",
        (
            PATH,
            AS_OF,
            UID,
            argument("--top", type=int, default=5, metavar="N", help="how many keys of each state (default: 5)"),
            READ_OPTION,
        ),
        ("heaviest /savepoints/savepoint-2f1a3c accounts --top 10",),
        prints_table=True,
    ),
    Command(
        "offsets",
        "reading.offsets",
        LOOK,
        "show where the sources continue: topic or stream, partition, next position",
        (
            PATH,
            AS_OF,
            UID,
            argument(
                "--history",
                action="store_true",
                help="the path is a folder: show every snapshot below it, oldest first",
            ),
            argument("--last", type=int, metavar="N", help="with --history: only the newest N snapshots"),
            READ_OPTION,
        ),
        (
            "offsets /savepoints/savepoint-2f1a3c",
            "offsets s3://bucket/checkpoints/chk-42 orders-source --json",
            "offsets /checkpoints/7d2e --history --last 10",
        ),
        prints_table=True,
    ),
    Command(
        "set-offsets",
        "moving.set_offsets",
        EDIT,
        "write a savepoint whose source continues at other positions; all else is copied byte for byte",
        (
            argument("path", metavar="old", help="the snapshot"),
            AS_OF,
            argument("target", metavar="new", help="the folder of the new savepoint; there must be none yet"),
            argument("uid", nargs="?", help="the source: its uid or its uid hash; default: the only one"),
            argument(
                "--set",
                action="append",
                default=[],
                metavar="SPLIT=POSITION",
                help="the next position of a split, such as orders-3=1200, or of a topic, such as orders=earliest",
            ),
            argument("--reset", metavar="WORD", help="one position for all splits: earliest, latest, committed"),
            argument("--by", type=int, metavar="N", help="a number by which all positions move, such as -1000"),
            argument("--clamp", action="store_true", help="with --by: what would be below 0 begins at 0"),
            DRY_RUN,
            CHECKPOINT_ID,
            argument(
                "--connector", metavar="NAME", help="the connector, if it is not recognised by its bytes: kafka, ..."
            ),
        ),
        (
            "set-offsets /savepoints/savepoint-2f1a3c /savepoints/rewound orders-source --set orders-3=1200",
            "set-offsets /savepoints/savepoint-2f1a3c /savepoints/rewound --by -1000 --dry-run",
        ),
        "Command offsets lists the splits. If records are read again, their earlier changes of keyed state stay.",
    ),
    Command(
        "rename",
        "edits.rename",
        EDIT,
        "write a savepoint with other names of operators, states or timer services",
        (
            OLD,
            AS_OF,
            NEW,
            argument(
                "names",
                nargs="+",
                metavar="NAME=NEW",
                help="an operator: UID=NEW, or HASH=UID to give it a uid; a state or timer service: UID.STATE=NEW",
            ),
            *WRITES,
        ),
        (
            "rename /savepoints/savepoint-2f1a3c /savepoints/renamed accounts=customers",
            "rename /savepoints/savepoint-2f1a3c /savepoints/renamed accounts.total=sum",
        ),
        "All names are those of before, so that two operators can be swapped.",
        prints_table=True,
    ),
    Command(
        "copy-operator",
        "edits.copy_operator",
        EDIT,
        "write a savepoint that has an operator once more, under another uid",
        (
            OLD,
            AS_OF,
            NEW,
            argument("uid", help="the operator: its uid or its uid hash (32 hex digits)"),
            argument("copies", nargs="+", metavar="copy", help="the uid of the copy, or several"),
            *WRITES,
        ),
        ("copy-operator /savepoints/savepoint-2f1a3c /savepoints/two accounts accounts-2",),
        prints_table=True,
    ),
    Command(
        "remove",
        "edits.remove",
        EDIT,
        "write a savepoint without some operators, states or timer services",
        (
            OLD,
            AS_OF,
            NEW,
            argument(
                "names",
                nargs="+",
                metavar="NAME",
                help="an operator: UID; a state or timer service: UID.STATE",
            ),
            *WRITES,
        ),
        (
            "remove /savepoints/savepoint-2f1a3c /savepoints/new currency-converter",
            "remove /savepoints/savepoint-2f1a3c /savepoints/new accounts.coupon accounts.user-timers --dry-run",
        ),
        prints_table=True,
    ),
    Command(
        "remove-keys",
        "edits.remove_keys",
        EDIT,
        "write a savepoint without some keys: none of the operator's states, windows and timers has them",
        (
            OLD,
            AS_OF,
            NEW,
            argument("uid", help="the operator: its uid or its uid hash (32 hex digits)"),
            KEYS,
            KEYS_FILE,
            WHERE,
            argument(
                "--table",
                choices=("keyed_state", "window_state", "timers"),
                help="with --where: the table with the columns (default: the first of these that the operator has)",
            ),
            FILE_FORMAT,
            READ_OPTION,
            *WRITES,
        ),
        (
            "remove-keys /savepoints/savepoint-2f1a3c /savepoints/new accounts --keys 1042 1043",
            'remove-keys /savepoints/savepoint-2f1a3c /savepoints/new accounts --where "total < 0" --dry-run',
            "remove-keys /savepoints/savepoint-2f1a3c /savepoints/new accounts --keys-file closed.csv",
        ),
        "Nothing is written if none of --keys has state, or no row matches --where; other keys of a file are ignored.",
        prints_table=True,
    ),
    Command(
        "erase",
        "erasing.erase",
        EDIT,
        "write a savepoint without some keys in any operator, and a report of what could not be looked into",
        (
            OLD,
            AS_OF,
            NEW,
            *OF_ERASURE,
            argument(
                "--by",
                action="append",
                default=[],
                metavar="UID=COLUMN",
                help="the column of the file that has an operator's keys; UID:FIELD=COLUMN: that has a field of its "
                "composite keys",
            ),
            argument(
                "--record-type",
                action="append",
                default=[],
                metavar="UID.PART=TYPE",
                help="the type of records in flight, if the savepoint does not have it: 'orders.input 0=LONG'",
            ),
            argument("--report", metavar="FILE", help="write the report as JSON here, and beside it as Markdown"),
            argument(
                "--strict",
                action="store_true",
                help="write nothing if there is state that cannot be looked into, or keys that cannot be removed",
            ),
            argument(
                "--accept",
                action="append",
                default=[],
                metavar="PLACE",
                help="with --strict: a place that is accepted, as --dry-run names it: UID.STATE, UID.TABLE, such as "
                "orders.coordinator_state of one's own source, or UID.STATE.COLUMN",
            ),
            argument(
                "--below",
                metavar="FOLDER",
                help="the report names snapshots below this folder that have the keys too (default: the job's folder)",
            ),
            argument("--all-below", metavar="FOLDER", help="erase in every self-contained savepoint below this folder"),
            argument("--all-to", metavar="FOLDER", help="with --all-below: where these are written, under their names"),
            READ_OPTION,
            *WRITES,
        ),
        (
            "erase /savepoints/savepoint-2f1a3c /savepoints/erased --keys-file ids.parquet --report report.json",
            "erase /savepoints/savepoint-2f1a3c /savepoints/erased --keys 1042 --dry-run",
            "erase /savepoints/savepoint-2f1a3c /savepoints/erased --keys 1042 "
            '--where "warehouse-export.pending_orders: value.accountId = 1042"',
        ),
        "Keys of .txt files and of --keys are texts, and whole numbers too if they look like one. Other files have "
        "types: a text is no key of an operator whose keys are numbers. With --dry-run the exit code is 1 if rows have "
        "the keys.",
        prints_table=True,
    ),
    Command(
        "verify-erasure",
        "erasing.verify_erasure",
        CHECK,
        "prove an erasure: no key is left, and nothing else was removed",
        (
            PATH,
            AS_OF,
            argument("report", help="the report of erase, as JSON"),
            *OF_ERASURE,
            argument("--old", metavar="PATH", help="the older snapshot, if it was moved"),
            argument(
                "--accept",
                action="append",
                default=[],
                metavar="PLACE",
                help="a place where keys may stand, as the report names it: UID.STATE.COLUMN of values that are equal "
                "by chance, UID.STATE or UID.TABLE of what was not looked into, or a file that _metadata does not name",
            ),
            READ_OPTION,
        ),
        ("verify-erasure /savepoints/erased report.json --keys-file ids.parquet",),
        prints_table=True,
    ),
    Command(
        "rename-class",
        "renaming.rename_class",
        EDIT,
        "write a savepoint that names classes of the job otherwise, as when they moved to another package",
        (
            OLD,
            AS_OF,
            NEW,
            argument(
                "classes",
                nargs="+",
                metavar="CLASS=NEW",
                help="the name of a class and its new one, such as com.shop.Order=com.shop.Purchase; classes inside of "
                "it go with it",
            ),
            argument("--operators", nargs="+", metavar="UID", help="only in these (default: all that have the class)"),
            *WRITES,
        ),
        ("rename-class /savepoints/savepoint-2f1a3c /savepoints/new 'oracle.Shop$Profile=com.shop.Profile'",),
        "Snapshots of serializers are written anew, values stay byte for byte. A value that names its class itself "
        "(Kryo and POJOs do where a class is not registered) is an error, which --dry-run finds too.",
        prints_table=True,
    ),
    Command(
        "rekey",
        "rekeying.rekey",
        EDIT,
        "write a savepoint whose operator has other keys: all of its states, windows and timers move to them",
        (
            OLD,
            AS_OF,
            NEW,
            argument("uid", help="the operator: its uid or its uid hash (32 hex digits)"),
            argument(
                "file",
                nargs="?",
                help="columns key and new_key: .parquet, .arrow, .feather, .jsonl or .csv; other keys stay, if their "
                "type does (default: each key is converted to --type)",
            ),
            argument(
                "--type",
                action="append",
                default=[],
                metavar="key=TYPE",
                help="the Flink type of the new keys, such as key=LONG or key=TUPLE<STRING, LONG> (default: as before)",
            ),
            FILE_FORMAT,
            argument(
                "-o",
                "--option",
                action="append",
                default=[],
                metavar="NAME=VALUE",
                help="an option of a write of the Spark data source, such as typesFrom=/savepoints/new-job#accounts",
            ),
            *WRITES,
        ),
        (
            "rekey /savepoints/savepoint-2f1a3c /savepoints/by-text accounts --type key=STRING",
            "rekey /savepoints/savepoint-2f1a3c /savepoints/moved accounts new-ids.csv --dry-run",
        ),
        "Two keys that would become one are an error, which --dry-run finds too, as are keys that the type does not "
        "hold exactly. Values and operator state stay byte for byte.",
        prints_table=True,
    ),
    Command(
        "set-max-parallelism",
        "edits.set_max_parallelism",
        EDIT,
        "write a savepoint with another max parallelism: keys are assigned to that many key groups",
        (
            OLD,
            AS_OF,
            NEW,
            argument("number", type=int, metavar="n", help="the max parallelism, 1 to 32768"),
            argument(
                "--operators",
                nargs="+",
                metavar="UID",
                help="only these; name all operators that are chained, since Flink has one max parallelism for a task "
                "(default: all)",
            ),
            *WRITES,
        ),
        (
            "set-max-parallelism /savepoints/savepoint-2f1a3c /savepoints/wide 512",
            "set-max-parallelism /savepoints/savepoint-2f1a3c /savepoints/wide 512 --operators accounts audit",
        ),
        "check-restore with the job's execution plan finds operators of one task that disagree.",
        prints_table=True,
    ),
    Command(
        "salvage",
        "salvaging.salvage",
        EDIT,
        "write what can be read of a damaged snapshot, and list what is lost",
        (OLD, AS_OF, NEW, *WRITES),
        (
            "salvage /checkpoints/7d2e/chk-42 /savepoints/salvaged --dry-run",
            "salvage /checkpoints/7d2e/chk-42 /savepoints/salvaged",
        ),
        "Left out are handles, key groups and states that cannot be read; of a missing table file of RocksDB all "
        "entries of its state between its smallest and its largest key, since other files may have older values of "
        "them. Refused if nothing is damaged.",
        prints_table=True,
    ),
    Command(
        "create",
        "edits.create",
        EDIT,
        "write a new savepoint with one operator, whose state is a file; put adds others",
        (
            NEW,
            *OF_FILE,
            argument(
                "--max-parallelism",
                type=int,
                default=DEFAULT_MAX_PARALLELISM,
                metavar="N",
                help=f"the number of key groups; that of the job (default: {DEFAULT_MAX_PARALLELISM})",
            ),
            argument("--state-backend", choices=("hashmap", "rocksdb"), help="the job's state backend"),
            *WRITES,
        ),
        (
            "create golden accounts accounts.jsonl --key id --type total=LONG --flink 2.3",
            "create golden accounts accounts.parquet --key tenant,account --ttl coupon --dry-run",
        ),
        "Types of .jsonl and .csv that nothing names are inferred from all rows; --dry-run shows them.",
        prints_table=True,
    ),
    Command(
        "put",
        "edits.put",
        EDIT,
        "write a savepoint with the rows of a file as state: a new operator, or states that are replaced or added",
        (
            OLD,
            AS_OF,
            NEW,
            *OF_FILE,
            argument(
                "--upsert",
                action="store_true",
                help="change the keys of the file alone: a row replaces what its key has of the state, an empty value "
                "removes it, all other keys keep theirs",
            ),
            argument(
                "--replace",
                action="store_true",
                help="replace the whole state: keys that the file lacks lose it",
            ),
            *WRITES,
        ),
        (
            "put /savepoints/savepoint-2f1a3c /savepoints/fixed accounts totals.csv total --upsert",
            "put /savepoints/savepoint-2f1a3c /savepoints/fixed accounts all-totals.csv total --replace --dry-run",
            "put golden with-timers accounts timers.jsonl --table timers --key id",
            "put golden with-rates currency-converter rates.csv rates --table broadcast",
        ),
        "If keys of a state would go because the file lacks them, --upsert or --replace must say what is meant. Other "
        "states stay byte for byte. The output has the numbers of keys before and after.",
        prints_table=True,
    ),
    Command(
        "merge",
        "edits.merge",
        EDIT,
        "write the operators of several savepoints as one",
        (
            argument("path", metavar="one", help="a snapshot"),
            argument("others", nargs="+", metavar="other", help="another snapshot, or several"),
            NEW,
            *WRITES,
        ),
        ("merge /savepoints/accounts /savepoints/orders /savepoints/both",),
        "No two of them may have the same operator; rename one of them before.",
        prints_table=True,
    ),
    Command(
        "split",
        "edits.split",
        EDIT,
        "write the operators of a savepoint as several savepoints, such as one for each new job",
        (
            OLD,
            AS_OF,
            argument(
                "--to",
                nargs="+",
                action="append",
                required=True,
                metavar=("FOLDER", "UID"),
                help="the folder of a new savepoint, and its operators",
            ),
            argument("--rest", metavar="FOLDER", help="the folder of a new savepoint with all other operators"),
            *WRITES,
        ),
        (
            "split /savepoints/savepoint-2f1a3c --to /savepoints/a accounts --to /savepoints/b orders-per-minute "
            "--rest /savepoints/c",
        ),
        "Every operator goes to one of them. Each is published on its own, after all were checked.",
        prints_table=True,
    ),
    Command(
        "diff",
        "comparing.diff",
        LOOK,
        "show what differs in two snapshots, whatever backends wrote them; exit code 1 if anything does",
        (
            argument("path", metavar="old", help="the older snapshot"),
            AS_OF,
            argument("new", help="the newer snapshot"),
            argument("--new-as-of", metavar="VERSION", help="the same of the newer snapshot's folder"),
            argument("uid", nargs="?", help="the operator whose rows are shown; default: numbers for all"),
            argument("state", nargs="?", help="one state; default: all keyed states"),
            argument(
                "--table",
                choices=DECODED,
                metavar="TABLE",
                help=f"{', '.join(DECODED)} (default: the first of these that the operator has)",
            ),
            argument("--limit", type=int, default=20, metavar="N", help="how many rows; 0: all (default: 20)"),
        ),
        (
            "diff /savepoints/yesterday /savepoints/today",
            "diff /savepoints/yesterday /savepoints/today accounts total",
            "diff /checkpoints/7d2e /checkpoints/7d2e accounts --as-of 42 --new-as-of latest",
        ),
        prints_table=True,
    ),
    Command(
        "changes",
        "reading.changes",
        LOOK,
        "show the rows that changed from snapshot to snapshot of a folder; exit code 1 if any did",
        (
            argument("path", metavar="folder", help="a folder of snapshots, such as that of a job's checkpoints"),
            argument("uid", nargs="?", help="the operator; without it, with --table splits or offsets, all sources"),
            argument("state", nargs="?", help="one state; default: all keyed states"),
            argument("--table", choices=WITH_CHANGES, metavar="TABLE", help=f"{', '.join(WITH_CHANGES)}"),
            argument(
                "--start",
                default="0",
                metavar="VERSION",
                help="the checkpoint id or time of the first changes, since the snapshot before it (default: 0, all "
                "rows of the first snapshot are inserts)",
            ),
            argument(
                "--end",
                default="latest",
                metavar="VERSION",
                help="the checkpoint id or time of the last changes (default: latest)",
            ),
            argument(
                "--net",
                action="store_true",
                help="one net change per row, from before the first to the last; none if both are the same",
            ),
            argument(
                "--follow", action="store_true", help="go on with each snapshot that the job completes, until Ctrl-C"
            ),
            argument("--limit", type=int, metavar="N", help="how many rows; 0: all (default: 20, with --follow all)"),
            READ_OPTION,
        ),
        (
            "changes /checkpoints/7d2e accounts total --start 42",
            "changes /checkpoints/7d2e accounts --follow --json",
            "changes /checkpoints/7d2e --table offsets --start 2026-11-24T12:00:00Z --json",
        ),
        prints_table=True,
    ),
    Command(
        "verify",
        "reading.verify",
        CHECK,
        "read every byte of every state and report errors; exit code 1 if there are any",
        (PATH, AS_OF, UID, argument("--all", action="store_true", help="also show what is in order"), READ_OPTION),
        ("verify /savepoints/savepoint-2f1a3c", "verify s3://bucket/checkpoints/chk-42 accounts --json"),
        prints_table=True,
    ),
    Command(
        "doctor",
        "diagnosing.doctor",
        CHECK,
        "find risks: no uids, skew, heavy keys, growth, Kryo, old timers, orphaned operators and others",
        (
            PATH,
            AS_OF,
            argument(
                "--budget",
                metavar="LIMITS",
                help="size, skew, key, floor, ttl-age, timer-age, such as size=20GB,skew=4,ttl-age=30d",
            ),
            argument(
                "--since", metavar="OLDER", help="an older snapshot: also find states without TTL that only grew since"
            ),
            argument("--job", help="the job, as for check-restore: also find operators that it does not have"),
            argument(
                "--fail-on",
                choices=("error", "warning", "note"),
                default="warning",
                help="the least severity that makes the exit code 1 (default: warning)",
            ),
        ),
        (
            "doctor /savepoints/savepoint-2f1a3c --budget size=20GB,skew=4,ttl-age=30d",
            "doctor /savepoints/today --since /savepoints/yesterday --job job.json --json",
        ),
        prints_table=True,
    ),
    Command(
        "report",
        "diagnosing.report",
        LOOK,
        "write one HTML file to look at: sizes, skew, keys, ages, timers, sources, findings, types, growth",
        (
            argument(
                "path",
                help="a snapshot, or a folder with several: the newest is shown, and growth and changes up to it",
            ),
            argument("--file", metavar="FILE", default="report.html", help="the file to write (default: report.html)"),
            argument("--last", type=int, metavar="N", help="of a folder the newest N snapshots (default: 50)"),
            argument("--since", metavar="OLDER", help="an older snapshot: also show what differs from it"),
            argument("--job", help="the job, as for check-restore: also show whether it would restore the snapshot"),
            argument(
                "--flink",
                metavar="VERSION",
                help="the Flink that must restore it: also show what a migration to it does",
            ),
            argument("--budget", metavar="LIMITS", help="limits of the findings, as for doctor"),
            argument("--show-keys", action="store_true", help="show the values of the heaviest keys"),
            argument(
                "--old-plan",
                metavar="FILE",
                help="the compiled plan of the SQL job, with --new-plan: also show what becomes of its state",
            ),
            argument("--new-plan", metavar="FILE", help="the plan of the new query, as for evolve"),
            READ_OPTION,
        ),
        (
            "report /checkpoints/7d2e --file report.html",
            "report /savepoints/today --since /savepoints/yesterday --job job.json --flink 2.3",
        ),
        'The file needs no network. Needs the extra "report": pip install "pyspark-savepoint[report]".',
    ),
    Command(
        "metrics",
        "diagnosing.metrics",
        CHECK,
        "print numbers for monitoring: sizes, entries and skew of every state of the newest snapshot",
        (
            argument(
                "path", help="a snapshot, or a folder with several, such as that of a job's checkpoints: of the newest"
            ),
            argument(
                "--format",
                choices=("openmetrics", "json"),
                default="openmetrics",
                help="openmetrics, which Prometheus reads too, or one JSON object per line (default: openmetrics)",
            ),
            argument(
                "--push-textfile",
                metavar="FILE",
                help="write them to this file, at once and whole, for the textfile collector of a node exporter",
            ),
            argument(
                "--label",
                action="append",
                default=[],
                metavar="NAME=VALUE",
                help="a label that all series have, such as job_name=shop; may be repeated",
            ),
            argument(
                "--most",
                type=int,
                default=500,
                metavar="N",
                help="states, and operators, with series of their own, by bytes; others are added up (default: 500)",
            ),
        ),
        (
            "metrics /checkpoints/7d2e",
            "metrics /checkpoints/7d2e --label job_name=shop --push-textfile /var/lib/node_exporter/savepoint.prom",
            "metrics /savepoints/savepoint-2f1a3c --format json",
        ),
        "No value is decoded. notebooks/grafana.json is a dashboard of these names.",
    ),
    Command(
        "vacuum",
        "files.vacuum_files",
        COPY,
        "delete replaced files, and files that failed writes of this package left, in a savepoint's folder",
        (
            PATH,
            argument(
                "--older-than",
                default="1d",
                metavar="AGE",
                help="smallest age of files to delete, such as 6h (default: 1d); must be longer than any write takes",
            ),
            DRY_RUN,
        ),
        ("vacuum /savepoints/new --dry-run", "vacuum s3://bucket/savepoints/new --older-than 6h"),
        prints_table=True,
    ),
    Command(
        "check-restore",
        "restoring.check_restore_of",
        CHECK,
        "check whether a job would restore a snapshot, without starting Flink",
        (
            argument("path", metavar="savepoint", help="the snapshot that the job starts from"),
            AS_OF,
            argument(
                "job",
                help="a JSON file: a description of the job, its execution plan, its compiled plan, or the plan of the "
                "REST interface; or a savepoint that the new job has taken",
            ),
            argument(
                "--old-plan",
                metavar="FILE",
                help="the compiled plan of the SQL job that wrote the snapshot, where the job is a compiled plan too: "
                "state whose types agree, and which means something else, is misread",
            ),
            argument("--flink", metavar="VERSION", help="the Flink that must restore it, such as 2.3"),
            argument("--state-backend", metavar="NAME", help="the job's state backend"),
            argument(
                "--classes",
                action="append",
                default=[],
                metavar="PATH",
                help="a jar or folder with the class files of values that Kryo wrote, for a job on Flink 2",
            ),
            argument(
                "--allow-non-restored-state",
                action="store_true",
                help="accept state that no operator of the job restores, as Flink's option does",
            ),
            argument(
                "--ids-only",
                action="store_true",
                help="accept operators whose types the job does not describe: only ids and parallelism are checked",
            ),
            argument(
                "--hasher", choices=("v2", "v3"), default="v2", help="the hasher for ids of operators without uid"
            ),
            argument("--junit", metavar="FILE", help="also write the verdicts as JUnit XML"),
        ),
        (
            "check-restore golden/savepoint job.json --flink 2.3",
            "check-restore golden/savepoint job.json --junit build/restore.xml",
            "check-restore golden/savepoint /savepoints/of-the-new-job",
        ),
        "Exit code 0: Flink restores it. 1: it fails, or state is misread. 3: the description is not sufficient.",
    ),
    Command(
        "evolve",
        "evolving.evolve",
        CHECK,
        "carry a SQL job's state over to its new query, or say what becomes of it, from the compiled plans of both",
        (
            argument("path", metavar="old", help="the snapshot that the old job wrote"),
            argument("target", metavar="new", nargs="?", help="the folder of the savepoint for the new query"),
            AS_OF,
            argument("--old-plan", metavar="FILE", required=True, help="the plan of the old job, from COMPILE PLAN"),
            argument("--new-plan", metavar="FILE", required=True, help="the plan of the new query"),
            argument(
                "--fill",
                choices=("refuse", "initial"),
                default="refuse",
                help="initial: what is added begins with its initial value (default: refuse)",
            ),
            argument(
                "--backfill",
                action="append",
                default=[],
                metavar="NAME=FILE",
                help="history of what is added: a name of --dry-run, and rows with the key and the value; a table, and "
                "its rows up to the snapshot; or the id of a node, and the rows of its input",
            ),
            argument(
                "--filters",
                choices=("refuse", "keep"),
                default="refuse",
                help="keep: accept that old rows came in under other conditions (default: refuse)",
            ),
            argument(
                "--node", action="append", default=[], metavar="NEW=OLD", help="ids of nodes, where it is ambiguous"
            ),
            argument(
                "--source", action="append", default=[], metavar="NEW=OLD", help="names of tables that were renamed"
            ),
            argument(
                "--column",
                action="append",
                default=[],
                metavar="NEW=OLD",
                help="columns whose meaning you know to be the same",
            ),
            argument(
                "--cast",
                action="append",
                default=[],
                metavar="COLUMN=TYPE",
                help="types that change values, as you ask",
            ),
            argument("--old-explain", metavar="FILE", help="what EXPLAIN prints, if the old job ran without a plan"),
            argument("--new-explain", metavar="FILE", help="what EXPLAIN prints, if the new job runs without a plan"),
            argument(
                "--stable-plan", metavar="FILE", help="also write the new plan with the ids of the old one to this file"
            ),
            *WRITES,
        ),
        (
            "evolve /savepoints/savepoint-2f1a3c --old-plan old.json --new-plan new.json --dry-run",
            "evolve /savepoints/savepoint-2f1a3c /savepoints/evolved --old-plan old.json --new-plan new.json",
        ),
        "Exit code 0: nothing is lost. 1: something is, or begins anew. 2: nothing is written until more is given.",
    ),
    Command(
        "catch-up",
        "evolving.catch_up",
        CHECK,
        "show the changes that bring a sink from the old query's result to the new one's; exit code 1 if there are any",
        (
            argument("path", metavar="old", help="the snapshot that the old job wrote"),
            argument("evolved", metavar="new", help="the savepoint that evolve wrote"),
            AS_OF,
            argument("--old-plan", metavar="FILE", required=True, help="the plan of the old job, from COMPILE PLAN"),
            argument("--new-plan", metavar="FILE", required=True, help="the plan of the new query"),
            argument("--sink", metavar="TABLE", help="the sink, if the new query has several"),
            argument("--limit", type=int, default=20, metavar="N", help="how many rows; 0: all (default: 20)"),
        ),
        ("catch-up /savepoints/old /savepoints/evolved --old-plan old.json --new-plan new.json --limit 0 --json",),
        prints_table=True,
    ),
    Command(
        "check-migration",
        "restoring.check_migration_of",
        CHECK,
        "list what a snapshot needs so that Flink 2 (or again Flink 1) restores it with equal values",
        (PATH, AS_OF, *MIGRATION, argument("--all", action="store_true", help="also show what needs no change")),
        (
            "check-migration /savepoints/of-1.20 --flink 2.3 --classes job.jar",
            "check-migration /savepoints/of-1.20 --flink 2.3 --types-from /savepoints/of-the-new-job --json",
        ),
        "Exit code 0: Flink restores all of it without migration. 1: it does not, or values would be wrong.",
        prints_table=True,
    ),
    Command(
        "migrate",
        "restoring.migrate",
        EDIT,
        "write a savepoint that Flink 2 (or again Flink 1) restores with equal values",
        (
            argument("path", metavar="old", help="the snapshot"),
            AS_OF,
            argument("target", metavar="new", help="the folder of the new savepoint; there must be none yet"),
            *MIGRATION,
            argument(
                "--drop", action="append", default=[], metavar="STATE", help="leave a state out: UID.STATE, or UID"
            ),
            argument("--as-is", action="append", default=[], metavar="STATE", help="keep the bytes of a state"),
            DRY_RUN,
            CHECKPOINT_ID,
        ),
        (
            "migrate /savepoints/of-1.20 /savepoints/for-2.3 --flink 2.3 --classes job.jar",
            "migrate /savepoints/of-1.20 /savepoints/for-2.3 --flink 2.3 --classes job.jar --drop accounts.cache",
        ),
        "Nothing is written if arguments are missing; all missing ones are listed.",
    ),
    Command(
        "cp",
        "copying.copy",
        COPY,
        "copy a snapshot to a self-contained savepoint, published after all files",
        (
            argument("path", metavar="source", help="the snapshot"),
            AS_OF,
            argument("target", help="the folder of the new savepoint; there must be none yet"),
            DRY_RUN,
            PORTABLE,
            CHECKPOINT_ID,
        ),
        (
            "cp s3://bucket/checkpoints/7d2e/chk-42 /savepoints/copy-of-42",
            "cp /savepoints/native /savepoints/canonical --portable",
        ),
    ),
    Command(
        "pin",
        "copying.pin",
        COPY,
        "hold a checkpoint that its job is about to delete: cp by hard links, or by the object store",
        (
            argument("path", metavar="source", help="the snapshot"),
            AS_OF,
            argument("target", help="the folder of the new savepoint; there must be none yet"),
            DRY_RUN,
            CHECKPOINT_ID,
        ),
        (
            "pin /checkpoints/7d2e /savepoints/held --as-of latest",
            "pin s3://bucket/checkpoints/7d2e/chk-42 s3://bucket/savepoints/held-42",
        ),
    ),
    Command(
        "relocate",
        "copying.relocate",
        COPY,
        "write a savepoint that finds its files under another prefix; no file is copied",
        (
            argument("path", metavar="source", help="the snapshot"),
            AS_OF,
            argument("old", help="the prefix of files in the snapshot"),
            argument("new", help="their prefix now"),
            argument("target", help="the folder of the new savepoint; there must be none yet"),
            DRY_RUN,
            CHECKPOINT_ID,
        ),
        ("relocate /savepoints/moved hdfs://old/checkpoints s3://bucket/checkpoints /savepoints/relocated",),
    ),
    Command(
        "export",
        "reading.export",
        COPY,
        "write a table of an operator to a file, batch by batch",
        (
            PATH,
            AS_OF,
            argument("uid", help="the operator: its uid or its uid hash (32 hex digits)"),
            argument("state", nargs="?", help="one state; default: all keyed states, or the only operator state"),
            argument(
                "--format",
                choices=("parquet", "arrow", "json", "csv"),
                help="the format (default: that of the file's ending, else parquet)",
            ),
            argument(
                "--file",
                help="the file to write, such as total.csv, .jsonl, .parquet or .arrow (Parquet without an ending); "
                "default: the operator's name and the format, in this folder",
            ),
            argument("--table", help="the table, as for show: keyed_state, timers, splits, committables, ..."),
            argument("--columns", metavar="NAMES", help="only these columns, separated by commas"),
            argument("--force", action="store_true", help="replace the file if it exists"),
            argument(
                "--safe-csv",
                action="store_true",
                help="write ' before texts of CSV that begin with =, +, - or @: no spreadsheet takes them for formulas",
            ),
            READ_OPTION,
        ),
        (
            "export /savepoints/savepoint-2f1a3c accounts --format parquet",
            "export /savepoints/savepoint-2f1a3c accounts --table timers --file timers.jsonl",
        ),
    ),
    Command(
        "schema",
        "comparing.schema",
        LOOK,
        "print operators, states and types, to be kept beside the job's code; or compare them with such a file",
        (
            PATH,
            AS_OF,
            argument(
                "--format",
                choices=("savepoint", "avro", "json-schema"),
                default="savepoint",
                help="savepoint: what --check compares; avro, json-schema: the rows of all tables",
            ),
            argument("--file", help="write it to this file"),
            argument("--check", metavar="FILE", help="compare with this file; exit code 1 if anything differs"),
        ),
        (
            "schema /savepoints/savepoint-2f1a3c --file golden/schema.json",
            "schema /savepoints/of-the-new-job --check golden/schema.json",
            "schema /savepoints/savepoint-2f1a3c --format avro",
        ),
    ),
    Command(
        "warm-up",
        "warming.warm_up",
        TOOL,
        "compile what reads, compares and edits state, so that the first query is as fast as later ones",
        (
            argument("path", nargs="?", help="a snapshot like those that will be read; default: one of each kind"),
            argument("--file", metavar="FILE", help="pack the compiled code in this zip file, for other machines"),
            argument(
                "--cpu",
                metavar="NAME",
                help="with --file: the least that those machines' processors can do; x86-64, x86-64-v2, x86-64-v3 or "
                "x86-64-v4, on ARM generic; default: x86-64-v3 (Intel since 2013, AMD since 2015), or generic",
            ),
        ),
        ("warm-up", "warm-up /savepoints/savepoint-2f1a3c", "warm-up --file code.zip"),
    ),
    Command(
        "help",
        "answers.help_with",
        TOOL,
        "search questions in your own words, and show the command that answers each",
        (argument("words", nargs="+", metavar="WORDS", help="words of your question, such as: largest state"),),
        ("help largest state", "help rename operator", "help erase person"),
    ),
    Command(
        "completion",
        "completing.completion",
        TOOL,
        "print what makes a shell complete commands, options, operators, states and tables",
        (argument("shell", choices=("bash", "zsh", "fish"), help="bash, zsh, fish"),),
        (
            "completion bash > ~/.local/share/bash-completion/completions/pyspark-savepoint",
            "completion zsh > ~/.zfunc/_pyspark-savepoint    # a folder of $fpath",
            "completion fish > ~/.config/fish/completions/pyspark-savepoint.fish",
        ),
    ),
)


#: What options were called before, by command where it matters.
FORMER = {
    "--keys-from": "--keys-file",
    "--output": "--file",
    "--from": "--start",
    "changes --to": "--end",
    "export --to": "--format",
    "schema --to": "--format",
    "set-offsets --to": "--reset",
    "warm-up --to": "--file",
}


class UsageError(OptionError):
    """The arguments are wrong."""


class CommandParser(argparse.ArgumentParser):
    """Parser whose errors are raised, as one message."""

    def error(self, message: str) -> NoReturn:
        message = re.sub(r"argument (\S+): invalid int value: ('.*')", r"\1 is \2, expected a whole number", message)
        choice = re.search(r"invalid choice: '(.*?)' \(choose from (.*)\)", message)
        close = nearest(choice[1], re.findall(r"[\w-]+", choice[2])) if choice else []
        hint = f"did you mean {' or '.join(map(repr, close))}? " if close else ""
        raise UsageError(message, remedy=f"{hint}{self.prog} --help")


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    listed = "\n\n".join(f"{group}:\n{_listed(group)}" for group in (LOOK, CHECK, EDIT, COPY, TOOL))
    examples = "\n".join(_example(command.examples[0]) for command in COMMANDS[:3])
    top = CommandParser(
        PROGRAM,
        usage=f"{PROGRAM} COMMAND ...",
        description=f"{_wrapped(ABOUT)}\n\ncommands:\n\n{listed}",
        epilog=f"examples:\n{examples}\n\n{EXIT_CODES}\n\n{PROGRAM} COMMAND --help shows the arguments of a command.",
        formatter_class=_formatter,
        allow_abbrev=False,
    )
    top.add_argument(*TOP[0].names, **TOP[0].settings)
    commands = top.add_subparsers(dest="command", parser_class=CommandParser, help=argparse.SUPPRESS)
    for command in COMMANDS:
        examples = "\n".join(map(_example, command.examples))
        more = f"\n\n{_wrapped(command.more)}" if command.more else ""
        one = commands.add_parser(
            command.name,
            prog=f"{PROGRAM} {command.name}",
            description=_wrapped(f"{command.about[0].upper()}{command.about[1:]}.") + more,
            epilog=f"examples:\n{examples}",
            formatter_class=_formatter,
            allow_abbrev=False,
        )
        for known in command.all_arguments:
            one.add_argument(*known.names, **known.settings)
    return top


def _listed(group: str) -> str:
    """Return the commands of a group, a line or two for each."""
    names = max(len(command.name) for command in COMMANDS)
    return "\n".join(
        _wrapped(command.about, f"  {command.name:<{names}}  ", " " * (names + 4))
        for command in COMMANDS
        if command.group == group
    )


def _example(text: str) -> str:
    """Return a command line as a shell takes it, in lines that fit."""
    lines = [f"  {PROGRAM}"]
    for word in re.findall(r"""(?:"[^"]*"|'[^']*'|\S)+""", text):
        if len(lines[-1]) + len(word) + 3 > WIDTH:
            lines.append("    ")
        lines[-1] += f" {word}"
    return " \\\n".join(lines)


def _wrapped(text: str, first: str = "", others: str = "") -> str:
    return textwrap.fill(text, WIDTH, initial_indent=first, subsequent_indent=others, break_on_hyphens=False)


def _formatter(prog: str) -> argparse.HelpFormatter:
    return argparse.RawDescriptionHelpFormatter(prog, max_help_position=28, width=WIDTH)


def parse(given: Sequence[str]) -> argparse.Namespace:
    """Parse arguments; a path without a command is listed. Raise UsageError, which names the nearest command."""
    words = list(given)
    first = words[0] if words else ""
    names = [command.name for command in COMMANDS]
    if first and not first.startswith("-") and first not in names:
        if not re.search(r"[/\\:.~]", first):
            raise UsageError(
                f"there is no command {first!r}",
                remedy=f"{did_you_mean(first, names)} ({PROGRAM} --help lists them)"
                if nearest(first, names)
                else f"{PROGRAM} help {first.replace('-', ' ')} looks for an answer",
            )
        words.insert(0, "ls")
    if first in ("--json", "--csv", "--safe-csv", "--wide", "--progress", "--quiet", "--debug"):
        raise UsageError(f"{first} must come after the command", remedy=f"{PROGRAM} ls PATH {first}")
    for csv in ("--csv", "--safe-csv"):
        if "--json" in words and csv in words:
            raise UsageError(f"--json and {csv} exclude each other", remedy="give one of them")
    if "--quiet" in words and "--progress" in words:
        raise UsageError("--progress and --quiet exclude each other", remedy="give one of them")
    arguments, unknown = parser().parse_known_args(words)
    if unknown:
        listed = next((one.all_arguments for one in COMMANDS if one.name == arguments.command), TOP)
        options = [name for known in listed for name in known.names if name.startswith("--")]
        name = unknown[0].partition("=")[0]
        now = FORMER.get(f"{arguments.command} {name}", FORMER.get(name))
        close = [now] if now in options else _similar(name, options)
        hint = f"did you mean {' or '.join(map(repr, close))}? " if close else _of_others(unknown[0])
        raise UsageError(
            f"unrecognized arguments: {' '.join(unknown)}",
            remedy=f"{hint}{PROGRAM} {arguments.command or ''}".rstrip() + " --help",
        )
    return arguments


def _of_others(given: str) -> str:
    """Return which commands have an option that the given one does not have."""
    name = given.partition("=")[0]
    having = [one.name for one in COMMANDS if name in {each for known in one.arguments for each in known.names}]
    return f"{name} is an option of {', '.join(having)}; " if having and name.startswith("-") else ""


def _similar(given: str, options: list[str]) -> list[str]:
    """Return options that may be meant. Dashes are like dashes: ``--fast`` is not like ``--as-of``.

    >>> _similar("--limt", ["--limit", "--list"]), _similar("--fast", ["--as-of", "--csv"])
    (['--limit'], [])
    """
    word = given.lstrip("-")
    if word == given or len(word) < 3:
        return []
    close = nearest(word, [name.lstrip("-") for name in options])
    alike = {name: SequenceMatcher(None, word, name).ratio() for name in close}
    enough = max(0.7, max(alike.values(), default=0) - 0.1)
    return [f"--{name}" for name, ratio in alike.items() if ratio >= enough]


def markdown() -> str:
    """Return the reference of all commands, for the README."""
    return "\n".join(line for command in COMMANDS for line in _section(command))


def _section(command: Command) -> Iterator[str]:
    positional = [_placeholder(known) for known in command.arguments if not known.names[0].startswith("-")]
    yield f"### `{' '.join([PROGRAM, command.name, *positional])}`\n"
    yield f"{command.about[0].upper()}{command.about[1:]}." + (f" {command.more}" if command.more else "")
    yield "\n| argument | meaning |\n| --- | --- |"
    for known in command.arguments:
        yield f"| `{_shown(known)}` | {known.settings['help']} |".replace("a|b", "a or b")
    yield "\n```bash"
    yield from (f"{PROGRAM} {example}" for example in command.examples)
    yield "```\n"


def _placeholder(known: Argument) -> str:
    name = str(known.settings.get("metavar", known.names[0])).upper()
    nargs = known.settings.get("nargs")
    return f"[{name}]" if nargs == "?" else f"{name}..." if nargs == "+" else name


def _shown(known: Argument) -> str:
    names = ", ".join(known.names)
    if not names.startswith("-"):
        return str(known.settings.get("metavar", names))
    value = known.settings.get("metavar")
    value = " ".join(value) + " ..." if isinstance(value, tuple) else value
    value = value or ", ".join(known.settings.get("choices", ()))
    takes = value or ("" if "action" in known.settings else names.lstrip("-").upper())
    return f"{names} {takes}".strip()


#: Options that commands set from their arguments.
OWN_OPTIONS = frozenset({"path", "uid", "uidhash", "operatorname", "plan"})


def read_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the options of the data source for reads that the arguments give."""
    given = getattr(arguments, "option", ())
    file = "; --file names the file" if hasattr(arguments, "file") else ""
    options: dict[str, Any] = dict(_pair(text, "--option", f"flatten=true{file}") for text in given)
    for name in options:
        if name.replace("_", "").casefold() in OWN_OPTIONS:
            raise UsageError(
                f"--option does not take {name}: an argument of the command says it", remedy="leave it out"
            )
    stores = dict(_pair(text, "--storage-option", "region=eu-west-1") for text in arguments.storage_option)
    if stores:
        options["storageOptions"] = stores
    if arguments.allow_outside:
        options["allowOutside"] = True
    return options


def _pair(text: str, of: str, example: str) -> tuple[str, str]:
    name, mark, value = text.partition("=")
    if not mark or not name:
        raise UsageError(f"{of} takes NAME=VALUE", found=repr(text), remedy=f"such as {example}")
    return name, value
