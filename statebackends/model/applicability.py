"""Which read options apply to which tables; an option that does not apply is an error that names its tables.

Options that are not listed apply to every table. ``read_keyed_state`` and ``read_window`` are user functions over keys.
Options of ``Savepoint.load`` apply to all of its tables, and each table uses those that it can.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from pyspark_savepoint.formats.errors import OptionError

KEYED_STATE, WINDOW_STATE, TIMERS, OPERATOR_STATE, STATES = (
    "keyed_state",
    "window_state",
    "timers",
    "operator_state",
    "states",
)
SIZES, HEAVIEST_KEYS, TTL_AGES, RAW_KEYED_STATE = "sizes", "heaviest_keys", "ttl_ages", "raw_keyed_state"
READ_KEYED_STATE, READ_WINDOW = "read_keyed_state", "read_window"

FUNCTIONS = (READ_KEYED_STATE, READ_WINDOW)
ROWS_OF_KEYS = (KEYED_STATE, WINDOW_STATE)
DECODED = (*ROWS_OF_KEYS, TIMERS, OPERATOR_STATE)
VERIFICATION = "verification"
#: Tables by the package that has them.
KEYED_TABLES = (KEYED_STATE, WINDOW_STATE, TIMERS)
CATALOG = (
    STATES,
    "metadata",
    "snapshots",
    "statements",
    "coordinator_state",
    "master_state",
    "raw_operator_state",
    RAW_KEYED_STATE,
)
#: What sources and sinks keep.
IN_FLIGHT = "in_flight"
CONNECTORS = ("splits", "source_coordinator", "committables", IN_FLIGHT, "offsets")
SURVEYED = (SIZES, HEAVIEST_KEYS, TTL_AGES, VERIFICATION)
TABLES = (*KEYED_TABLES, OPERATOR_STATE, *CATALOG, *CONNECTORS, *SURVEYED)
#: Tables of a whole snapshot, or of a folder of snapshots.
OF_SNAPSHOT = frozenset({"snapshots", "master_state"})
#: Tables of which rows that change between snapshots are told apart.
CONNECTORS_WITH_CHANGES = ("splits", "offsets")
WITH_CHANGES = (*DECODED, *CONNECTORS_WITH_CHANGES)
#: Options of the changes between snapshots.
FEED = (
    "readChangeFeed",
    "startingVersion",
    "endingVersion",
    "startingTimestamp",
    "endingTimestamp",
    "deduplicationMode",
)
#: Options of a stream of changes.
STREAM = ("maxCheckpointsPerTrigger", "failOnDataLoss", "pinFolder")
NAMES = ("uid", "uidHash", "operatorName", "node")

APPLIES_TO: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        **dict.fromkeys((*FEED, *STREAM), WITH_CHANGES),
        "state": (*DECODED, *SURVEYED, IN_FLIGHT),
        "flatten": ROWS_OF_KEYS,
        "parallelism": (*DECODED, *SURVEYED, *FUNCTIONS),
        "undecodable": DECODED,
        "includeKeyGroup": DECODED,
        "includeTtl": ROWS_OF_KEYS,
        "includeStateWindow": (WINDOW_STATE,),
        "fieldNames": (*ROWS_OF_KEYS, TIMERS, STATES),
        "includeInternal": (WINDOW_STATE,),
        "includeRowKind": (*DECODED, STATES, HEAVIEST_KEYS, *FUNCTIONS),
        "keys": (*ROWS_OF_KEYS, TIMERS, *FUNCTIONS),
        "keyGroups": (*ROWS_OF_KEYS, TIMERS, *SURVEYED, RAW_KEYED_STATE, *FUNCTIONS),
        "timestamps": (*DECODED, STATES, HEAVIEST_KEYS, *FUNCTIONS),
        "decimals": (*DECODED, STATES, HEAVIEST_KEYS, *FUNCTIONS),
        "text": (*DECODED, HEAVIEST_KEYS, *FUNCTIONS),
        "raw": (*DECODED, *FUNCTIONS),
        "kryo": (*DECODED, STATES, HEAVIEST_KEYS, VERIFICATION, *FUNCTIONS),
        "classes": (*DECODED, STATES, HEAVIEST_KEYS, VERIFICATION, *FUNCTIONS),
        "kryoTypes": (*DECODED, STATES, HEAVIEST_KEYS, VERIFICATION, *FUNCTIONS),
        "serializers": (*DECODED, STATES, HEAVIEST_KEYS, VERIFICATION, *FUNCTIONS),
        "pickle": (*DECODED, STATES, HEAVIEST_KEYS, *FUNCTIONS),
        "connector": tuple(name for name in CONNECTORS if name != IN_FLIGHT),
        "pyTypes": (KEYED_STATE, WINDOW_STATE, STATES),
        "recordTypes": (IN_FLIGHT,),
        "uids": (STATES, "metadata"),
        "top": (HEAVIEST_KEYS,),
        "memory": (*DECODED, *SURVEYED, *FUNCTIONS),
    }
)


def refuse_useless(table: str, given: Iterable[str], **facts: str | None) -> None:
    """Raise OptionError that lists every option that does not apply to a table, and the tables where it does."""
    useless = [name for name in given if not applies(name, table)]
    if not useless:
        return
    where = [f"'{name}' is for {_listed(name)}" for name in useless if name in APPLIES_TO]
    where += [f"'{name}' names an operator: leave it out" for name in useless if name in NAMES]
    named = " and ".join(f"'{name}'" for name in useless)
    what = f"{table}()" if table in FUNCTIONS else f"table '{table}'"
    raise OptionError(
        f"option{'s' if len(useless) > 1 else ''} {named} cannot apply to {what}", remedy="; ".join(where), **facts
    )


def applies(option: str, table: str) -> bool:
    """Return whether a table supports an option, given by its name in Spark."""
    if option in NAMES:
        return table not in OF_SNAPSHOT
    if option in ("allowOutside", "checksums", "versionAsOf", "timestampAsOf", "asOf"):
        return table != "snapshots"
    if option == "table":
        return table not in FUNCTIONS
    if option == "batchSize":
        return table not in FUNCTIONS
    return table in APPLIES_TO.get(option, (table,))


def _listed(option: str) -> str:
    return ", ".join(table for table in APPLIES_TO[option] if table not in FUNCTIONS)
