"""Keys that are to be erased, as users give them, and as each operator has them."""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
import json
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_savepoint.erasure.patterns import AS_STORED, Encoding, Patterns, encodings_of
from pyspark_savepoint.formats.columns import Cursors, DecodeOptions, binary_parts
from pyspark_savepoint.formats.errors import OptionError, SavepointError, UndecodableStateError, did_you_mean, type_name
from pyspark_savepoint.plan.engine import Engine
from pyspark_savepoint.plan.keyed_edits import PLAIN, decode_options, python_key_type, stored_keys
from pyspark_savepoint.plan.operator_plan import OperatorPlan
from pyspark_savepoint.statebackends.merging.row_bytes import row_bytes
from pyspark_savepoint.statebackends.rows.entry_bytes import SERIALIZED_KEY
from pyspark_savepoint.statebackends.writing.entry_encoder import KeyEncoder
from pyspark_savepoint.text.texts import is_integer

KEY = "key"
#: In place of a value that a type cannot hold.
NONE = object()


@dataclass(frozen=True)
class SearchedKeys:
    """Keys, by the columns in which they were given."""

    columns: Mapping[str, Sequence[Any]] = field(repr=False)

    @classmethod
    def of(cls, engine: Engine, source: object) -> SearchedKeys:
        """Return keys of a list, or of rows; raise OptionError for anything else, or none at all."""
        if source is None:
            return cls({})
        if isinstance(source, list | tuple | set | frozenset | range):
            columns: dict[str, list[Any]] = {KEY: [_usual(value) for value in source]}
        else:
            rows = engine.rows(source)
            if rows is None:
                raise OptionError(
                    f"keys must be {engine.rows_are} or a list",
                    found=type_name(source),
                    remedy="erase(keys=[1042]), or erase(keys=rows.select('key'))",
                )
            collected = rows.collected()
            columns = {name: [row[name] for row in collected] for name in rows.schema.names}
        keys = {name: _distinct(values) for name, values in columns.items()}
        if not any(keys.values()):
            raise OptionError("there are no keys to erase", remedy="give at least one")
        return cls(keys)

    @classmethod
    def with_expressions(
        cls, engine: Engine, keys: object, by: Mapping[str, Any]
    ) -> tuple[SearchedKeys, dict[str, str | dict[str, str]]]:
        """Return keys with a column for each expression in ``by``, and ``by`` with the names of these columns."""
        named_columns: dict[str, str | dict[str, str]] = {}
        expressions: dict[str, Any] = {}

        def named(column: object, place: str) -> str:
            if isinstance(column, str):
                return column
            expressions[f"expression of {place}"] = column
            return f"expression of {place}"

        for uid, columns in by.items():
            if isinstance(columns, Mapping):
                named_columns[uid] = {path: named(column, f"{uid}: {path}") for path, column in columns.items()}
            else:
                named_columns[uid] = named(columns, uid)
        for name, expression in expressions.items():
            rows = engine.rows(pa.table({KEY: list(keys)}) if isinstance(keys, list | tuple) else keys)
            keys = None if rows is None else engine.with_column(rows, name, expression)
            if keys is None:
                raise OptionError(
                    f"by has an {name!r} that is neither a name nor an expression on columns of the keys",
                    found=type_name(expression),
                    expected="the name of a column, an expression of pyarrow.compute or, with Spark, a column",
                    remedy="give keys as rows, and by={'UID': 'COLUMN'} or pyarrow.compute.field('id') + 1",
                )
        return cls.of(engine, keys), named_columns

    @property
    def values(self) -> list[Any]:
        """All values, of all columns."""
        return _distinct([value for values in self.columns.values() for value in values])

    def column(self, name: str | None, operator: str) -> Sequence[Any]:
        """Return the values of a column; by default of ``key``, or of the only one."""
        if not self.columns:
            return ()
        if name is None and len(self.columns) > 1 and KEY not in self.columns:
            raise OptionError(
                "the keys have several columns, and none is 'key'",
                operator=operator,
                found=", ".join(self.columns),
                remedy=f"by={{{operator!r}: 'COLUMN'}} names the column of the operator's keys",
            )
        column_name = name if name is not None else KEY if KEY in self.columns else next(iter(self.columns))
        if column_name not in self.columns:
            raise OptionError(
                f"the keys have no column {column_name!r}",
                operator=operator,
                remedy=did_you_mean(column_name, self.columns),
            )
        return self.columns[column_name]

    def patterns(self) -> Patterns:
        """Return the bytes that the values may have."""
        patterns = Patterns()
        for value in self.values:
            patterns.add(encodings_of(value))
        return patterns

    def hashes(self, salt: bytes) -> list[str]:
        """Return a salted hash of each value, in order of the hashes."""
        return sorted(_hashed(salt, value) for value in self.values)

    def as_hashed(self, hashes: Collection[str], salt: bytes) -> SearchedKeys:
        """Return the keys in the forms, numbers or their texts, of which another place has exactly these hashes.

        The command line takes a word for both, and rows have one of them. These keys themselves, if they are others.
        """
        columns: dict[str, Sequence[Any]] = {}
        wanted = frozenset(hashes)
        for name, values in self.columns.items():
            forms = [[form for form in _forms(value) if _hashed(salt, form) in wanted] for value in values]
            if not all(forms):
                return self
            columns[name] = _distinct([form for several in forms for form in several])
        in_these_forms = SearchedKeys(columns)
        return in_these_forms if in_these_forms.hashes(salt) == sorted(hashes) else self


def _hashed(salt: bytes, value: object) -> str:
    return salted(salt, [type(value).__name__, _plain(value)])


def _forms(value: object) -> tuple[object, ...]:
    """Return a key with its other form: the text of a number, or the number of a text.

    >>> _forms(7), _forms("7"), _forms("07"), _forms(True)
    ((7, '7'), ('7', 7), ('07',), (True,))
    """
    if type(value) is int:
        return value, str(value)
    if isinstance(value, str) and is_integer(value):
        return value, int(value)
    return (value,)


def salted(salt: bytes, value: object) -> str:
    """Return the HMAC-SHA-256 of a value of JSON, by which it can be recognised but not read.

    >>> salted(b"1", "a") == salted(b"1", "a") != salted(b"2", "a")
    True
    """
    return hmac.new(salt, json.dumps(value, sort_keys=True).encode(), hashlib.sha256).hexdigest()


def _usual(value: Any) -> Any:
    """Return a value of NumPy or Arrow, or of changeable bytes, as one of Python's own types.

    >>> _usual(np.int64(7)), _usual(bytearray(b"a"))
    (7, b'a')
    """
    if isinstance(value, np.datetime64):
        return pa.scalar(value).as_py()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, pa.Scalar):
        return value.as_py()
    return bytes(value) if isinstance(value, bytearray | memoryview) else value


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return str(value.astimezone(dt.UTC))
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value if isinstance(value, int | float | bool | str | None) else str(value)


def _distinct(values: Sequence[Any]) -> list[Any]:
    """Return values once, 1 and "1" and True apart; NULL is not a key."""
    by_type_and_text = {(type(value).__name__, repr(value)): value for value in values if value is not None}
    return list(by_type_and_text.values())


def fitting(value: Any, kind: pa.DataType) -> Any:
    """Return a key as a value of a type, :data:`NONE` if the type cannot hold it. Nothing is cast: 1 is not "1".

    >>> fitting(1, pa.int64()), fitting("1", pa.int64()) is NONE, fitting(1 << 40, pa.int32()) is NONE
    (1, True, True)
    >>> fitting(dt.datetime(2026, 1, 1), pa.date32()) is NONE
    True
    """
    types = pa.types
    if types.is_struct(kind):
        names = [kind.field(number).name for number in range(kind.num_fields)]
        if isinstance(value, Mapping):
            parts = [value.get(name, NONE) for name in names] if set(value) <= set(names) else []
        else:
            parts = list(value) if isinstance(value, list | tuple) else []
        if len(parts) != len(names):
            return NONE
        fitted = {
            name: None if part is None else fitting(part, kind.field(number).type)
            for number, (name, part) in enumerate(zip(names, parts, strict=True))
        }
        return NONE if any(part is NONE for part in fitted.values()) else fitted
    if types.is_list(kind):
        parts = [fitting(part, kind.value_type) for part in value] if isinstance(value, list | tuple) else [NONE]
        return NONE if any(part is NONE for part in parts) else parts
    allowed: tuple[tuple[Callable[[pa.DataType], bool], tuple[type, ...]], ...] = (
        (types.is_boolean, (bool,)),
        (types.is_integer, (int,)),
        (types.is_decimal, (Decimal, int)),
        (types.is_floating, (float,)),
        (types.is_string, (str, uuid.UUID)),
        (types.is_binary, (bytes,)),
        (types.is_timestamp, (dt.datetime,)),
        (types.is_date, (dt.date,)),
        (types.is_time, (dt.time,)),
    )
    fits = next((kinds for is_kind, kinds in allowed if is_kind(kind)), ())
    if not isinstance(value, fits) or (isinstance(value, bool) and bool not in fits):
        return NONE
    if isinstance(value, dt.datetime) and not (
        types.is_timestamp(kind) and (value.tzinfo is None) == (kind.tz is None)
    ):
        return NONE  # Arrow would take its day alone, or a moment for a time of some zone
    value = str(value) if isinstance(value, uuid.UUID) else value
    try:
        pa.scalar(value, kind)
    except (pa.ArrowException, OverflowError, ValueError):
        return NONE
    return value


@dataclass
class KeysOfOperator:
    """The keys of one operator that are erased.

    Keys are compared by the bytes that the operator stores. Where a type can be read and not written (some of Kryo's),
    they are compared as values, and :meth:`find` takes their bytes from the state.
    """

    plan: OperatorPlan
    kind: pa.DataType
    #: The type of the column in which tables show the keys: that of times is not the one by which they are compared.
    column_type: pa.DataType
    #: Whether the bytes of any key can be made.
    written: bool
    stored: pa.Array
    #: Keys that are compared as values, and their bytes as rows by the type of a column.
    values: list[Any] = field(default_factory=list, repr=False)
    by_type: dict[pa.DataType, pa.Array] = field(default_factory=dict, repr=False)
    #: How many of the given keys the type can hold, and cannot.
    fits: int = 0
    misfits: int = 0
    #: Why keys cannot be removed: their bytes cannot be found.
    problem: str | None = None

    @classmethod
    def of(cls, plan: OperatorPlan) -> KeysOfOperator | None:
        """Return no keys of an operator; None if it has no keyed state."""
        if plan.key_serializer is None:
            return None
        opaque = bool(plan.key_serializer.opaque_parts())
        kind = pa.binary() if opaque else python_key_type(plan) or plan.key_serializer.arrow_type(PLAIN)
        arrow_type = kind if opaque or python_key_type(plan) else plan.key_serializer.arrow_type(DecodeOptions())
        keys = cls(plan, kind, arrow_type, True, pa.array([], pa.binary()))
        try:
            keys.encoded(pa.record_batch([pa.array([], kind)], [KEY]))
        except UndecodableStateError:
            keys.written = False
        return keys

    @property
    def opaque(self) -> bool:
        """Whether only the job's own serializer can read the keys, or parts of them."""
        assert self.plan.key_serializer is not None
        return bool(self.plan.key_serializer.opaque_parts())

    @property
    def table(self) -> pa.Table:
        """The bytes of the keys as rows."""
        return pa.table({SERIALIZED_KEY: self.stored})

    @property
    def any(self) -> bool:
        """Whether there are keys of the operator's type."""
        return bool(len(self.stored) or self.values)

    def encoded(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the bytes of the keys of a batch."""
        assert self.plan.key_serializer is not None
        (keys,) = KeyEncoder(self.plan.key_serializer, (KEY,), (), self.plan.label)(
            iter([stored_keys(self.plan, batch.select([KEY]))])
        )
        return keys.column(SERIALIZED_KEY).cast(pa.binary())

    def add_values(self, values: Sequence[Any]) -> None:
        """Add those of the given keys that the operator can have."""
        before, left = self.fits, values
        for kind in dict.fromkeys((self.kind, self.column_type)):
            fitted = [(value, fitting(value, kind)) for value in left]
            self._add_fitted([value for _, value in fitted if value is not NONE], kind)
            left = [value for value, of_kind in fitted if of_kind is NONE]
        self.misfits += len(values) - (self.fits - before)

    def _add_fitted(self, values: list[Any], kind: pa.DataType) -> None:
        try:
            self._add(pa.array(values, kind))
            self.fits += len(values)
        except SavepointError:
            # A type that has some values only, such as an enum.
            for value in values:
                try:
                    self._add(pa.array([value], kind))
                    self.fits += 1
                except SavepointError:
                    continue

    def add_rows(self, rows: pa.RecordBatch) -> None:
        """Add the keys of rows of the operator's tables."""
        if len(rows):
            self._add(rows.column(KEY))

    def _add(self, keys: pa.Array) -> None:
        if not self.written:
            self.values = _distinct([*self.values, *keys.to_pylist()])
            self.by_type.clear()
            return
        self._add_stored(self.encoded(pa.record_batch([keys], [KEY])))

    def _add_stored(self, stored: pa.Array) -> None:
        new = pc.unique(stored)
        self.stored = pa.concat_arrays([self.stored, new.filter(pc.invert(pc.is_in(new, value_set=self.stored)))])

    def mask(self, batch: pa.RecordBatch) -> pa.Array:
        """Return which rows of a batch have one of the keys; a NULL is none."""
        keys = batch.column(KEY)
        if not self.written:
            return self._among(keys)
        if not len(self.stored):
            return pa.repeat(pa.scalar(False), len(batch))
        if not keys.null_count:
            return pc.is_in(self.encoded(batch), value_set=self.stored)
        valid = keys.is_valid()
        mask = self.mask(batch.filter(valid))
        places = pc.subtract(pc.cumulative_sum(valid.cast(pa.int64())), 1)
        return pc.if_else(valid, mask.take(pc.if_else(valid, places, None)), False)

    def _among(self, keys: pa.Array) -> pa.Array:
        if keys.type not in self.by_type:
            fitted = [value for value in (fitting(value, keys.type) for value in self.values) if value is not NONE]
            self.by_type[keys.type] = row_bytes([pa.array(fitted, keys.type)])
        return pc.is_in(row_bytes([keys]), value_set=self.by_type[keys.type])

    def find(self, stored: Iterable[pa.Array]) -> None:
        """Take the bytes of the keys from those of all keys in the state."""
        assert self.plan.key_serializer is not None
        options = decode_options(self.plan)
        for column in stored:
            some = pc.unique(column)
            offsets, data = binary_parts(some)
            at = Cursors(data.copy(), offsets[:-1].copy(), offsets[1:], options=options)
            self._add_stored(some.filter(self._among(self.plan.key_serializer.decode(at))))

    def patterns(self) -> Iterator[tuple[bytes, Encoding]]:
        """Yield the bytes of the keys as the operator stores them."""
        for stored in self.stored.to_pylist():
            yield stored, Encoding(AS_STORED)
