"""Small inputs that declare large sizes: the cost of a count or a reference is bounded by the bytes."""

from __future__ import annotations

import json
import struct
import tracemalloc
from collections.abc import Callable
from contextlib import suppress

import pytest

from pyspark_savepoint.formats.columns import Cursors
from pyspark_savepoint.formats.data_view import DataInputView
from pyspark_savepoint.formats.errors import CorruptStateError, ValueRangeError
from pyspark_savepoint.formats.kernels.skip import MAX_EMPTY
from pyspark_savepoint.formats.serializers.avro.serializer import SchemaError, read_schema
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.layout import skip_rows
from pyspark_savepoint.formats.serializers.notation.notation import parse_type
from pyspark_savepoint.formats.serializers.sql.logical_types import EmbeddedType
from tests.formats.serializers.codec_checks import decode
from tests.processor_time import processor_seconds

MEGABYTES = 1 << 20


def serializer(text: str) -> TypeSerializer:
    return parse_type(text, (2, 3))


def ints(*values: int) -> bytes:
    return struct.pack(f">{len(values)}i", *values)


def cost(work: Callable[[], object]) -> tuple[float, int]:
    """Processor seconds and bytes of Python and numpy at the peak; a refusal is as good as a result."""

    def run() -> None:
        with suppress(CorruptStateError, ValueRangeError):
            work()

    seconds = processor_seconds(run)
    tracemalloc.start()
    run()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return seconds, peak


AVRO_ARRAYS = json.dumps({"type": "array", "items": {"type": "array", "items": "null"}})
LARGE = 63
CLAIMS = {
    "LIST<LIST<CASE_CLASS<com.A>()>>": ints(LARGE, *[1 << 18] * LARGE),
    "LIST<LIST<LIST<CASE_CLASS<com.A>()>>>": ints(1, LARGE, *[1 << 18] * LARGE),
    "LIST<VALUE_ARRAY<NULL_VALUE>>": ints(LARGE, *[1 << 18] * LARGE),
    "LIST<LIST<NULL_VALUE>>": ints(LARGE, *[1 << 18] * LARGE),
    f"AVRO<'{AVRO_ARRAYS}'>": b"\x3f" + b"\x80\x80\x10\0" * LARGE + b"\0",
}


@pytest.mark.parametrize("text", CLAIMS)
def test_elements_of_no_bytes_cost_next_to_nothing(text: str) -> None:
    reader = serializer(text)
    seconds, peak = cost(lambda: decode(reader, CLAIMS[text]))
    assert seconds < 0.5
    assert peak < 40 * MEGABYTES
    seconds, peak = cost(lambda: skip_rows(reader, Cursors.over([CLAIMS[text]] * 100)))
    assert seconds < 0.05
    assert peak < MEGABYTES


def test_a_list_of_elements_of_no_bytes_reads() -> None:
    column = decode(serializer("LIST<CASE_CLASS<com.A>()>"), *[ints(5000)] * 40)
    assert column.value_lengths().to_pylist() == [5000] * 40
    with pytest.raises(ValueRangeError, match="have no bytes") as caught:
        decode(serializer("LIST<CASE_CLASS<com.A>()>"), *[ints(5000)] * (MAX_EMPTY // 5000 + 2))
    assert "batchSize" in str(caught.value)


def test_null_structs_of_many_fields_are_refused() -> None:
    """Nulls of one byte each, which would be a thousand columns each."""
    fields = ", ".join(f"f{i} LONG" for i in range(1000))
    reader = serializer(f"LIST<POJO<A>({fields})>")
    value = ints(20_000) + b"\1" * 20_000
    _, peak = cost(lambda: decode(reader, value))
    assert peak < 40 * MEGABYTES


class JavaStream:
    """Writes rows of SQL as Java objects that share their parts."""

    def __init__(self) -> None:
        self.data = bytearray(b"\xac\xed\0\5")
        self.handles = 0
        self.descriptions: dict[str, int] = {}

    def utf(self, text: str) -> bytes:
        return len(text).to_bytes(2, "big") + text.encode()

    def handle(self) -> int:
        self.handles += 1
        return self.handles - 1

    def reference(self, handle: int) -> None:
        self.data += b"\x71" + (0x7E0000 + handle).to_bytes(4, "big")

    def describe(self, name: str, flags: int, fields: str) -> None:
        if name in self.descriptions:
            self.reference(self.descriptions[name])
            return
        self.descriptions[name] = self.handle()
        self.data += b"\x72" + self.utf(name) + bytes(8) + bytes([flags]) + len(fields.split()).to_bytes(2, "big")
        for field in fields.split():
            self.data += field[0].encode() + self.utf(field[1:])
            if field[0] in "L[":
                self.handle()
                self.data += b"\x74" + self.utf("Lx;")
        self.data += b"\x78\x70"

    def begin(self, name: str, fields: str = "", flags: int = 2, tag: int = 0x73) -> int:
        self.data.append(tag)
        self.describe(name, flags, fields)
        return self.handle()

    def root(self, name: str) -> None:
        self.begin("org.apache.flink.table.types.logical.LogicalTypeRoot", flags=18, tag=0x7E)
        self.handle()
        self.data += b"\x74" + self.utf(name)

    def row(self, depth: int, name: str) -> int:
        """A row of two fields, both of one row, down to an INT."""
        package = "org.apache.flink.table.types.logical."
        if not depth:
            number = self.begin(package + "IntType", "ZisNullable LtypeRoot")
            self.data += b"\1"
            self.root("INTEGER")
            return number
        number = self.begin(package + "RowType", "ZisNullable LtypeRoot Lfields")
        self.data += b"\1"
        self.root("ROW")
        self.begin("java.util.Arrays$ArrayList", "[a")
        self.begin("[Lx;", tag=0x75)
        self.data += ints(2)
        inner = 0
        for field in range(2):
            self.begin(package + "RowType$RowField", "Lname Ltype")
            self.handle()
            self.data += b"\x74" + self.utf(name + str(field))
            if field:
                self.reference(inner)
            else:
                inner = self.row(depth - 1, name)
        return number


def shared_rows(depth: int, name: str = "f") -> bytes:
    stream = JavaStream()
    stream.row(depth, name)
    return bytes(stream.data)


def test_logical_types_that_share_their_parts_are_read_as_far_as_bytes_pay() -> None:
    assert str(EmbeddedType.read(DataInputView(shared_rows(2))).kind) == (
        "ROW<`f0` ROW<`f0` INT, `f1` INT>, `f1` ROW<`f0` INT, `f1` INT>>"
    )
    assert len(shared_rows(13)) < 3500
    with pytest.raises(CorruptStateError, match="logical type"):
        EmbeddedType.read(DataInputView(shared_rows(13)))
    with pytest.raises(CorruptStateError, match="logical type"):
        EmbeddedType.read(DataInputView(shared_rows(9, "n" * 500)))


def test_a_namespace_is_not_repeated_without_bound() -> None:
    inner = [{"name": f"f{i}", "type": {"type": "record", "name": f"r{i}", "fields": []}} for i in range(300)]
    schema = {"type": "record", "name": "outer", "namespace": "n" * 30_000, "fields": inner}
    with pytest.raises(SchemaError, match="namespace"):
        read_schema(json.dumps(schema))
