"""Description of the key of a write: its columns, its serializer, and whether Flink accepts it as a key.

The Java hash of a key decides its key group. It is computed if the data define it; if only user code defines it
(POJOs, lists of enums, Kryo, Avro), the DataFrame must have a column of key groups. Flink itself rejects arrays and
enums as keys. Flink: ``KeyedStream#validateKeyType``, ``KeyGroupRangeAssignment``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from pyspark_savepoint.formats.columns import DecodeOptions
from pyspark_savepoint.formats.errors import OptionError, SavepointError, UndecodableStateError, did_you_mean
from pyspark_savepoint.formats.serializers.basic.arrays import PrimitiveArraySerializer, StringArraySerializer
from pyspark_savepoint.formats.serializers.basic.blobs import BYTES
from pyspark_savepoint.formats.serializers.basic.enums import EnumSerializer
from pyspark_savepoint.formats.serializers.basic.primitives import NumberSerializer
from pyspark_savepoint.formats.serializers.basic.strings import StringSerializer
from pyspark_savepoint.formats.serializers.composite.collections import GenericArraySerializer
from pyspark_savepoint.formats.serializers.composite.fields import FieldsSerializer, RowSerializer, TupleSerializer
from pyspark_savepoint.formats.serializers.notation.notation import MAX_TUPLE
from pyspark_savepoint.formats.serializers.sql.rowdata import RowDataSerializer
from pyspark_savepoint.statebackends.writing.planning.exact_casts import (
    check_writable,
    expect_column,
    fits,
    form_of,
    places_of,
)
from pyspark_savepoint.statebackends.writing.planning.flink_types import default_serializer, type_of
from pyspark_savepoint.statebackends.writing.planning.operator_types import inference_of

if TYPE_CHECKING:
    from pyspark_savepoint.formats.serializers.base import TypeSerializer
    from pyspark_savepoint.statebackends.writing.planning.write_request import WriteSpec

KEY = "key"


@dataclass(frozen=True)
class Key:
    """Key of a write. ``composite``: the key is a struct of the columns, even of a single one."""

    columns: tuple[str, ...]
    serializer: TypeSerializer
    composite: bool


def key_columns(schema: pa.Schema, request: WriteSpec) -> tuple[str, ...]:
    """Return the columns of option ``key``, by default ``key``."""
    names = request.key or (KEY,)
    for name in names:
        if name not in schema.names:
            raise OptionError(
                f"there is no column {name!r} for the key",
                operator=request.operator or None,
                found=f"columns {', '.join(map(repr, schema.names))}" if schema.names else "rows without a column",
                remedy=f"option('key', ...) names it; {did_you_mean(name, schema.names)}" if schema.names else None,
            )
    if len(set(names)) < len(names):
        raise OptionError("option 'key' names a column twice", found=", ".join(names))
    return tuple(names)


def describe_key(
    schema: pa.Schema, request: WriteSpec, bound: TypeSerializer | None, serializer: TypeSerializer | None
) -> Key:
    """Describe the key; ``bound`` is the operator's existing serializer, ``serializer`` one from another source."""
    columns = key_columns(schema, request)
    try:
        key = _Describer(schema, request, columns).key(bound or serializer)
        if bound is None:
            _refuse_no_key(key.serializer)
        _check_hash(key, schema, request)
    except SavepointError as error:
        raise error.with_facts(operator=request.operator or None) from None
    return key


class _Describer:
    """Columns and options of one key."""

    def __init__(self, schema: pa.Schema, request: WriteSpec, columns: tuple[str, ...]) -> None:
        self.schema = schema
        self.request = request
        self.columns = columns
        self.version = request.restoring_flink
        self.texts = request.types
        self.inference = inference_of(request)
        #: All columns as one struct.
        self.whole = pa.struct([schema.field(name) for name in columns])

    def key(self, serializer: TypeSerializer | None) -> Key:
        text = self.texts.get(KEY)
        if len(self.columns) == 1:
            text = self.texts.get(self.columns[0], text)
        if text is not None:
            return self.fitted(type_of(text, KEY, self.version, self.inference, self.request.serializers))
        if serializer is not None and not any(name in self.texts for name in self.columns):
            return self.fitted(serializer)
        if len(self.columns) == 1:
            return self.fitted(self.default(self.whole.field(0)))
        return self.tuple()

    def tuple(self) -> Key:
        if len(self.columns) > MAX_TUPLE:
            raise OptionError(
                f"a key of {len(self.columns)} columns exceeds the {MAX_TUPLE} fields of a tuple",
                remedy="""name its type: option("types", '{"key": "ROW<...>"}')""",
            )
        return self.fitted(TupleSerializer.of(*map(self.default, self.whole)))

    def default(self, field: pa.Field) -> TypeSerializer:
        """Return the type of one column, from its own entry in ``types`` or the default."""
        return default_serializer(
            field.type, field.name, self.version, self.texts, self.inference, self.request.serializers
        )

    def fitted(self, serializer: TypeSerializer) -> Key:
        """Return the key with its columns in the order of the serializer's fields."""
        if isinstance(serializer, RowDataSerializer):
            serializer = serializer.as_key()
        if len(self.columns) == 1:
            kind = self.whole.field(0).type
            whole = serializer.arrow_type(DecodeOptions())
            if not (pa.types.is_struct(whole) and whole.num_fields == 1 and not fits(kind, serializer)):
                check_writable(kind, serializer, self.columns[0])
                return Key(self.columns, serializer, composite=False)
            # One field and one column match regardless of their names.
            check_writable(pa.struct([(whole.field(0).name, kind)]), serializer, self.columns[0])
            return Key(self.columns, serializer, composite=True)
        check_writable(self.whole, serializer, KEY)
        places = places_of(self.whole, form_of(self.whole, serializer, KEY))
        return Key(tuple(self.columns[index] for index in places or ()), serializer, composite=True)


def _check_hash(key: Key, schema: pa.Schema, request: WriteSpec) -> None:
    """Raise an error if key groups can neither be computed nor read from a column."""
    column = request.key_group
    if column is not None:
        expect_column(schema, column, "the key group of every row, an integer")
        if not pa.types.is_integer(schema.field(column).type):
            raise OptionError(
                f"column {column!r} of option 'keyGroup' is not an integer", found=str(schema.field(column).type)
            )
        return
    if type(key.serializer) in (NumberSerializer, StringSerializer):
        return
    kinds = [schema.field(name).type for name in key.columns]
    kind = key_struct(key.serializer, kinds) if key.composite else kinds[0]
    try:
        key.serializer.java_hash(pa.array([], form_of(kind, key.serializer, KEY)))
    except UndecodableStateError:
        raise UndecodableStateError(
            f"the key groups of {key.serializer.flink_type} cannot be computed: its hashCode is defined by the job's "
            f"own code",
            expected="a key whose hash its data define: numbers, strings, times, tuples, rows, lists of these",
            remedy="add a column with the key group of every row, "
            "KeyGroupRangeAssignment.assignToKeyGroup(key, maxParallelism), and name it: option('keyGroup', ...)",
        ) from None


def key_struct(serializer: TypeSerializer, kinds: Sequence[pa.DataType]) -> pa.StructType:
    """Return the struct of a composite key's columns, with the order and names of the serializer's fields."""
    whole = serializer.arrow_type(DecodeOptions())
    return pa.struct([(whole.field(index).name, kind) for index, kind in enumerate(kinds)])


def _refuse_no_key(serializer: TypeSerializer) -> None:
    """Raise OptionError for types that Flink's ``keyBy`` rejects, even if key groups are given."""
    refused = _refused_in(serializer)
    if refused is None:
        return
    what, remedy = "array", "key by its content: a LIST, a STRING, or columns of their own"
    if isinstance(refused, EnumSerializer):
        what, remedy = "enum", "key by its name, a STRING: keyBy(value -> value.name()) in the job"
    raise OptionError(
        f"a key of {serializer.flink_type} is refused by Flink: {refused.flink_type} is an {what}, "
        "whose hashCode differs between objects or JVMs",
        remedy=remedy,
    )


def _refused_in(serializer: TypeSerializer, in_row: bool = False) -> TypeSerializer | None:
    """Return the array or enum in a key where Flink checks for one: the key, and fields of tuples and rows."""
    if serializer.snapshot_class == BYTES:
        return None if in_row else serializer  # PyFlink's keys are rows of byte arrays
    if isinstance(serializer, PrimitiveArraySerializer | StringArraySerializer | GenericArraySerializer):
        return serializer
    if type(serializer) is EnumSerializer:
        return serializer
    if isinstance(serializer, FieldsSerializer | RowSerializer):
        inner = (_refused_in(field, isinstance(serializer, RowSerializer)) for field in serializer.nested)
        return next((refused for refused in inner if refused is not None), None)
    return None
