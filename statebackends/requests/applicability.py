"""The tables, and what refuses an option that does not apply to one: an error that names where it does.

``read_keyed_state`` and ``read_window`` are user functions over keys. Options of ``Savepoint.load`` apply to all of its
tables, and each table uses those that it can.
"""

from __future__ import annotations

from collections.abc import Mapping

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
    "files",
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

#: Tables by what options of theirs are about; an option that is about more names its tables itself.
EVERYWHERE = (*TABLES, *FUNCTIONS)
OF_OPERATORS = tuple(name for name in EVERYWHERE if name not in OF_SNAPSHOT)
OF_ONE_SNAPSHOT = tuple(name for name in EVERYWHERE if name != "snapshots")
OF_VALUES = (*DECODED, STATES, HEAVIEST_KEYS, *FUNCTIONS)
OF_SERIALIZERS = (*OF_VALUES, VERIFICATION)


def refuse_useless(table: str, options: Mapping[str, tuple[str, ...]], **facts: str | None) -> None:
    """Raise OptionError that lists every option that does not apply to a table, and the tables where it does.

    Args:
        table: A table, or one of the user functions over keys.
        options: The tables and functions of each option that the user gave, by its name.
        facts: Facts of the error.

    """
    useless = [name for name in sorted(options) if table not in options[name]]
    if not useless:
        return
    named = " and ".join(f"'{name}'" for name in useless)
    what = f"{table}()" if table in FUNCTIONS else f"table '{table}'"
    raise OptionError(
        f"option{'s' if len(useless) > 1 else ''} {named} cannot apply to {what}",
        remedy="; ".join(_where(name, options[name]) for name in useless),
        **facts,
    )


def _where(option: str, tables: tuple[str, ...]) -> str:
    if option in NAMES:
        return f"'{option}' names an operator: leave it out"
    others = [name for name in TABLES if name not in tables]
    if len(others) > 1:
        return f"'{option}' is for {', '.join(name for name in tables if name not in FUNCTIONS)}"
    return f"'{option}' is for {' but '.join(['all tables', *others])}"
