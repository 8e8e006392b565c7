"""Values of tables in the words of `expected.json`: what Flink's own objects looked like when they were put in.

The type of a column is taken from its comment, which is in Flink's notation: `TUPLE<LONG, STRING>`,
`POJO<com.shop.Order>(id LONG, lines LIST<STRING>)`. Tables must be read with timestamps as Flink stores them, decimals
as text and row kinds.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql.types import VariantVal

from pyspark_savepoint.formats.columns import DecodeOptions

EXACT = DecodeOptions(timestamps="raw", decimals="string", row_kind=True)
TOKEN = re.compile(r"[^<>(), ]+|[<>(),]")
WORDS = {"PRIMITIVE_ARRAY": "PRIM", "OBJECT_ARRAY": "ARRAY", "BASIC_ARRAY": "ARRAY", "STRING_ARRAY": "ARRAY"}
NAMES = {"BIG_DECIMAL": "BIG_DEC", "BIG_INTEGER": "BIG_INT", "INTEGER": "INT"}
#: Their argument is a class.
OF_CLASS = ("POJO", "ENUM", "KRYO", "AUTO", "UNKNOWN")
#: Wrappers that add nothing to a value.
TRANSPARENT = ("TTL", "NULLABLE", "OPTION")


@dataclass(frozen=True)
class Kind:
    """A type: its name, its arguments with the names of fields where they have some, and the class."""

    name: str
    parts: tuple[Kind, ...] = ()
    fields: tuple[str, ...] = ()
    of: str = ""

    def __str__(self) -> str:
        """The type as a lab names it, without fields and packages, to be compared."""
        if self.of:
            return f"{self.name}<{self.of.rsplit('.')[-1].rsplit('$')[-1]}>"
        return f"{self.name}<{','.join(map(str, self.parts))}>" if self.parts else self.name


def parse(text: str) -> Kind:
    """The type of a notation, Flink's or a lab's."""
    tokens = TOKEN.findall(text)
    kind, rest = _kind(tokens)
    assert not rest, f"{rest} behind the type in {text}"
    return kind


def _kind(tokens: list[str]) -> tuple[Kind, list[str]]:
    name, rest = tokens[0], tokens[1:]
    parts: tuple[Kind, ...] = ()
    fields: tuple[str, ...] = ()
    of = ""
    if rest and rest[0] == "<":
        if name in OF_CLASS:
            of, rest = rest[1], rest[3:]
        else:
            parts, fields, rest = _arguments(rest[1:], ">")
    if rest and rest[0] == "(":
        inside, fields, rest = _arguments(rest[1:], ")")
        parts = parts or inside  # NULLABLE<T>(PADDED): how long a null is, no type
    while rest and rest[0] in ("REGISTERED", "SUBCLASSES"):
        _, _, rest = _arguments(rest[2:], ")")
    if name == "STRING_ARRAY":
        parts = (Kind("STRING"),)
    if name in ("NULLABLE", "TTL") and len(parts) == 1:
        return parts[0], rest
    return Kind(WORDS.get(name, NAMES.get(name, name)), parts, fields, of), rest


def _arguments(tokens: list[str], close: str) -> tuple[tuple[Kind, ...], tuple[str, ...], list[str]]:
    parts, fields = [], []
    while tokens[0] != close:
        if tokens[0] == ",":
            tokens = tokens[1:]
            continue
        if tokens[1] not in "<>(),":  # a name before the type
            fields.append(tokens[0])
            tokens = tokens[1:]
        part, tokens = _kind(tokens)
        parts.append(part)
    return tuple(parts), tuple(fields), tokens[1:]


def written(kind: Kind, value: Any) -> Any:
    """A value, as `pyarrow` gives it to Python, in the words of `expected.json`."""
    if value is None and kind.name != "GLOBAL_WINDOW":
        return None
    return WRITERS.get(kind.name, _plain)(kind, value)


def _plain(_kind: Kind, value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def _list(kind: Kind, values: Any) -> Any:
    return [written(kind.parts[0], value) for value in values]


def _array(kind: Kind, values: Any) -> Any:
    return {"hex": values.hex()} if isinstance(values, bytes) else _list(kind, values)


def _map(kind: Kind, entries: Any) -> Any:
    key, value = kind.parts
    return {"map": [[written(key, k), written(value, v)] for k, v in entries]}


def _tuple(kind: Kind, value: dict[str, Any]) -> Any:
    return [written(part, item) for part, item in zip(kind.parts, value.values(), strict=True)]


def _row(kind: Kind, value: dict[str, Any]) -> Any:
    row_kind = value.pop("__row_kind")
    return {"kind": row_kind, "row": _tuple(kind, value)}


def _pojo(kind: Kind, value: dict[str, Any]) -> Any:
    name = value.pop("__class", kind.of)
    kinds = dict(zip(kind.fields, kind.parts, strict=True))
    return {
        "class": name,
        "fields": {field: written(kinds.get(field, Kind("")), item) for field, item in value.items()},
    }


def _either(kind: Kind, value: dict[str, Any]) -> Any:
    side = "left" if value["right"] is None else "right"
    return {side: written(kind.parts[side == "right"], value[side])}


def _date(_kind: Kind, value: dict[str, int]) -> str:
    year = value["year"]
    years = f"+{year}" if year > 9999 else f"-{-year:04d}" if year < 0 else f"{year:04d}"
    return f"{years}-{value['month']:02d}-{value['day']:02d}"


def _clock(nano_of_day: int, seconds_always: bool = False) -> str:
    seconds, nanos = divmod(nano_of_day, 1_000_000_000)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}"
    if not (seconds % 60 or nanos or seconds_always):
        return text
    text += f":{seconds % 60:02d}"
    if not nanos:
        return text
    digits = f"{nanos:09d}"
    while digits.endswith("000"):
        digits = digits[:-3]
    return f"{text}.{digits}"


def _date_time(kind: Kind, value: dict[str, int]) -> str:
    return f"{_date(kind, value)}T{_clock(value['nano_of_day'])}"


def _instant(kind: Kind, value: dict[str, int]) -> str:
    days, second = divmod(value["seconds"], 86_400)
    date = dict(zip(("year", "month", "day"), _civil(days), strict=True))
    return f"{_date(kind, date)}T{_clock(second * 1_000_000_000 + value['nanos'], seconds_always=True)}Z"


def _civil(days: int) -> tuple[int, int, int]:
    """The date of a day since 1970, by walking: eras of 400 years, then years, then months."""
    era, day = divmod(days, 146_097)
    year = 1970 + 400 * era
    while day >= _days(year):
        day -= _days(year)
        year += 1
    month = 1
    for length in (31, 28 + (_days(year) == 366), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31):
        if day < length:
            break
        day -= length
        month += 1
    return year, month, day + 1


def _days(year: int) -> int:
    return 366 if year % 4 == 0 and (year % 100 or year % 400 == 0) else 365


def _duration(kind: Kind, value: dict[str, int]) -> dict[str, str]:
    minutes, seconds = divmod(value["seconds"], 60)
    assert 0 < minutes < 60, "this is all that the jobs have"
    fraction = f".{value['nanos']:09d}".rstrip("0") if value["nanos"] else ""
    return {"class": kind.of, "text": f"PT{minutes}M{seconds}{fraction}S"}


def _text(kind: Kind, value: str) -> dict[str, str]:
    return {"class": kind.of, "text": value}


def _sql_timestamp(_kind: Kind, value: dict[str, int]) -> dict[str, int]:
    return {"ms": value["seconds"] * 1000 + value["nanos"] // 1_000_000, "nanos": value["nanos"]}


def _kryo(kind: Kind, value: Any) -> Any:
    if is_variant(value):
        value = _variant(from_variant(value))
    writer = KRYO_WRITERS.get(kind.of, _plain)
    return writer(kind, value)


def is_variant(value: Any) -> bool:
    """Whether a value is what Arrow has of a VARIANT."""
    return isinstance(value, dict) and value.keys() == {"value", "metadata"}


def from_variant(value: dict[str, bytes]) -> Any:
    """A VARIANT as Spark gives it to Python."""
    return VariantVal(value["value"], value["metadata"]).toPython()


def _variant(value: Any) -> Any:
    if isinstance(value, dict):
        return {"map": [[key, _variant(item)] for key, item in value.items()]}
    return [_variant(item) for item in value] if isinstance(value, list) else value


KRYO_WRITERS: Mapping[str, Callable[[Kind, Any], Any]] = {
    "java.lang.StringBuilder": _text,
    "java.time.Duration": _duration,
    "java.time.Instant": _instant,
    "java.time.LocalDate": _date,
    "java.time.LocalDateTime": _date_time,
    "java.time.LocalTime": lambda _, value: _clock(value),
    "java.util.BitSet": lambda _, value: {"bits": value},
    "java.util.Currency": _text,
    "java.util.Date": lambda _, value: {"ms": value},
    "java.util.Set": lambda _, value: {"set": value},
    "java.util.Optional": lambda kind, value: {"class": kind.of, "fields": {"value": value}},
}
WRITERS: Mapping[str, Callable[[Kind, Any], Any]] = {
    "ARRAY": _array,
    "BIG_DEC": lambda _, value: str(value),
    "BIG_INT": lambda _, value: str(value),
    "DATE": lambda _, value: {"ms": value},
    "EITHER": _either,
    "GLOBAL_WINDOW": lambda *_: "GLOBAL",
    "INSTANT": _instant,
    "KRYO": _kryo,
    "LIST": _list,
    "LOCAL_DATE": _date,
    "LOCAL_DATE_TIME": _date_time,
    "LOCAL_TIME": lambda _, value: _clock(value),
    "MAP": _map,
    "POJO": _pojo,
    "PRIM": _array,
    "ROW": _row,
    "SET": lambda kind, value: {"set": _list(kind, value)},
    "SQL_DATE": lambda _, value: {"ms": value},
    "SQL_TIME": lambda _, value: {"ms": value},
    "SQL_TIMESTAMP": _sql_timestamp,
    "TIME_WINDOW": lambda _, value: [value["start"], value["end"]],
    "TUPLE": _tuple,
}
