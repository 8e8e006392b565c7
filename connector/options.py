"""Options of a read: every name, default and meaning is here, and nowhere else.

Spark hands options over as one dictionary of strings with keys in lower case. They are parsed once, on the driver;
everything that is wrong with them is said in one error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, Self

from pyspark_savepoint.formats.columns import DecodeOptions
from pyspark_savepoint.formats.errors import OptionError, nearest
from pyspark_savepoint.formats.key_groups import UPPER_BOUND_MAX_PARALLELISM
from pyspark_savepoint.statebackends.request import DEFAULT_BATCH_ROWS, DEFAULT_MEMORY, TableRequest
from pyspark_savepoint.statebackends.tables import KEYED_TABLES, TABLES

MAX_BATCH_ROWS = 1 << 20
MIN_MEMORY, MAX_MEMORY = 1 << 20, 1 << 40
MAX_DECIMAL_PRECISION = 38

NO_PATH = """there is no path: load() needs that of a savepoint or checkpoint.
  Spark keeps no options of CREATE TABLE: query the table WITH (path = '...', uid = '...'), or use a temporary view"""

Parse = Callable[[str], Any]


class RefusedError(ValueError):
    """What a value should have been; :meth:`SavepointReadOptions.parse` says the rest."""


# -- kinds of values ----------------------------------------------------------------------------------------


def _text(value: str) -> str:
    if not value.strip():
        raise RefusedError("not to be empty")
    return value


def _flag(value: str) -> bool:
    return bool(_choice("true", "false")(value) == "true")


def _choice(*choices: str) -> Parse:
    def parse(value: str) -> str:
        folded = value.strip().casefold()
        if folded not in choices:
            raise RefusedError(" or ".join(choices))
        return folded

    return parse


def _whole_number(low: int, high: int) -> Parse:
    def parse(value: str) -> int:
        if not re.fullmatch(r"\s*[0-9]{1,18}\s*", value) or not low <= int(value) <= high:
            raise RefusedError(f"a whole number from {low} to {high}")
        return int(value)

    return parse


def _kryo(value: str) -> int | None:
    version = _choice("auto", "2", "5")(value)
    return None if version == "auto" else int(version)


def _names(value: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in value.split(",") if name.strip())
    if not names:
        raise RefusedError("names with commas between them")
    return names


def _size(value: str) -> int:
    """Bytes, as Spark writes them.

    >>> _size("64m")
    67108864
    """
    match = re.fullmatch(r"\s*([0-9]{1,12})\s*([kmgt]?)b?\s*", value.casefold())
    size = int(match[1]) << {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}[match[2]] if match else 0
    if not MIN_MEMORY <= size <= MAX_MEMORY:
        raise RefusedError("a size from 1m to 1t, such as 64m")
    return size


def _key_groups(value: str) -> tuple[tuple[int, int], ...]:
    """Ranges, both ends inclusive.

    >>> _key_groups("0-31, 77")
    ((0, 31), (77, 77))
    """
    ranges = []
    for part in value.split(","):
        match = re.fullmatch(r"\s*([0-9]{1,5})\s*(?:-\s*([0-9]{1,5})\s*)?", part)
        low, high = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if not low <= high < UPPER_BOUND_MAX_PARALLELISM:
            raise RefusedError(
                f"numbers and ranges of key groups from 0 to {UPPER_BOUND_MAX_PARALLELISM - 1}, such as 0-31,77"
            )
        ranges.append((low, high))
    return tuple(ranges)


def _keys(value: str) -> str:
    try:
        keys = json.loads(value)
    except (ValueError, RecursionError):
        keys = None
    if not isinstance(keys, list):
        raise RefusedError("""a JSON list of keys, such as [1, 2] or ["a"]""")
    return value


def _decimals(value: str) -> str:
    folded = value.strip().casefold()
    match = re.fullmatch(r"([0-9]{1,2})\s*,\s*([0-9]{1,2})", folded)
    if match and 1 <= int(match[1]) <= MAX_DECIMAL_PRECISION and int(match[2]) <= int(match[1]):
        return f"{int(match[1])},{int(match[2])}"
    if folded not in ("auto", "string"):
        raise RefusedError("auto, string, or precision and scale, such as 38,18")
    return folded


# -- the options --------------------------------------------------------------------------------------------


def _option(parse: Parse, doc: str, default: Any = None, shown: str = "") -> Any:
    return field(default=default, metadata={"parse": parse, "doc": doc, "default": shown})


@dataclass(frozen=True, slots=True, kw_only=True)
class SavepointReadOptions:
    """The options of one read, parsed and checked."""

    path: str = field(
        metadata={
            "parse": _text,
            "doc": "the directory of a savepoint or checkpoint, its `_metadata` file, or a directory that holds "
            "several; what `load(path)` is given",
            "default": "(required)",
        }
    )
    uid: str | None = _option(_text, "the operator, by the uid that its job gave it")
    uid_hash: str | None = _option(_text, "the operator, by its uid hash (32 hex digits)")
    operator_name: str | None = _option(_text, "the operator, by the name that the snapshot records")
    table: str | None = _option(
        _choice(*TABLES),
        ", ".join(f"`{name}`" for name in TABLES),
        shown="`states`, or what the operator or state named has",
    )
    state: str | None = _option(
        _text, "an operator state by name; of keyed tables the states to read, with commas between them", shown="all"
    )
    flatten: bool = _option(_flag, "a list or map state as one row per element", False, "false")
    parallelism: int | None = _option(
        _whole_number(1, UPPER_BOUND_MAX_PARALLELISM),
        "number of input partitions: each is what that execution vertex of a job of this parallelism would restore",
        shown="from CPUs and bytes, at most max parallelism",
    )
    undecodable: str = _option(
        _choice("binary", "error"),
        "what only the user's code can decode: `binary` shows its bytes and warns, `error` refuses",
        "binary",
        "binary",
    )
    include_key_group: bool = _option(_flag, "columns `key_group` and `subtask`", False, "false")
    include_ttl: bool = _option(_flag, "of state with a TTL, also the time of its last access", False, "false")
    include_row_kind: bool = _option(_flag, "rows of SQL jobs have a field `__row_kind`", False, "false")
    keys: str | None = _option(_keys, "only these keys: a JSON list; opens only their key groups", shown="all")
    key_groups: tuple[tuple[int, int], ...] | None = _option(
        _key_groups, "only these key groups, such as `0-31,77`", shown="all"
    )
    timestamps: str = _option(
        _choice("micros", "truncate", "raw"),
        "times that are finer than Spark's microseconds, or out of its range: `micros` is an error, `truncate` cuts "
        "digits, `raw` shows what Flink stores",
        "micros",
        "micros",
    )
    decimals: str = _option(
        _decimals,
        "big numbers: `auto` (BigInteger as DECIMAL(38,0), BigDecimal as STRING), `string`, or precision and scale, "
        "such as `38,18`",
        "auto",
        "auto",
    )
    raw: tuple[str, ...] = _option(
        _names,
        "states to show as BINARY, undecoded, with commas between them; also `key`, `window`, and timers' `namespace`",
        (),
        "none",
    )
    kryo: int | None = _option(
        _kryo, "the version of Kryo that wrote: 2 (Flink 1), 5 (Flink 2), or `auto`", shown="auto"
    )
    pickle: bool = _option(
        _flag, "decode PyFlink's pickled values where they are plain; nothing is ever unpickled", False, "false"
    )
    allow_outside: bool = _option(
        _flag, "open files that the snapshot names outside its own directory and checkpoint root", False, "false"
    )
    batch_size: int = _option(
        _whole_number(1, MAX_BATCH_ROWS), "rows per Arrow batch", DEFAULT_BATCH_ROWS, str(DEFAULT_BATCH_ROWS)
    )
    memory: int = _option(
        _size, "bytes of state that a task holds at a time, about", DEFAULT_MEMORY, f"{DEFAULT_MEMORY >> 20}m"
    )

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> Self:
        """From Spark's options; everything that is wrong is in one OptionError."""
        given = _without_catalog({key.lower(): value for key, value in options.items()})
        problems = list(_take_paths(given))
        known = {name.lower(): (name, option) for name, option in _named()}
        problems += [_unknown(key) for key in given if key not in known]
        values: dict[str, Any] = {}
        for key, (name, option) in known.items():
            if key not in given:
                continue
            try:
                values[option.name] = option.metadata["parse"](given[key])
            except RefusedError as refused:
                problems.append(f"option '{name}' is {given[key]!r}, expected {refused}")
        problems += _conflicts(values)
        if "path" not in given and not problems:
            problems.append(NO_PATH)
        if problems:
            raise _error(problems)
        return cls(**values)

    def request(self) -> TableRequest:
        """What the tables are asked for."""
        decode = DecodeOptions(
            timestamps=self.timestamps, decimals=self.decimals, row_kind=self.include_row_kind, pickle=self.pickle
        )
        return TableRequest(
            path=self.path,
            uid=self.uid,
            uid_hash=self.uid_hash,
            operator_name=self.operator_name,
            table=self.table,
            state=self.state,
            flatten=self.flatten,
            undecodable=self.undecodable,
            include_key_group=self.include_key_group,
            include_ttl=self.include_ttl,
            keys=self.keys,
            key_groups=self.key_groups,
            raw=self.raw,
            kryo=self.kryo,
            decode=decode,
            allow_outside=self.allow_outside,
            batch_rows=self.batch_size,
            memory=self.memory,
        )


def options_table() -> str:
    """All options as a Markdown table, for the README."""
    rows = ["| option | default | meaning |", "| --- | --- | --- |"]
    rows += [f"| `{name}` | {option.metadata['default']} | {option.metadata['doc']} |" for name, option in _named()]
    return "\n".join(rows)


def _named() -> Iterator[tuple[str, Field[Any]]]:
    """Every option with its name in Spark: the field's, in camel case."""
    for option in fields(SavepointReadOptions):
        head, *rest = option.name.split("_")
        yield head + "".join(part.capitalize() for part in rest), option


# -- what is wrong --------------------------------------------------------------------------------------------


def _without_catalog(given: dict[str, str]) -> dict[str, str]:
    """CREATE TABLE adds the catalog's own properties, and repeats every option as ``option.NAME``: only these count."""
    if "provider" not in given:
        return given
    return {key: value for key, value in given.items() if key == "path" or f"option.{key}" in given}


def _take_paths(given: dict[str, str]) -> Iterator[str]:
    """``load([a, b])`` arrives as a JSON list in option 'paths'; a list of one is that path."""
    if "paths" not in given:
        return
    text = given.pop("paths")
    try:
        paths = json.loads(text)
    except (ValueError, RecursionError):
        paths = None
    if isinstance(paths, list) and len(paths) == 1 and isinstance(paths[0], str) and "path" not in given:
        given["path"] = paths[0]
        return
    yield f"load() takes one path, not {text}: load each snapshot by itself, and union the tables"


def _unknown(key: str) -> str:
    names = [name for name, _ in _named()]
    close = [name for name in nearest(key, names) if len(name) > 3 or len(key) <= 5]
    if not close:
        return f"there is no option '{key}'; options are {', '.join(names)}"
    return f"there is no option '{key}', did you mean {' or '.join(repr(name) for name in close)}?"


def _conflicts(values: Mapping[str, Any]) -> list[str]:
    named = [name for name, option in _named() if option.name in values]
    problems = []
    operators = [name for name in named if name in ("uid", "uidHash", "operatorName")]
    if len(operators) > 1:
        problems.append(f"options {_listed(operators)} each name the operator: give one of them")
    table = values.get("table")
    if table is not None and table not in KEYED_TABLES:
        useless = [name for name in named if name in ("keys", "keyGroups", "flatten") and values.get(name) is not False]
        if useless:
            problems.append(f"table '{table}' has no keys, so {_listed(useless)} cannot apply to it")
    return problems


def _listed(names: list[str]) -> str:
    return " and ".join(f"'{name}'" for name in names)


def _error(problems: list[str]) -> OptionError:
    if len(problems) == 1:
        return OptionError(problems[0])
    return OptionError(
        "\n".join([f"{len(problems)} things are wrong with the options:", *(f"  {p}" for p in problems)])
    )


assert all(option.default is not MISSING for name, option in _named() if name != "path")
