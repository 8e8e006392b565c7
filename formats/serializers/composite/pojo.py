"""Serializer of POJOs and Java records: named fields, each with a null flag, and subclasses.

    snapshot := version 2: utf class  OptMap fields  OptMap registeredSubclasses  OptMap otherSubclasses
                key frame of a field: utf declaringClass  utf fieldName; of a subclass: empty, the name is its class
    value    := u8 flags
                01 NULL: nothing more
                02 NO_SUBCLASS: every field in the order of the snapshot: u8 isNull, then the value unless null
                04 SUBCLASS: utf class, then the value of that other subclass
                08 TAGGED_SUBCLASS: u8 index, then the value of that registered subclass

Most subclasses are POJOs too, so their values begin with flags of their own. A POJO with subclasses becomes a struct
of the fields of all classes, with ``__class`` last (``Plan``). The snapshot contains a subclass that is not registered
only if the serializer wrote a value of it before the snapshot was taken. The hashmap backend writes with copies of its
serializers, so its snapshots lack such subclasses: their values are read if class files describe them (``inferred``),
which no snapshot gets.
Flink: ``PojoSerializer``, ``PojoSerializerSnapshot``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats import arrow_compute as pc
from pyspark_savepoint.formats.columns import (
    Cursors,
    DecodeOptions,
    Flags,
    Longs,
    filled_values,
    struct_array,
    valid_rows,
)
from pyspark_savepoint.formats.data_view import DataOutputView
from pyspark_savepoint.formats.encodings import UTF
from pyspark_savepoint.formats.errors import UndecodableStateError, ValueRangeError
from pyspark_savepoint.formats.java import decode_modified_utf8, encode_modified_utf8
from pyspark_savepoint.formats.serializers.base import TypeSerializer, flink_fields
from pyspark_savepoint.formats.serializers.basic.blobs import AfterRest, PartSerializer
from pyspark_savepoint.formats.serializers.basic.declared import DeclaredSerializer
from pyspark_savepoint.formats.serializers.basic.primitives import read_numbers
from pyspark_savepoint.formats.serializers.basic.shapes import Flagged, gather, naming
from pyspark_savepoint.formats.serializers.composite.optional_map import MEMBERS, Member
from pyspark_savepoint.formats.serializers.registry import register
from pyspark_savepoint.formats.structs import part, struct_with_dict

if TYPE_CHECKING:
    from pyspark_savepoint.formats.serializers.layout import Layout

POJO = "org.apache.flink.api.java.typeutils.runtime.PojoSerializerSnapshot"
NULL, NO_SUBCLASS, SUBCLASS, TAGGED_SUBCLASS = 1, 2, 4, 8
OWN = 0  # the branch of the POJO's own fields; those of subclasses follow, registered ones first
ABSENT = -1  # the branch of a null


@register(POJO)
@struct_with_dict
class PojoSerializer(DeclaredSerializer):
    """Serializer of a POJO class: its fields, registered subclasses and other subclasses."""

    class_name: str = part(UTF, "a POJO class")
    fields: tuple[Member, ...] = part(MEMBERS)
    registered: tuple[Member, ...] = part(MEMBERS, default=())
    others: tuple[Member, ...] = part(MEMBERS, default=())
    #: Subclasses that the snapshot lacks, as class files describe them; they are not written into snapshots.
    inferred: tuple[Member, ...] = ()
    snapshot_versions: ClassVar[tuple[int, ...]] = (2,)

    @property
    def subclasses(self) -> tuple[Member, ...]:
        """The registered subclasses by tag, then the others."""
        return self.registered + self.named

    @property
    def named(self) -> tuple[Member, ...]:
        """The subclasses that values name: they have no tags."""
        return self.others + self.inferred

    @property
    def children(self) -> tuple[TypeSerializer, ...]:
        """The serializers of the fields and of the subclasses."""
        return tuple(member.serializer for member in self.fields + self.subclasses)

    @property
    def java_class(self) -> str | None:
        return self.class_name

    @property
    def flink_type(self) -> str:
        """POJO<com.shop.Order>(id LONG, ...), followed by its subclasses if it has any."""
        fields = flink_fields([field.name for field in self.fields], [field.serializer for field in self.fields])
        registered, others = _subclass_types("REGISTERED", self.registered), _subclass_types("SUBCLASSES", self.others)
        return f"POJO<{self.class_name}>({fields}){registered}{others}"

    @classmethod
    def of(
        cls,
        class_name: str,
        fields: Mapping[str, TypeSerializer],
        registered: Mapping[str, TypeSerializer] | None = None,
        others: Mapping[str, TypeSerializer] | None = None,
    ) -> PojoSerializer:
        """Return a POJO as this package writes it, with its fields in the order of Java's strings.

        The class itself is recorded as the declaring class of all fields: Flink looks for them there and in its
        superclasses. Subclasses are keyed by class name, the registered ones in the order of their tags.
        """
        names = sorted(fields, key=lambda name: name.encode("utf-16-be"))
        members = tuple(Member(name, _field_key(class_name, name), fields[name]) for name in names)
        subclasses = [
            tuple(Member(name, b"", serializer) for name, serializer in (given or {}).items())
            for given in (registered, others)
        ]
        return cls(POJO, 2, class_name, members, *subclasses)

    @cached_property
    def plan(self) -> Plan:
        """Return the positions of the fields of every class in the struct."""
        plan = Plan()
        plan.add_class(self.class_name, [Column(f.name, _signature(f.serializer)) for f in self.fields])
        for member in self.subclasses:
            plan.add_class(member.name, _columns_of(member))
        if self.subclasses:
            plan.add_class_column()
        return plan

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        """Return a struct of the fields; with subclasses, of the fields of all classes and ``__class``."""
        columns, branches = self.plan.columns, self.plan.branches
        types: dict[int, pa.DataType] = {}
        for index, field in zip(branches[OWN].columns, self.fields, strict=True):
            types[index] = field.serializer.arrow_type(options)
        for member, branch in zip(self.subclasses, branches[1:], strict=True):
            kind = member.serializer.arrow_type(options)
            parts = [kind.field(k).type for k in range(len(branch.columns))] if _is_pojo(member) else [kind]
            for index, one in zip(branch.columns, parts, strict=True):
                types.setdefault(index, one)
        return pa.struct([pa.field(column.name, types.get(i, pa.string())) for i, column in enumerate(columns)])

    def layout(self, layout: Layout) -> int:
        from pyspark_savepoint.formats.kernels import skip

        parts = [member.serializer.layout(layout) for member in self.fields + self.registered]
        for member in self.named:
            parts += [layout.add(skip.NAME, *layout.name(member.name)), member.serializer.layout(layout)]
        return layout.add(skip.POJO, len(self.fields), len(self.registered), parts)

    def decode(self, at: Cursors) -> pa.Array:
        """Read one struct per row, class by class."""
        kind = self.arrow_type(at.options)
        branches = self._read_branches(at)
        pieces: list[list[tuple[Flags, pa.Array]]] = [[] for _ in kind]
        for number, branch in enumerate(self.plan.branches):
            mask = branches == number
            rows = np.flatnonzero(mask)
            if len(rows):
                sub = at.select(rows)
                for index, array in zip(branch.columns, self._read_branch(number, sub), strict=True):
                    pieces[index].append((mask, array))
                at.update(rows, sub)
        columns = [gather(field.type, parts, len(at)) for field, parts in zip(kind, pieces, strict=True)]
        if self.subclasses:
            names = pa.array([branch.class_name for branch in self.plan.branches], pa.string())
            columns[-1] = names.take(pa.array(branches, mask=branches == ABSENT))
        return struct_array(kind, columns, len(at), branches != ABSENT)

    def _read_branches(self, at: Cursors) -> Longs:
        flags = read_numbers(at, "read_i8", np.uint8, "the flags of a POJO")
        strange = np.flatnonzero(~np.isin(flags, (NULL, NO_SUBCLASS, SUBCLASS, TAGGED_SUBCLASS)))
        if len(strange):
            at.fail(int(strange[0]), "the flags of a POJO: 1, 2, 4 or 8", int(flags[strange[0]]))
        branches = np.where(flags == NULL, ABSENT, OWN).astype(np.int64)
        for flag, read in ((TAGGED_SUBCLASS, self._read_tags), (SUBCLASS, self._read_names)):
            rows = np.flatnonzero(flags == flag)
            if len(rows):
                sub = at.select(rows)
                branches[rows] = 1 + read(sub)
                at.update(rows, sub)
        return branches

    def _read_tags(self, at: Cursors) -> Longs:
        tags = read_numbers(at, "read_i8", np.uint8, "the tag of a subclass").astype(np.int64)
        beyond = np.flatnonzero(tags >= len(self.registered))
        if len(beyond):
            expected = f"the tag of one of {len(self.registered)} registered subclasses"
            at.fail(int(beyond[0]), expected, int(tags[beyond[0]]))
        return tags

    def _read_names(self, at: Cursors) -> Longs:
        from pyspark_savepoint.formats.kernels import strings

        member_names = [encode_modified_utf8(member.name) for member in self.named]
        offsets = np.concatenate(([0], np.cumsum([len(name) for name in member_names]))).astype(np.int64)
        before = at.position.copy()
        indices = np.empty(len(at), np.int64)
        table = np.frombuffer(bytearray(b"".join(member_names)), np.uint8)
        row = strings.match_names(at.buffer, at.position, at.end, offsets, table, indices)
        at.check(row, "the name of a subclass")
        unknown = np.flatnonzero(indices == strings.UNKNOWN_NAME)
        if len(unknown):
            first = int(unknown[0])
            self._unknown_class(at, first, at.buffer[before[first] + 2 : at.position[first]].tobytes())
        return indices + len(self.registered)

    def _unknown_class(self, at: Cursors, row: int, name: bytes) -> None:
        try:
            subclass = decode_modified_utf8(name)
        except ValueError:
            at.fail(row, "the name of a subclass", name[:40])
        raise UndecodableStateError(
            f"a value of {self.class_name} is of a subclass that the serializer snapshot does not describe",
            found=subclass,
            expected=", ".join(branch.class_name for branch in self.plan.branches),
            remedy='name the job\'s jar in option \'classes\', or read the state as bytes: option("raw", "<state>")',
        ).with_facts(**at.origin.facts(int(at.position[row])))

    def _read_branch(self, number: int, at: Cursors) -> list[pa.Array]:
        """Read the columns of the rows of one class."""
        if number == OWN:
            return [_read_field(field, at) for field in self.fields]
        member = self.subclasses[number - 1]
        with at.inside(simple_name(member.name)):
            column = member.serializer.decode(at)
            if column.null_count and not at.options.ends:
                at.fail(int(np.flatnonzero(~valid_rows(column))[0]), "a value of the subclass", "a null")
        if not _is_pojo(member):
            return [column]
        columns: list[pa.Array] = column.flatten()
        return columns[: len(self.plan.branches[number].columns)]

    def sizes(self, column: pa.Array) -> Longs:
        """Return the bytes of flags, class and fields of every row."""
        sizes = np.ones(len(column), np.int64)
        for number, rows, parts in self._branches_of(column):
            sizes[rows] += len(self._header(number)) - 1
            if number == OWN:
                for field, part in zip(self.fields, parts, strict=True):
                    with naming(field.name):
                        sizes[rows] += Flagged(field.serializer).sizes(part)
            else:
                sizes[rows] += self.subclasses[number - 1].serializer.sizes(self._join(number, parts, len(rows)))
        return sizes

    def encode(self, column: pa.Array, at: Cursors) -> None:
        absent = np.flatnonzero(~valid_rows(column))
        _write_constant(bytes([NULL]), at, absent)
        for number, rows, parts in self._branches_of(column):
            _write_constant(self._header(number), at, rows)
            sub = at.select(rows)
            if number == OWN:
                for field, part in zip(self.fields, parts, strict=True):
                    Flagged(field.serializer).encode(part, sub)
            else:
                self.subclasses[number - 1].serializer.encode(self._join(number, parts, len(rows)), sub)
            at.update(rows, sub)

    def _header(self, number: int) -> bytes:
        if number == OWN:
            return bytes([NO_SUBCLASS])
        if number <= len(self.registered):
            return bytes([TAGGED_SUBCLASS, number - 1])
        name = encode_modified_utf8(self.subclasses[number - 1].name)
        return bytes([SUBCLASS]) + len(name).to_bytes(2, "big") + name

    def _branches_of(self, column: pa.Array) -> Iterator[tuple[int, Longs, list[pa.Array]]]:
        """Yield the number, the rows and the columns of every class that occurs."""
        columns, branches = self.plan.columns, self.plan.branches
        chosen = self._chosen(column)
        for number, branch in enumerate(branches):
            rows = np.flatnonzero(chosen == number)
            if not len(rows):
                continue
            picked = column if len(rows) == len(column) else column.take(pa.array(rows))
            parts = [picked.field(index) for index in range(len(columns))]
            self._check_foreign_fields(branch, picked, parts)
            own = [parts[index] for index in branch.columns]
            if number != OWN and _has_class_column(self.subclasses[number - 1]):
                own.append(parts[-1])
            yield number, rows, own

    def _chosen(self, column: pa.Array) -> Longs:
        valid = valid_rows(column)
        if not self.subclasses:
            return np.where(valid, OWN, ABSENT)
        names = [branch.class_name for branch in self.plan.branches]
        indices = pc.index_in(column.field(len(self.plan.columns) - 1), pa.array(names, pa.string()))
        branches = filled_values(indices, np.int32, ABSENT).astype(np.int64)
        unknown = np.flatnonzero(valid & (branches == ABSENT))
        if len(unknown):
            value = column[int(unknown[0])].as_py()[self.plan.columns[-1].name]
            raise ValueRangeError(
                f"{CLASS_COLUMN} does not name a class of POJO<{self.class_name}>",
                found=value,
                expected=f"one of {', '.join(names)}",
            )
        return np.where(valid, branches, ABSENT)

    def _check_foreign_fields(self, branch: Branch, picked: pa.Array, parts: list[pa.Array]) -> None:
        """Raise ValueRangeError if a value would be lost because its field is not one of the class."""
        if not self.subclasses:
            return
        for index, column in enumerate(parts[:-1]):
            if index not in branch.columns and column.null_count < len(column):
                raise ValueRangeError(
                    f"{branch.class_name} has no field {self.plan.columns[index].name}",
                    expected="NULL",
                    found=next(value for value in column.to_pylist() if value is not None),
                    remedy=f"set it to NULL, or name its class in {CLASS_COLUMN}",
                )

    def _join(self, number: int, parts: list[pa.Array], rows: int) -> pa.Array:
        member = self.subclasses[number - 1]
        if not isinstance(member.serializer, PojoSerializer):
            return parts[0]
        names = [column.name for column in member.serializer.plan.columns]
        kind = pa.struct([pa.field(name, part.type) for name, part in zip(names, parts, strict=True)])
        return struct_array(kind, parts, rows)


def _subclass_types(word: str, members: Iterable[Member]) -> str:
    types = ", ".join(f"{member.name} {member.serializer.flink_type}" for member in members)
    return f" {word}({types})" if types else ""


def _field_key(class_name: str, name: str) -> bytes:
    view = DataOutputView()
    view.write_utf(class_name)
    view.write_utf(name)
    return view.getvalue()


def _is_pojo(member: Member) -> bool:
    return isinstance(member.serializer, PojoSerializer)


def _has_class_column(member: Member) -> bool:
    return isinstance(member.serializer, PojoSerializer) and bool(member.serializer.subclasses)


def _columns_of(member: Member) -> tuple[Column, ...]:
    """Return the columns that a subclass adds to the struct, without ``__class``: the outer ``__class`` covers it."""
    if not isinstance(member.serializer, PojoSerializer):
        return (Column(simple_name(member.name), _signature(member.serializer)),)
    columns = member.serializer.plan.columns
    return tuple(columns[:-1] if member.serializer.subclasses else columns)


def _signature(serializer: TypeSerializer) -> tuple[str, str]:
    """Return a key that is equal for fields that can share a column under all options."""
    return serializer.flink_type, str(serializer.arrow_type(DecodeOptions()))


def _read_field(field: Member, at: Cursors) -> pa.Array:
    serializer = field.serializer
    with at.inside(field.name):
        if isinstance(serializer, PartSerializer) and isinstance(serializer.part, AfterRest):
            return serializer.part.flagged().decode(at)
        return Flagged(serializer).decode(at)


def _write_constant(data: bytes, at: Cursors, rows: Longs) -> None:
    from pyspark_savepoint.formats.kernels import numbers

    sub = at.select(rows)
    offsets = np.arange(len(rows) + 1, dtype=np.int64) * len(data)
    numbers.write_bytes(sub.buffer, sub.position, offsets, np.tile(np.frombuffer(data, np.uint8), len(rows)))
    at.update(rows, sub)


# -- columns of a POJO with subclasses: the union of the fields of all classes ----------------------------------------
# Fields are in order of first appearance: those of the POJO, of the registered subclasses, of the other subclasses,
# then ``__class``. Fields of the same name share a column if their types are equal; else the later one is called
# ``name__Class``. A subclass that is not a POJO is one field with the simple name of the class.

CLASS_COLUMN = "__class"


@dataclass(frozen=True)
class Column:
    """Field of the struct; fields with equal name and ``signature`` share a column."""

    name: str
    signature: tuple[str, str]


@dataclass(frozen=True)
class Branch:
    """Possible class of a value, with the positions of its fields in the struct."""

    class_name: str
    columns: tuple[int, ...]


class Plan:
    """Columns and branches of the struct, built up class by class."""

    def __init__(self) -> None:
        self.columns: list[Column] = []
        self.branches: list[Branch] = []
        self._places: dict[str, int] = {}

    def add_class(self, class_name: str, fields: Iterable[Column]) -> None:
        """Add the fields of a class."""
        places: dict[int, None] = {}
        for field in fields:
            places[self._place(field, f"{field.name}__{simple_name(class_name)}", places.keys())] = None
        self.branches.append(Branch(class_name, tuple(places)))

    def add_class_column(self) -> None:
        """Add the column of the class name, after all fields."""
        self._append(Column(self._unused(CLASS_COLUMN), ("", "")))

    def _place(self, field: Column, otherwise: str, taken: Collection[int]) -> int:
        """Return the column of a field, new or shared, but none ``taken`` by another field of the same class."""
        for name in (field.name, otherwise):
            index = self._places.get(name)
            if index is None:
                return self._append(Column(name, field.signature))
            if self.columns[index].signature == field.signature and index not in taken:
                return index
        return self._append(Column(self._unused(otherwise), field.signature))

    def _append(self, column: Column) -> int:
        self._places[column.name] = len(self.columns)
        self.columns.append(column)
        return len(self.columns) - 1

    def _unused(self, name: str) -> str:
        candidate, number = name, 2
        while candidate in self._places:
            candidate = f"{name}_{number}"
            number += 1
        return candidate


def simple_name(class_name: str) -> str:
    """Return the last part of a class name.

    >>> simple_name("com.shop.Model$Order")
    'Order'
    """
    return class_name.rsplit(".", 1)[-1].rsplit("$", 1)[-1]
