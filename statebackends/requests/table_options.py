"""Options of a read that tables honour themselves: each is declared once, here, with all that is known about it.

A declaration has the option's name (the field's), how its text is parsed, its description, its default, the tables that
it applies to, and its type for type checkers. The options of the data source (``options.options``) and the requests of
tables inherit these fields; ``python -m tests.pages`` writes the README's table and the keyword types from them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pyspark_savepoint.formats.errors import OptionError, TypeNotationError, nearest
from pyspark_savepoint.formats.io.run_ahead import AHEAD_BYTES
from pyspark_savepoint.formats.json_text import parse_json
from pyspark_savepoint.formats.metadata.key_groups import UPPER_BOUND_MAX_PARALLELISM
from pyspark_savepoint.formats.name_lists import split_names
from pyspark_savepoint.formats.redaction import redacted
from pyspark_savepoint.formats.snapshot.savepoint import CHECKSUMS, IGNORE
from pyspark_savepoint.statebackends.requests.applicability import (
    CONNECTORS,
    DECODED,
    EVERYWHERE,
    FUNCTIONS,
    HEAVIEST_KEYS,
    IN_FLIGHT,
    KEYED_STATE,
    OF_ONE_SNAPSHOT,
    OF_OPERATORS,
    OF_SERIALIZERS,
    RAW_KEYED_STATE,
    ROWS_OF_KEYS,
    STATES,
    SURVEYED,
    TABLES,
    TIMERS,
    WINDOW_STATE,
)

DEFAULT_MEMORY = 64 << 20
DEFAULT_TOP = 20
MAX_TOP = 10_000
MIN_MEMORY, MAX_MEMORY = 1 << 20, 1 << 40
MEMORY = (
    "size of the largest key group that a task joins in memory, which takes about three times as much. Larger key "
    "groups are merged block by block if they are sorted, else they go through local disk. It is also how much is "
    f"read ahead from a store, at most {AHEAD_BYTES >> 20}m"
)
Parse = Callable[[str], Any]
P = TypeVar("P", bound=Parse)


class InvalidOptionValueError(ValueError):
    """A value is invalid; the message says what was expected, and who parses options adds option and value."""


# -- declarations -------------------------------------------------------------------------------------------


def option(
    parse: Parse,
    doc: str,
    default: Any = None,
    shown: str = "",
    *,
    tables: tuple[str, ...] = EVERYWHERE,
    typed: str = "",
) -> Any:
    """Return a field for an option. An option without doc is internal.

    Args:
        parse: The function that parses its text.
        doc: Its meaning, for the README.
        default: Its value if it is not given.
        shown: The default in the README, if it is not the value's own text.
        tables: The tables (and user functions over keys) that it applies to: others refuse it.
        typed: Its type as a keyword argument, if it is not the parser's.

    """
    if not shown and default not in (None, (), {}):
        shown = str(default).casefold() if isinstance(default, bool) else str(default)
    typed = typed or getattr(parse, "typed", "str")
    metadata = {"parse": parse, "doc": doc, "default": shown, "tables": tables, "typed": typed}
    if isinstance(default, dict):
        return field(default_factory=default.copy, metadata=metadata)
    return field(default=default, metadata=metadata)


def required(parse: Parse, doc: str) -> Any:
    """Return a field for an option without default."""
    metadata = {"parse": parse, "doc": doc, "default": "(required)", "tables": EVERYWHERE, "typed": "Path"}
    return field(metadata=metadata)


def typed(words: str) -> Callable[[P], P]:
    """Return a decorator of parsers: the type of their options as keyword arguments."""

    def marked(parse: P) -> P:
        parse.typed = words  # type: ignore[attr-defined]  # an attribute of a function
        return parse

    return marked


# -- kinds of values ----------------------------------------------------------------------------------------


def text(value: str) -> str:
    if not value.strip():
        raise InvalidOptionValueError("not to be empty")
    return value


@typed("bool")
def flag(value: str) -> bool:
    return bool(choice("true", "false")(value) == "true")


def choice(*choices: str) -> Parse:
    """Return a parser of one of several words, in any case."""

    @typed(f"Literal[{', '.join(map(json.dumps, choices))}]")
    def parse(value: str) -> str:
        folded = value.strip().casefold()
        if folded not in choices:
            close = nearest(folded, choices)
            hint = f" (did you mean {' or '.join(map(repr, close))}?)" if close else ""
            raise InvalidOptionValueError(" or ".join(choices) + hint)
        return folded

    return parse


def whole_number(low: int, high: int) -> Parse:
    """Return a parser of a number between two bounds, both inclusive."""

    @typed("int")
    def parse(value: str) -> int:
        if not re.fullmatch(r"\s*[0-9]{1,18}\s*", value) or not low <= int(value) <= high:
            raise InvalidOptionValueError(f"a whole number from {low} to {high}")
        return int(value)

    return parse


@typed("Names")
def names(value: str) -> tuple[str, ...]:
    """Parse names separated by commas, or a JSON list of them."""
    parsed = split_names(value)
    if not parsed:
        raise InvalidOptionValueError("names separated by commas")
    return parsed


def kryo_words(value: str) -> str:
    """Check classes given by name and fields, and return the text."""
    from pyspark_savepoint.formats.serializers.kryo.classes.word_classes import WordClasses

    try:
        WordClasses.parse(value)
    except OptionError as error:
        raise InvalidOptionValueError(f"{error.facts['expected']} at {error.facts['found']!r}") from None
    return value.strip()


def python_types(value: str) -> str:
    """Check types of PyFlink's states, and return the text."""
    from pyspark_savepoint.formats.serializers.notation.python_types import parse_python_types

    try:
        parse_python_types(value)
    except TypeNotationError as error:
        raise InvalidOptionValueError(f"types of PyFlink's states: {error.message}") from None
    return value


def record_types(value: str) -> str:
    """Check types of records in flight, JSON by input and output, and return the text."""
    from pyspark_savepoint.formats.serializers.notation.notation import NEWEST_VERSION, parse_type

    try:
        types = parse_json(value)
    except (ValueError, RecursionError):
        types = None
    if not isinstance(types, dict) or not all(isinstance(notation, str) for notation in types.values()):
        raise InvalidOptionValueError("""JSON, types by input and output, such as {"input 0": "LONG"}""")
    for notation in types.values():
        try:
            parse_type(notation, NEWEST_VERSION)
        except TypeNotationError as error:
            raise InvalidOptionValueError(f"types of records: {error.message}") from None
    return value


@typed("Size")
def size(value: str) -> int:
    """Parse a number of bytes, as Spark writes it.

    >>> size("64m")
    67108864
    """
    match = re.fullmatch(r"\s*([0-9]{1,12})\s*([kmgt]?)b?\s*", value.casefold())
    size = int(match[1]) << {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}[match[2]] if match else 0
    if not MIN_MEMORY <= size <= MAX_MEMORY:
        raise InvalidOptionValueError("a size from 1m to 1t, such as 64m")
    return size


def _kryo(value: str) -> int | None:
    version = choice("auto", "2", "5")(value)
    return None if version == "auto" else int(version)


def _key_groups(value: str) -> tuple[tuple[int, int], ...]:
    """Parse ranges of key groups, both ends inclusive, to ranges in ascending order with gaps between them.

    >>> _key_groups("77, 0-31, 20-40")
    ((0, 40), (77, 77))
    """
    ranges: list[tuple[int, int]] = []
    for part in value.split(","):
        match = re.fullmatch(r"\s*([0-9]{1,5})\s*(?:-\s*([0-9]{1,5})\s*)?", part)
        low, high = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if not low <= high < UPPER_BOUND_MAX_PARALLELISM:
            raise InvalidOptionValueError(
                f"numbers and ranges of key groups from 0 to {UPPER_BOUND_MAX_PARALLELISM - 1}, such as 0-31,77"
            )
        ranges.append((low, high))
    joined: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if joined and low <= joined[-1][1] + 1:
            joined[-1] = joined[-1][0], max(high, joined[-1][1])
        else:
            joined.append((low, high))
    return tuple(joined)


def _keys(value: str) -> str:
    try:
        keys = parse_json(value, constants=True)
    except (ValueError, RecursionError):
        keys = None
    if not isinstance(keys, list):
        raise InvalidOptionValueError("""a JSON list of keys, such as [1, 2] or ["a"]""")
    return value


def _field_names(value: str) -> str:
    expected = InvalidOptionValueError(
        """a compiled plan, or names by column such as {"key": ["user"]}, or what EXPLAIN prints"""
    )
    try:
        parsed = parse_json(value)
    except (ValueError, RecursionError):
        from pyspark_savepoint.statebackends.sql_plans.explained_plan import is_explained

        if is_explained(value):
            return value
        raise expected from None
    if not isinstance(parsed, dict):
        raise expected
    if "nodes" not in parsed:
        for names in parsed.values():
            distinct = isinstance(names, list) and len({name.casefold() for name in map(str, names)}) == len(names)
            if not distinct or not all(isinstance(name, str) and name for name in names):
                raise expected
    elif not isinstance(parsed["nodes"], list) or not all(isinstance(node, dict) for node in parsed["nodes"]):
        raise expected
    return value


def _uids(value: str) -> tuple[str, ...]:
    """Parse uids: a JSON list, or texts separated by commas."""
    if not value.lstrip().startswith("["):
        return names(value)
    try:
        uids = parse_json(value)
    except (ValueError, RecursionError):
        uids = None
    if not isinstance(uids, list) or not all(isinstance(uid, str) and uid for uid in uids):
        raise InvalidOptionValueError("""uids, such as accounts,orders or ["accounts", "orders"]""")
    return tuple(uids)


# -- the options --------------------------------------------------------------------------------------------


@redacted
@dataclass(frozen=True, slots=True, kw_only=True)
class TableOptions:
    """What a table is asked for."""

    uid: str | None = option(text, "the operator, by the uid that its job gave it", tables=OF_OPERATORS)
    uid_hash: str | None = option(text, "the operator, by its uid hash (32 hex digits)", tables=OF_OPERATORS)
    operator_name: str | None = option(text, "the operator, by the name that the snapshot records", tables=OF_OPERATORS)
    table: str | None = option(
        choice(*TABLES),
        ", ".join(f"`{name}`" for name in TABLES),
        shown="`states`, or with an operator or state, the table that it has",
        tables=TABLES,
    )
    state: str | None = option(
        text,
        "the name of an operator state, or for keyed tables the states to read, such as `total,profile`, or a JSON "
        "list if a name has a comma",
        shown="all",
        tables=(*DECODED, *SURVEYED, IN_FLIGHT),
    )
    flatten: bool = option(flag, "one row per element of a list or map state", False, tables=ROWS_OF_KEYS)
    undecodable: str = option(
        choice("binary", "error"),
        "values that only the user's code can decode: `binary` returns their bytes and warns, `error` fails",
        "binary",
        tables=DECODED,
    )
    include_key_group: bool = option(flag, "adds the columns `key_group` and `subtask`", False, tables=DECODED)
    include_ttl: bool = option(
        flag,
        "adds a column `<state>__last_access` for each state with a TTL: the time of its last access",
        False,
        tables=ROWS_OF_KEYS,
    )
    include_state_window: bool = option(
        flag,
        "adds for session windows the column `state_window`: the window under which Flink stores the contents of "
        "`window`",
        False,
        tables=(WINDOW_STATE,),
    )
    include_internal: bool = option(
        flag,
        "shows elements of windows with an evictor with all fields of Flink's stream elements, not only value and "
        "timestamp",
        False,
        tables=(WINDOW_STATE,),
    )
    field_names: str | None = option(
        _field_names,
        "names for fields that Flink does not record (`f0`, `_1`): the JSON of a compiled plan (`COMPILE PLAN`) or the "
        "text of `EXPLAIN`, which name keys, rows, aggregates and windows (`window_start`, `slice_end`) of SQL "
        "operators. Or names by column, such as "
        """`{"key": ["user"], "accState": ["count(*)", "sum(amount)"]}` (keys of a map: `left-records.key`)""",
        tables=(*ROWS_OF_KEYS, TIMERS, STATES),
    )
    variants: str | None = option(
        choice("variant", "json"),
        "values of Spark's VARIANT: `variant` returns them as such (without Spark the two byte strings of which it "
        "consists), which can be written back. `json` returns JSON as text",
        shown="`variant` with Spark, `json` without",
        tables=DECODED,
    )
    keys: str | None = option(
        _keys,
        'only these keys, such as `[1042, 1043]` or `["a"]`. Only their key groups are opened',
        shown="all",
        tables=(*ROWS_OF_KEYS, TIMERS, *FUNCTIONS),
        typed="Sequence[object] | str",
    )
    key_groups: tuple[tuple[int, int], ...] | None = option(
        _key_groups,
        "only these key groups, such as `0-31,77`",
        shown="all",
        tables=(*ROWS_OF_KEYS, TIMERS, *SURVEYED, RAW_KEYED_STATE, *FUNCTIONS),
        typed="int | str | Sequence[int | str]",
    )
    raw: tuple[str, ...] = option(
        names,
        "states to return undecoded, as BINARY, such as `profile,total`. Also `key`, `window`, and `namespace` of "
        "timers",
        (),
        shown="none",
        tables=(*DECODED, *FUNCTIONS),
    )
    kryo: int | None = option(
        _kryo,
        "the version of Kryo that wrote the values: `2` (Flink 1), `5` (Flink 2), or `auto`",
        shown="auto",
        tables=OF_SERIALIZERS,
        typed='Literal["auto", 2, 5]',
    )
    connector: str | None = option(
        text,
        "the connector of splits, coordinators or committables that cannot be recognised by their bytes, such as "
        "`kafka`",
        shown="recognised by content",
        tables=tuple(name for name in CONNECTORS if name != IN_FLIGHT),
    )
    py_types: str | None = option(
        python_types,
        "types that a PyFlink job declared for its states, such as `total LONG; tags LIST<STRING>`",
        shown="what the bytes prove, else BINARY",
        tables=(KEYED_STATE, WINDOW_STATE, STATES),
    )
    record_types: str | None = option(
        record_types,
        "JSON: types of the records in channels of unaligned checkpoints, where no state of the operator has them, "
        """such as `{"input 0": "LONG", "output 0": "TUPLE<STRING, LONG>"}`""",
        shown="that of the operator's queue or window contents, else BINARY",
        tables=(IN_FLIGHT,),
        typed="ByColumn",
    )
    allow_outside: bool = option(
        flag,
        "open files that the snapshot names outside its own directory and checkpoint root, such as changelogs in a "
        "folder of their own",
        False,
        tables=OF_ONE_SNAPSHOT,
    )
    uids: tuple[str, ...] = option(
        _uids,
        "uids of the job, such as `accounts,orders`: listings show them where metadata of Flink 1 has only hashes",
        (),
        shown="none",
        tables=(STATES, "metadata"),
        typed="Names",
    )
    top: int = option(
        whole_number(1, MAX_TOP),
        "number of keys per state in table `heaviest_keys`",
        DEFAULT_TOP,
        tables=(HEAVIEST_KEYS,),
    )
    checksums: str = option(
        choice(*CHECKSUMS),
        "checksums that this package wrote: `ignore` them, `verify` those of files that are read, or `require` that "
        "every file has one",
        IGNORE,
        tables=OF_ONE_SNAPSHOT,
    )
    memory: int = option(
        size, MEMORY, DEFAULT_MEMORY, shown=f"{DEFAULT_MEMORY >> 20}m", tables=(*DECODED, *SURVEYED, *FUNCTIONS)
    )
