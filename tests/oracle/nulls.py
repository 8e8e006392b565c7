"""Where a NULL can be written: every type in every container, written by us and read by Flink's own serializers.

    python -m tests.oracle.nulls 2.3.0        # real Flink reads all NULLs that are written; prints the table

The table is in `formats/README.md`; a fast test compares it with what is written and refused.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa

from pyspark_savepoint.formats.columns import DecodeOptions
from pyspark_savepoint.formats.data_view import DataOutputView
from pyspark_savepoint.formats.errors import SavepointError
from pyspark_savepoint.formats.serializers.base import TypeSerializer, write_enveloped
from pyspark_savepoint.formats.serializers.notation.notation import parse_type
from pyspark_savepoint.statebackends.rows.state_entries import encode_column
from tests.oracle.flink import FlinkError, Oracle

NEWEST = (2, 3)
SIMPLE = (
    *("BOOLEAN", "BYTE", "SHORT", "INT", "LONG", "FLOAT", "DOUBLE", "CHAR", "STRING", "BIG_INTEGER", "BIG_DECIMAL"),
    *("DATE", "SQL_DATE", "SQL_TIME", "SQL_TIMESTAMP", "INSTANT", "LOCAL_DATE", "LOCAL_TIME", "LOCAL_DATE_TIME"),
    *("LONG_VALUE", "STRING_VALUE", "PRIMITIVE_ARRAY<BYTE>", "PRIMITIVE_ARRAY<LONG>", "BASIC_ARRAY<STRING>"),
)
COMPOSITES = (
    *("OBJECT_ARRAY<LONG>", "LIST<LONG>", "MAP<STRING, LONG>", "TUPLE<LONG, STRING>", "ROW<LONG, STRING>"),
    *("POJO<oracle.Model$Leaf>(weight LONG)", "ENUM<oracle.Model$Suit>(CLUBS, DIAMONDS, HEARTS, SPADES)"),
    *("EITHER<LONG, STRING>", "NULLABLE<LONG>", "NULLABLE<SQL_TIMESTAMP>"),
)
TYPES = (*SIMPLE, *COMPOSITES)

#: Containers: the type around a type, and a value around a value and another one.
CONTAINERS: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "a value": ("{}", lambda _other: None),
    "TUPLE": ("TUPLE<{}, LONG>", lambda _other: {"f0": None, "f1": 7}),
    "LIST": ("LIST<{}>", lambda other: [other, None, other]),
    "SET": ("SET<{}>", lambda _other: [None]),
    "value of a MAP": ("MAP<STRING, {}>", lambda other: [("a", None), ("b", other)]),
    "OBJECT_ARRAY": ("OBJECT_ARRAY<java.lang.Object>({})", lambda other: [other, None, other]),
    "ROW": ("ROW<{}, LONG>", lambda _other: {"f0": None, "f1": 7}),
    "NULLABLE": ("TUPLE<NULLABLE<{}>, LONG>", lambda _other: {"f0": None, "f1": 7}),
}


def other_value(kind: pa.DataType) -> Any:
    """A value of a column that is no null."""
    if pa.types.is_struct(kind):
        first, *rest = [(field.name, other_value(field.type)) for field in kind]
        either = [field.name for field in kind] == ["left", "right"]
        return dict([first]) if either else dict([first, *rest])
    if pa.types.is_map(kind):
        return [(other_value(kind.key_type), other_value(kind.item_type))]
    if pa.types.is_list(kind):
        return [other_value(kind.value_type)]
    if pa.types.is_boolean(kind):
        return True
    if pa.types.is_timestamp(kind):
        noon = datetime(2024, 2, 29, 12, tzinfo=UTC)
        return noon if kind.tz else noon.replace(tzinfo=None)
    if pa.types.is_date(kind):
        return date(2024, 2, 29)
    if pa.types.is_binary(kind):
        return b"b"
    if pa.types.is_string(kind):
        return "1"
    return 1


def other_of(serializer: TypeSerializer) -> Any:
    """The same, of a type: constants of enums have names."""
    if serializer.flink_type.startswith("ENUM"):
        return "HEARTS"
    return other_value(serializer.arrow_type(DecodeOptions()))


def written(text: str, container: str) -> tuple[TypeSerializer, bytes] | None:
    """The bytes of a value with a NULL of the type in it; None where it is refused."""
    around, value = CONTAINERS[container]
    inner, whole = parse_type(text, NEWEST), parse_type(around.format(text), NEWEST)
    column = pa.array([value(other_of(inner))], whole.arrow_type(DecodeOptions()))
    try:
        data, start, end = encode_column(whole, column)
    except SavepointError:
        return None
    return whole, data[start[0] : end[0]].tobytes()


def nulls_table() -> str:
    """What is written and what is refused, as Markdown."""
    lines = [f"| NULL of a type, in | {' | '.join(CONTAINERS)} |", "| --- |" + " --- |" * len(CONTAINERS)]
    for text in TYPES:
        cells = ["yes" if written(text, container) else "refused" for container in CONTAINERS]
        lines.append(f"| `{text.partition('(')[0] if '$' in text else text}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def mistakes(oracle: Oracle) -> list[str]:
    """What is written and Flink reads otherwise, or writes otherwise again."""
    found, asked = [], 0
    major = int(oracle.version.split(".")[0])
    for text in TYPES:
        for container in CONTAINERS:
            made = written(text, container)
            if made is None or (container == "SET" and major < 2):
                continue
            asked += 1
            serializer, data = made
            view = DataOutputView()
            write_enveloped(serializer, view)
            try:
                (read,) = oracle.serializer(view.getvalue(), [data])["values"]
            except FlinkError as error:
                found.append(f"{container} of {text}: {str(error)[:200]}")
                continue
            if read["again"] != data or "None" not in str(read["json"]):
                found.append(f"{container} of {text}: Flink reads {read['text']!r}, writes {read['again'].hex()}")
    print(f"{asked} asked, {len(found)} mistakes", file=sys.stderr)
    return found


def main() -> None:
    """The table, after Flink has read all of it."""
    for version in sys.argv[1:]:
        with Oracle(version) as oracle:
            found = mistakes(oracle)
        if found:
            sys.exit("\n".join([f"Flink {version} reads NULLs otherwise than they are written:", *found]))
    print(nulls_table())


if __name__ == "__main__":
    main()
