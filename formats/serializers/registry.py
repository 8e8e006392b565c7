"""Registry of serializers by snapshot class name, which is the only type tag in a savepoint.

Users add serializers from their own package, through the entry point group ``pyspark_savepoint.serializers``:
the name of an entry is the snapshot class, its value a :class:`TypeSerializer` subclass. Entry points are used because
executors are separate processes, which a registration call on the driver would not reach.

Parsing can often continue after a snapshot class that is not registered: nearly all snapshot classes extend one of
Flink's base classes, and the base class determines the layout of the payload (:class:`OpaqueSerializer`).

A user may also give serializers to one read or write (:class:`GivenSerializers`).
"""

from __future__ import annotations

import base64
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.resources import files
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, TypeAlias, TypeVar

import pyarrow as pa

from pyspark_savepoint.formats.data_view import DataInputView, DataOutputView
from pyspark_savepoint.formats.errors import OptionError, SavepointError, UndecodableStateError
from pyspark_savepoint.formats.java_stream import skip_java_object
from pyspark_savepoint.formats.plug_ins import SERIALIZERS, PlugIn, plugged_in
from pyspark_savepoint.formats.serializers.base import (
    COMPOSITE_MAGIC,
    SnapshotReader,
    TypeSerializer,
    UnknownPayload,
    UnknownPayloads,
    write_versioned,
)

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from pyspark_savepoint.formats.columns import Cursors, DecodeOptions

#: Magic number and version of nested serializers.
NESTED_START = re.compile(re.escape(b"\x00\x14\x57\xfd\x00\x00\x00\x01"))

_REGISTRY: dict[str, type[TypeSerializer]] = {}
S = TypeVar("S", bound=type[TypeSerializer])


def register(*snapshot_classes: str) -> Callable[[S], S]:
    """Register the decorated class as the reader of the given snapshot classes.

    For serializers of this package. Plug-ins are registered by their entry points.

    Args:
        *snapshot_classes: Java names of ``TypeSerializerSnapshot`` classes, as they are in savepoints.

    Returns:
        A class decorator that returns the class unchanged. It raises ValueError for a name that is registered already.

    Example:
        ::

            @register("org.apache.flink.api.common.typeutils.base.LongSerializer$LongSerializerSnapshot")
            @dataclass(frozen=True)
            class LongSerializer(TypeSerializer): ...

    """

    def enter(serializer: S) -> S:
        for name in snapshot_classes:
            if name in _REGISTRY:
                raise ValueError(f"{name} is registered twice: {_REGISTRY[name]} and {serializer}")
            _REGISTRY[name] = serializer
        return serializer

    return enter


def registered() -> Mapping[str, type[TypeSerializer]]:
    """Return the built-in serializers of the modules that were imported, by snapshot class, in their order."""
    return MappingProxyType(_REGISTRY)


@cache
def known_serializers() -> dict[str, type[TypeSerializer]]:
    """Return all serializers by snapshot class, built-in and plugged in. A plug-in replaces a built-in of its name."""
    for _ in loaded():
        pass
    return {**_REGISTRY, **_plugged_in()}


@cache
def _plugged_in() -> dict[str, type[TypeSerializer]]:
    return {entry.name: _plugged(entry) for entry in plugged_in(SERIALIZERS)}


def _built_in(snapshot_class: str) -> type[TypeSerializer] | None:
    """Return a serializer of this package. Modules are imported until one has registered it."""
    if snapshot_class not in _REGISTRY:
        for _ in loaded():
            if snapshot_class in _REGISTRY:
                break
    return _REGISTRY.get(snapshot_class)


def _plugged(entry: EntryPoint) -> type[TypeSerializer]:
    """Import the class of an entry point. A failure is a UserFunctionError that names the entry point and package."""
    package = f" of package {entry.dist.name} {entry.dist.version}" if entry.dist is not None else ""
    with PlugIn(f"entry point {entry.name!r} = {entry.value!r}{package}", "its import"):
        serializer_class = entry.load()
        if not (isinstance(serializer_class, type) and issubclass(serializer_class, TypeSerializer)):
            raise TypeError(f"{serializer_class!r:.200} is not a TypeSerializer")
    return serializer_class


def snapshot_reader(view: DataInputView, unknown: UnknownPayloads | None = None) -> SnapshotReader:
    """Return a reader of serializer snapshots for all registered serializers. Other snapshot classes become opaque."""
    return SnapshotReader(view, _serializer_of, unknown=unknown)


def _serializer_of(snapshot_class: str) -> type[TypeSerializer]:
    return _plugged_in().get(snapshot_class) or _built_in(snapshot_class) or OpaqueSerializer


def read_serializer(data: bytes, path: str | None = None) -> TypeSerializer:
    """Read an enveloped snapshot that takes all of ``data``."""
    view = DataInputView(data, path)
    serializer = snapshot_reader(view).enveloped()
    view.expect_end("a serializer snapshot")
    return serializer


def undescribed(serializer: TypeSerializer) -> TypeSerializer:
    """Return a serializer as its snapshot is read without descriptions of the user's classes."""
    view = DataOutputView()
    write_versioned(serializer, view)
    return snapshot_reader(DataInputView(view.getvalue())).versioned()


@dataclass(frozen=True)
class OpaqueSerializer(TypeSerializer):
    """Serializer of an unknown snapshot class: the payload is kept as bytes, values are BINARY.

    The end of the payload follows from Flink's base class, or from a length in front of a Java object:

        Composite                              version 3             CompositeTypeSerializerSnapshot
        nothing                                version 3             SimpleTypeSerializerSnapshot
        utf class                              version 2             GenericTypeSerializerSnapshot, early simple ones
        i32 1  i32 n  object[n]  i32 version   version 2051261680    TypeSerializerConfigSnapshot, Flink 1.7 to 1.16
        [i32 version]  i32 n  object[n]        any version           snapshots of Apache Beam, and others like them
        i32 n  object[n]  i32 2051261680       version 0             the same
        utf Base64 of object                   any version           the same
        object                                 any version           the same, of its namespaces

    ``object`` is a Java object stream, which is never deserialized, or one that snappy compressed. Ends of other
    payloads are found by what follows them (``keyed/unknown_snapshots.py``).
    """

    payload: bytes = b""
    detail: str = ""
    opaque: ClassVar[bool] = True

    @classmethod
    def read_snapshot(cls, name: str, version: int, reader: SnapshotReader) -> TypeSerializer:
        """Find the end of the payload by its form. UndecodableStateError where that is not possible."""
        view = reader.view
        start = view.position
        detail = ""
        unknown = reader.unknown
        unknown.met[start] = UnknownPayload(name, reader.depth - 1)
        if start in unknown.lengths:
            view.skip(unknown.lengths[start], f"the snapshot of {name}")
        elif (end := _end_of_java_object(view, version)) is not None:
            view.position = end
        elif version == 3 and _peek_i32(view) == COMPOSITE_MAGIC:
            _skip_composite(reader, name)
        elif version == 2:
            detail = view.read_utf(f"a class name in the snapshot of {name}")
            if not detail or any(ch.isspace() for ch in detail):
                raise _endless(view, start, name)
        elif version != 3:
            raise _endless(view, start, name)
        return cls(name, version, unknown.pass_payload(view, start), detail)

    def write_payload(self, view: DataOutputView) -> None:
        """Write the payload as it was read."""
        view.write(self.payload)

    @property
    def flink_type(self) -> str:
        """UNKNOWN<class>, with the class of the values or of the serializer."""
        name = self.detail or self.snapshot_class.rsplit("$", 1)[0].removesuffix("Snapshot")
        return f"UNKNOWN<{name}>"

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        """Return BINARY: values are shown as bytes."""
        return pa.binary()

    def decode(self, at: Cursors) -> pa.Array:
        """Raise UndecodableStateError: the end of a value is unknown."""
        raise self._refuse("decoded").with_facts(**at.origin.facts())


#: Version of the snapshots of ``TypeSerializerConfigSnapshot``.
ADAPTER_VERSION = 0x7A53C4F0
#: Magic number and version of Java object streams.
JAVA_OBJECT = bytes.fromhex("aced0005")
#: Most bytes of a text of ``writeUTF``, with its length.
MAX_UTF = 2 + 0xFFFF
#: Start of such a stream as Base64.
JAVA_IN_BASE64 = b"rO0AB"
#: Start of a stream of xerial's snappy.
SNAPPY_OBJECT = b"\x82SNAPPY\0"


def _end_of_java_object(view: DataInputView, version: int) -> int | None:
    """Return the end of a payload with a Java object behind its length, or None if it has another form."""
    start = view.position
    if bytes(view.data[start : start + 4]) == JAVA_OBJECT:
        try:
            skip_java_object(view)
            return view.position
        except SavepointError:
            return None
        finally:
            view.position = start
    if object_in_base64(bytes(view.data[start : min(start + MAX_UTF, view.end)])) is not None:
        return start + 2 + int.from_bytes(view.data[start : start + 2], "big")
    forms = ((8, 4),) if version == ADAPTER_VERSION else ((4, 0), (8, 0))
    for before, after in forms:
        at = start + before
        if bytes(view.data[at : at + 4]) == JAVA_OBJECT or bytes(view.data[at : at + 8]) == SNAPPY_OBJECT:
            end = at + int.from_bytes(view.data[at - 4 : at], "big") + after
            if version == 0 and bytes(view.data[end : end + 4]) == ADAPTER_VERSION.to_bytes(4, "big"):
                end += 4
            if end <= view.end:
                return end
    return None


def object_in_base64(data: bytes) -> bytes | None:
    """Return the Java object that a text in front of other data is Base64 of; None if it is another text."""
    if data[2:7] != JAVA_IN_BASE64:
        return None
    size = int.from_bytes(data[:2], "big")
    if size + 2 > len(data):
        return None
    try:
        found = base64.b64decode(data[2 : 2 + size], validate=True)
    except ValueError:
        return None
    return found if found.startswith(JAVA_OBJECT) else None


def _peek_i32(view: DataInputView) -> int | None:
    if view.remaining < 4:
        return None
    value = view.read_i32()
    view.position -= 4
    return value


def _endless(view: DataInputView, start: int, name: str) -> UndecodableStateError:
    return UndecodableStateError(
        "a serializer snapshot is of an unknown class, and its end cannot be determined",
        path=view.path,
        offset=view.base + start,
        expected="snapshot classes of Flink, or of plug-ins",
        found=name,
        remedy="plug in a serializer (entry point group 'pyspark_savepoint.serializers')",
    )


def _skip_composite(reader: SnapshotReader, name: str) -> None:
    """Skip an outer part of unknown length: move past the first nested serializers that parse."""
    view, work = reader.view, reader.unknown.work
    start = view.position
    if work.magic is None:
        work.magic = [match.start() for match in NESTED_START.finditer(view.data)]
    for offset in work.magic[bisect_left(work.magic, start + 8) :]:
        if work.exhausted(view):
            break
        view.position = offset
        try:
            reader.nested()
        except SavepointError:
            work.add(0)
        else:
            return
    raise _endless(view, start, name)


# -- the modules that register Flink's own serializers, which are imported until one is found -------------------------
# Importing takes time: those that nearly every savepoint needs come first, and those of SQL, Avro and CEP last.

MODULES = (
    *("basic.primitives", "basic.strings", "basic.arrays", "basic.blobs", "composite.collections", "composite.pojo"),
    *("basic.enums", "composite.fields", "composite.wrappers", "composite.flinkx", "runtime.ttl", "runtime.operators"),
    *("basic.temporal", "basic.java_math", "kryo.described.serializer", "runtime.stream_element", "runtime.generic"),
    *("sql.rowdata", "sql.table_data", "avro.serializer", "runtime.cep", "beam.serializer"),
)
#: The folders whose other modules follow.
FOLDERS = ("basic", "composite", "runtime")
#: The modules that were imported.
_IMPORTED: set[str] = set()


def loaded() -> Iterator[str]:
    """Import one module after the other, which registers their classes. Yield each name after that."""
    for module in chain(MODULES, _others()):
        if module not in _IMPORTED:
            import_module(f"{__package__}.{module}")
            _IMPORTED.add(module)
        yield module


@cache
def _others() -> tuple[str, ...]:
    paths = [(folder, file) for folder in FOLDERS for file in files(f"{__package__}.{folder}").iterdir()]
    names = [(folder, file.name) for folder, file in paths if file.is_file()]
    found = {f"{folder}.{name[:-3]}" for folder, name in names if name.endswith(".py") and name != "__init__.py"}
    return tuple(sorted(found.difference(MODULES)))


#: Serializers, each with the name of its snapshot class; or serializers or their classes, by snapshot class.
SerializerInput: TypeAlias = Sequence[TypeSerializer] | Mapping[str, type[TypeSerializer] | TypeSerializer]
EXPECTED = (
    "serializers, such as [MoneySerializer('com.shop.MoneySerializer$MoneySerializerSnapshot', 1)], or a mapping of "
    "snapshot classes to subclasses of TypeSerializer"
)


class GivenSerializers:
    """Serializers by snapshot class. Objects with equal ``identity`` are equal."""

    __slots__ = ("classes", "identity", "named")

    def __init__(self, given: SerializerInput, identity: object) -> None:
        self.identity = identity
        #: The classes that read snapshots, by snapshot class.
        self.classes: dict[str, type[TypeSerializer]] = {}
        #: The serializers to write with, by the name of their type and by snapshot class.
        self.named: dict[str, TypeSerializer] = {}
        pairs = (
            given.items()
            if isinstance(given, Mapping)
            else [(_class_of(unnamed), unnamed) for unnamed in _listed(given)]
        )
        for name, serializer in pairs:
            kind = serializer if isinstance(serializer, type) else type(serializer)
            if not isinstance(name, str) or not issubclass(kind, TypeSerializer):
                raise _refused(serializer)
            self.classes[name] = kind
            if isinstance(serializer, TypeSerializer):
                self.named[name] = serializer
                self.named[serializer.flink_type.upper()] = serializer
        if not self.classes:
            raise _refused(given)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GivenSerializers) and self.identity == other.identity

    def __hash__(self) -> int:
        return hash(self.identity)

    def of_word(self, word: str) -> TypeSerializer | None:
        """Return the serializer of a word in a type's notation: the name of its type, or its snapshot class."""
        return self.named.get(word) or self.named.get(word.upper())


def _listed(given: object) -> Sequence[TypeSerializer]:
    if not isinstance(given, Sequence) or isinstance(given, str | bytes):
        raise _refused(given)
    return given


def _class_of(serializer: object) -> str:
    if not isinstance(serializer, TypeSerializer):
        raise _refused(serializer)
    return serializer.snapshot_class


def _refused(found: object) -> OptionError:
    return OptionError(
        "option 'serializers' contains an object that is not a serializer", expected=EXPECTED, found=f"{found!r:.200}"
    )
