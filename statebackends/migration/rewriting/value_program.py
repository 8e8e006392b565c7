"""Programs that rewrite values: all bytes are copied, except those of some parts of the serializer.

A program is made of the layout of a serializer (``formats/serializers/layout.py``), in which the parts to rewrite are
nodes of their own. It follows the layout through a value, hands each such part to its function, and copies what is
between them. So the bytes of parts that need no change are not decoded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import Cursors, DecodeOptions
from pyspark_savepoint.formats.data_view import DataOutputView
from pyspark_savepoint.formats.errors import CorruptStateError, UndecodableStateError
from pyspark_savepoint.formats.java import decode_modified_utf8
from pyspark_savepoint.formats.serializers.base import SnapshotReader, TypeSerializer
from pyspark_savepoint.formats.serializers.composite.pojo import PojoSerializer
from pyspark_savepoint.formats.serializers.layout import UNKNOWN, Layout
from pyspark_savepoint.statebackends.types.serializer_parts import Path, with_parts

#: Operation of a node whose value is rewritten by function ``a``; ``kernels.skip`` has smaller numbers.
REWRITTEN = 1000
#: Operation of a node whose value Java cannot hold as null (``a`` is 1), or perhaps not (0): a field of a POJO.
PRIMITIVE = 1001
#: Function that appends the new bytes of the value at a position to the output, and returns the position after it.
Rewrite = Callable[[bytes, int, bytearray], int]
SkipNode = Callable[["_Value", int], int]
#: Returns the program of a POJO's subclass that its snapshot does not list, by the name in a value; None if unknown.
SubclassOf = Callable[[str], "ValueProgram | None"]
#: Returns whether a field of a class is primitive, which Java cannot set to null; None if that is unknown.
IsPrimitive = Callable[[str, str], "bool | None"]
#: Types of Flink of primitive fields, and of fields of their boxes.
PRIMITIVES = frozenset({"BOOLEAN", "BYTE", "SHORT", "INT", "LONG", "FLOAT", "DOUBLE", "CHAR"})
PLAIN = DecodeOptions(timestamps="raw", decimals="string")


WRITTEN_OTHERWISE = (
    "the snapshot is damaged, or another version of Kryo wrote it, or classes or kryo_types do not describe the "
    "classes of the job that wrote it (only its class file has the fields of an inner class)"
)
#: Bytes before a value that is misread as one that is not known: no other value is equal to it.
UNEQUAL_PREFIX = b"\xff" * 16


class ValueEndsError(Exception):
    """Error for bytes that are no value of the layout."""


class UnknownSubclassError(Exception):
    """Error for a value of a POJO's subclass that neither the snapshot nor a class file describes: its name."""


@dataclass(frozen=True)
class _Marked(TypeSerializer):
    """Stand-in for a part that is rewritten."""

    number: int = 0

    @classmethod
    def read_snapshot(cls, name: str, version: int, reader: SnapshotReader) -> TypeSerializer:
        raise NotImplementedError

    def write_payload(self, view: DataOutputView) -> None:
        raise NotImplementedError

    @property
    def flink_type(self) -> str:
        return "REWRITTEN"

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.binary()

    def decode(self, at: Cursors) -> pa.Array:
        raise self._refuse("decoded")

    def layout(self, layout: Layout) -> int:
        return layout.add(REWRITTEN, self.number)


@dataclass(frozen=True)
class _Primitive(_Marked):
    """Stand-in for the serializer of a POJO's field that is primitive; ``number`` is 0 if it may be a box."""

    field: TypeSerializer | None = None

    def layout(self, layout: Layout) -> int:
        assert self.field is not None
        return layout.add(PRIMITIVE, self.number, 0, [self.field.layout(layout)])


def marked_layout(serializer: TypeSerializer, paths: Sequence[Path]) -> tuple[Layout, int, dict[int, int]]:
    """Return a layout in which the parts at some paths are nodes of their own: node, and place of its path by node."""

    def mark(part: TypeSerializer, path: Path) -> TypeSerializer:
        return _Marked("", 0, paths.index(path)) if path in paths else with_parts(part, mark, path)

    layout = Layout()
    node = mark(serializer, ()).layout(layout)
    return layout, node, {index: one[1] for index, one in enumerate(layout.nodes) if one[0] == REWRITTEN}


@dataclass
class _Value:
    """A value that is being rewritten: its bytes, the output, and the position up to which it was copied."""

    data: bytes
    out: bytearray
    copied: int
    #: Whether a part was rewritten: if it was misread, all behind it may be.
    rewritten: bool = False
    #: Whether a null was read behind such a part in a field that is primitive or a box.
    uncertain: bool = False


@dataclass
class ValueProgram:
    """Program for the values of one serializer; ``rewrites`` are functions by the path of their part."""

    serializer: TypeSerializer
    rewrites: Mapping[Path, Rewrite]
    #: Whether bytes after a value are ignored, as Flink does if values have lengths.
    lenient: bool = False
    subclass_of: SubclassOf | None = None
    #: Given if values are misread: Flink fails to set a primitive field of a POJO to null.
    is_primitive: IsPrimitive | None = None
    #: Whether the release infers another serializer for a part: it does not read what the part was written with.
    is_refused: bool = False
    #: Whether values are walked through even without parts to rewrite: for unlisted subclasses, which may have some.
    walks: bool = False
    #: Number of values of which it is unknown whether Flink reads them as others, or fails.
    uncertain_values: int = field(default=0, init=False)
    _functions: list[Rewrite] = field(default_factory=list, init=False)
    _skip: SkipNode = field(init=False)

    def __post_init__(self) -> None:
        layout = Layout()
        node = self._mark(self.serializer, ()).layout(layout)
        if node == UNKNOWN:
            raise UndecodableStateError(
                f"the parts of {self.serializer.flink_type} have unknown ends",
                found=self.serializer.snapshot_class,
                remedy="leave the state out (drop), or as it is (as_is)",
            )
        self._skip = _Compiler(layout, self._functions, self._subclass).compile(node)

    @property
    def changes_nothing(self) -> bool:
        """Return whether all values are copied."""
        return not self.rewrites and not self.walks

    @property
    def has_pojos(self) -> bool:
        """Return whether values may be of subclasses of POJOs that the snapshot does not list."""
        return any(isinstance(part, PojoSerializer) for part in self.serializer.all_parts())

    def _mark(self, serializer: TypeSerializer, path: Path) -> TypeSerializer:
        if path in self.rewrites:
            return self._marked(self.rewrites[path])
        marked = with_parts(serializer, self._mark, path)
        if not _is_walked(marked) and marked is serializer and not serializer.opaque_parts():
            return self._marked(_copying(serializer))
        if isinstance(marked, PojoSerializer) and self.is_primitive is not None:
            return self._with_primitives(marked, self.is_primitive)
        return marked

    @staticmethod
    def _with_primitives(pojo: PojoSerializer, is_primitive: IsPrimitive) -> PojoSerializer:
        """Return the serializer of a POJO in which the fields that Java cannot set to null are marked."""
        fields = []
        for member in pojo.fields:
            primitive = (
                is_primitive(pojo.class_name, member.name) if member.serializer.flink_type in PRIMITIVES else False
            )
            marked = (
                _Primitive("", 0, int(primitive is True), member.serializer)
                if primitive is not False
                else member.serializer
            )
            fields.append(replace(member, serializer=marked))
        return replace(pojo, fields=tuple(fields))

    def _marked(self, function: Rewrite) -> TypeSerializer:
        self._functions.append(function)
        return _Marked("", 0, len(self._functions) - 1)

    def _subclass(self, name: bytes) -> SkipNode:
        """Return the function of a subclass."""
        try:
            text = decode_modified_utf8(name)
        except ValueError:
            raise ValueEndsError from None
        program = self.subclass_of(text) if self.subclass_of is not None else None
        if program is None:
            raise UnknownSubclassError(text)
        return _misread_subclass(program._skip) if program.is_refused else program._skip

    def run(self, data: bytes, at: int, out: bytearray) -> int:
        """Append the rewritten value at a position to the output; return the position after it."""
        value = _Value(data, out, at)
        try:
            end = self._skip(value, at)
        except (IndexError, ValueEndsError):
            end = len(data) + 1
        if end > len(data):
            raise CorruptStateError(
                f"the bytes are no value of {self.serializer.flink_type}",
                found=data[at : at + 40].hex(),
                remedy=WRITTEN_OTHERWISE,
            )
        self.uncertain_values += value.uncertain
        out += data[value.copied : end]
        return end

    def whole(self, data: bytes) -> bytes:
        """Return the rewritten bytes of a value that takes all bytes; anything after it is damage."""
        out = bytearray()
        end = self.run(data, 0, out)
        if end != len(data) and not self.lenient:
            raise CorruptStateError(
                f"{len(data) - end} bytes are left over after a value of {self.serializer.flink_type}",
                remedy=WRITTEN_OTHERWISE,
            )
        return bytes(out)


def _is_walked(serializer: TypeSerializer) -> bool:
    return serializer.layout(Layout()) != UNKNOWN


def _copying(serializer: TypeSerializer) -> Rewrite:
    """Return a function that copies a value whose end only its decoder finds."""

    def copy(data: bytes, at: int, out: bytearray) -> int:
        cursors = Cursors(
            np.frombuffer(data, np.uint8), np.array([at], np.int64), np.array([len(data)], np.int64), options=PLAIN
        )
        serializer.decode(cursors)
        end = int(cursors.position[0])
        out += data[at:end]
        return end

    return copy


class _Compiler:
    """Nodes of a layout as functions that return the position after a value."""

    def __init__(self, layout: Layout, functions: list[Rewrite], unknown_subclass: Callable[[bytes], SkipNode]) -> None:
        self.layout = layout
        self.functions = functions
        self.unknown_subclass = unknown_subclass
        self.compiled: dict[int, SkipNode] = {}

    def compile(self, node: int) -> SkipNode:
        """Return the function of a node; a node that refers to itself is looked up when it is met."""
        if node in self.compiled:
            return self.compiled[node]
        self.compiled[node] = lambda value, p: self.compiled[node](value, p)
        self.compiled[node] = self._compile(node)
        return self.compiled[node]

    def _compile(self, node: int) -> SkipNode:
        from pyspark_savepoint.formats.kernels import skip

        op, a, b, first, count = self.layout.nodes[node]
        if op == skip.POJO:
            return self._pojo(a, b, self.layout.children[first : first + count])
        parts = [self.compile(part) for part in self.layout.children[first : first + count]]
        simple: dict[int, Callable[[], SkipNode]] = {
            REWRITTEN: lambda: _rewritten(self.functions[a]),
            PRIMITIVE: lambda: parts[0],
            skip.FIXED: lambda: lambda _, p: p + a,
            skip.STRING: lambda: lambda value, p: _string(value.data, p, a),
            skip.BLOCK: lambda: lambda value, p: p + 4 + _count(value.data, p) * a + b,
            skip.SEQUENCE: lambda: _sequence(parts),
            skip.REPEAT: lambda: _repeat(parts),
            skip.FLAGGED: lambda: _flagged(a, b, parts[0]),
            skip.CHOICE: lambda: _choice(a, b, parts),
            skip.BIG_INTEGER: lambda: lambda value, p: _big_integer(value.data, p, a),
            skip.MASKED: lambda: _masked(a, parts),
            skip.MASKED_REPEAT: lambda: _masked_repeat(parts[0]),
            skip.AVRO_BLOCKS: lambda: _avro_blocks(parts),
            skip.VARINT_BLOCK: lambda: lambda value, p: _varint_block(value.data, p),
            skip.EXTENT: lambda: lambda value, p: _extent(value.data, p, a),
        }
        return simple[op]()

    def _null(self, node: int) -> SkipNode:
        """Return the function for a null in place of a field of a POJO."""
        op, known, *_ = self.layout.nodes[node]
        if op != PRIMITIVE:
            return _null
        return _null_in_primitive if known else _null_in_box

    def _pojo(self, fields: int, tagged: int, children: list[int]) -> SkipNode:
        from pyspark_savepoint.formats.kernels import skip

        own = [self.compile(part) for part in children[:fields]]
        nulls = [self._null(part) for part in children[:fields]]
        registered = [self.compile(part) for part in children[fields : fields + tagged]]
        others = {}
        for name, part in zip(children[fields + tagged :: 2], children[fields + tagged + 1 :: 2], strict=True):
            _, start, size, *_ = self.layout.nodes[name]
            others[bytes(self.layout.names[start : start + size])] = self.compile(part)

        def pojo(value: _Value, p: int) -> int:
            data = value.data
            flags = data[p]
            p += 1
            if flags == skip.NO_SUBCLASS:
                for part, null in zip(own, nulls, strict=True):
                    p = null(value, p) if data[p] else part(value, p + 1)
                return p
            if flags == skip.NULL:
                return p
            if flags == skip.TAGGED:
                return registered[data[p]](value, p + 1)
            size = int.from_bytes(data[p : p + 2], "big")
            if flags != skip.SUBCLASS:
                raise ValueEndsError
            name = data[p + 2 : p + 2 + size]
            subclass = others.get(name)
            if subclass is None:
                subclass = others[name] = self.unknown_subclass(name)
            return subclass(value, p + 2 + size)

        return pojo


def _misread_subclass(part: SkipNode) -> SkipNode:
    def misread(value: _Value, p: int) -> int:
        value.uncertain = True
        value.out += UNEQUAL_PREFIX
        return part(value, p)

    return misread


def _null(_: _Value, p: int) -> int:
    return p + 1


def _null_in_primitive(_: _Value, __: int) -> int:
    raise ValueEndsError


def _null_in_box(value: _Value, p: int) -> int:
    value.uncertain = value.uncertain or value.rewritten
    return p + 1


def _rewritten(function: Rewrite) -> SkipNode:
    def rewrite(value: _Value, p: int) -> int:
        value.rewritten = True
        value.out += value.data[value.copied : p]
        value.copied = end = function(value.data, p, value.out)
        return end

    return rewrite


def _count(data: bytes, p: int) -> int:
    if p + 4 > len(data) or data[p] > 127:
        raise ValueEndsError
    return int.from_bytes(data[p : p + 4], "big")


def bounded_count(data: bytes, p: int) -> int:
    """Return a number of values, which is at most that of the bytes, or of empty values in real lists."""
    from pyspark_savepoint.formats.kernels import skip

    count = _count(data, p)
    if count > len(data) - p + skip.MAX_EMPTY:
        raise ValueEndsError
    return count


def varint(data: bytes, p: int) -> tuple[int, int]:
    """Return a number of seven bits per byte, the least significant first, and the position after it."""
    number = shift = 0
    while True:
        byte = data[p]
        p += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, p
        shift += 7
        if shift > 63:
            raise ValueEndsError


def _string(data: bytes, p: int, extra: int) -> int:
    length, p = varint(data, p)
    units = length - extra
    if units <= 0:
        return p
    end = p + units
    if end > len(data):
        raise ValueEndsError
    if data[p:end].isascii():
        return end
    for _ in range(units):
        while data[p] > 127:
            p += 1
        p += 1
    return p


def _sequence(parts: list[SkipNode]) -> SkipNode:
    def sequence(value: _Value, p: int) -> int:
        for part in parts:
            p = part(value, p)
        return p

    return sequence


def _repeat(parts: list[SkipNode]) -> SkipNode:
    def repeat(value: _Value, p: int) -> int:
        count = bounded_count(value.data, p)
        p += 4
        for _ in range(count):
            for part in parts:
                p = part(value, p)
        return p

    return repeat


def _flagged(null: int, padding: int, part: SkipNode) -> SkipNode:
    def flagged(value: _Value, p: int) -> int:
        return p + 1 + padding if value.data[p] == null else part(value, p + 1)

    return flagged


def _choice(smallest: int, width: int, parts: list[SkipNode]) -> SkipNode:
    def choice(value: _Value, p: int) -> int:
        chosen = int.from_bytes(value.data[p : p + width], "big") - smallest
        if not 0 <= chosen < len(parts):
            raise ValueEndsError
        return parts[chosen](value, p + width)

    return choice


def _big_integer(data: bytes, p: int, scaled: int) -> int:
    count = _count(data, p)
    if count == 0:
        return p + 4
    return p + 4 + max(count - 4, 0) + 4 * scaled


def _masked(before: int, parts: list[SkipNode]) -> SkipNode:
    def masked(value: _Value, p: int) -> int:
        data, mask = value.data, p
        p += (before + len(parts) + 7) >> 3
        for bit, part in enumerate(parts, before):
            if not data[mask + (bit >> 3)] >> (7 - (bit & 7)) & 1:
                p = part(value, p)
        return p

    return masked


def _masked_repeat(part: SkipNode) -> SkipNode:
    def masked_repeat(value: _Value, p: int) -> int:
        data = value.data
        count = bounded_count(data, p)
        mask = p + 4
        p = mask + ((count + 7) >> 3)
        for bit in range(count):
            if not data[mask + (bit >> 3)] >> (7 - (bit & 7)) & 1:
                p = part(value, p)
        return p

    return masked_repeat


def _avro_blocks(parts: list[SkipNode]) -> SkipNode:
    def avro_blocks(value: _Value, p: int) -> int:
        while True:
            count, p = varint(value.data, p)
            if count == 0:
                return p
            if count > len(value.data):
                raise ValueEndsError
            for _ in range(count):
                for part in parts:
                    p = part(value, p)

    return avro_blocks


def _varint_block(data: bytes, p: int) -> int:
    size, p = varint(data, p)
    return p + size


def _extent(data: bytes, p: int, counted: int) -> int:
    count, size = _count(data, p), _count(data, p + 4)
    return p + 8 + size + count * counted
