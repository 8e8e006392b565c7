"""Programs of one state: they rewrite its keys, namespaces, elements and values for the new release.

value state and such     the value           list state   the elements, with a comma between them
map state                 the user key in the composite key, and the value after its flag
timers                    key and namespace, in the composite key
operator list, union      the elements        broadcast    key and value of every entry
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TypeVar

from pyspark_savepoint.formats.errors import CorruptStateError, SavepointError
from pyspark_savepoint.formats.keyed.meta_info import BackendStateType, StateMetaInfoSnapshot
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.kryo.described.serializer import KryoSerializer
from pyspark_savepoint.statebackends.migration.rewriting.compiled_programs import CompiledProgram
from pyspark_savepoint.statebackends.migration.rewriting.kryo_values import (
    AmbiguousFormError,
    KryoChange,
    KryoStatePart,
    PartError,
)
from pyspark_savepoint.statebackends.migration.rewriting.scala_values import ScalaPart
from pyspark_savepoint.statebackends.migration.rewriting.target_types import Target
from pyspark_savepoint.statebackends.migration.rewriting.value_program import (
    Rewrite,
    SubclassOf,
    UnknownSubclassError,
    ValueProgram,
)
from pyspark_savepoint.statebackends.migration.rewriting.verdicts import Losses
from pyspark_savepoint.statebackends.rows.entry_bytes import is_timer
from pyspark_savepoint.statebackends.rows.state_column import unit_serializers
from pyspark_savepoint.statebackends.types.serializer_parts import Path

COMMA = 0x2C
VALUE, NAMESPACE, KEY = "VALUE_SERIALIZER", "NAMESPACE_SERIALIZER", "KEY_SERIALIZER"
LIST, MAP = "LIST", "MAP"
#: Errors of values that cannot be rewritten.
ValueErrors = (PartError, SavepointError, UnknownSubclassError)
T = TypeVar("T")


class Misread(Enum):
    """Which parts a program reads as the new release reads their unchanged bytes."""

    #: Those that both releases leave to Kryo: what the job finds.
    KEPT = "kept"
    #: All that Kryo wrote: what the hashmap backend reads when it restores, before it compares serializers.
    ALL = "all"


@dataclass
class RoleProgram:
    """The program for one serializer of a state, and the functions of its parts."""

    target: Target
    parts: Mapping[Path, KryoStatePart | ScalaPart]
    change: KryoChange | None = None
    #: Whether to look for losses.
    inspects: bool = False
    #: Programs of subclasses of POJOs that were found in values, by class.
    subclasses: dict[str, RoleProgram] = field(default_factory=dict)

    @classmethod
    def of(cls, target: Target, change: KryoChange | None) -> RoleProgram:
        """Return the program of a target without obstacles; without a change of Kryo it copies."""
        if change is None:
            return cls(target, {})
        parts: dict[Path, KryoStatePart | ScalaPart] = {
            part.path: KryoStatePart(part, change) if part.is_kryo else ScalaPart(part)
            for part in target.parts
            if part.has_values
        }
        return cls(target, parts, change)

    def inspect(self) -> None:
        """Look for losses in values from now on."""
        self.inspects = True
        for part in self.parts.values():
            if isinstance(part, KryoStatePart):
                part.inspection.is_on = True

    @property
    def all_parts(self) -> Iterator[tuple[str, KryoStatePart | ScalaPart, bool]]:
        """Yield the name of each part, the part, and whether it is that of a subclass that snapshots do not list."""
        for part in self.parts.values():
            yield part.part.name, part, False
        for class_name, role in self.subclasses.items():
            for name, part, _ in role.all_parts:
                yield ".".join(filter(None, (class_name, name))), part, True

    def program(
        self,
        old: TypeSerializer,
        inside: str | None = None,
        *,
        misread: Misread | None = None,
        walks: bool = False,
    ) -> ValueProgram:
        """Return the program for values of ``old``: the whole serializer, or its part called ``inside``.

        ``walks``: unlisted subclasses are rewritten even if ``old`` itself has no part to rewrite.
        """
        rewrites: dict[Path, Rewrite] = {}
        of_scala: dict[Path, ScalaPart] = {}
        subclasses = self._subclasses(misread)
        for path, part in self.parts.items():
            if inside is None or path[:1] == (inside,):
                part_path = path if inside is None else path[1:]
                if isinstance(part, ScalaPart):
                    of_scala[part_path] = part
                else:
                    rewrites[part_path] = part.misread() if _is_misread(part, misread) else part.rewrite()
        by_scala = {part_path: part.rewrite(part_path, rewrites, subclasses) for part_path, part in of_scala.items()}
        is_primitive = self.change.is_primitive if misread is not None and self.change is not None else None
        return ValueProgram(old, {**rewrites, **by_scala}, misread is not None, subclasses, is_primitive, walks=walks)

    def compiled(self, program: ValueProgram, inside: str | None = None) -> CompiledProgram | None:
        """Return the compiled form of what :meth:`program` returned, if it has one."""
        parts = {
            path if inside is None else path[1:]: part
            for path, part in self.parts.items()
            if isinstance(part, KryoStatePart)
        }
        return CompiledProgram.of(program, parts)

    def _subclasses(self, misread: Misread | None) -> SubclassOf:
        """Return the function that makes programs of subclasses which snapshots do not list, from class files."""
        made: dict[str, ValueProgram | None] = {}

        def subclass_of(name: str) -> ValueProgram | None:
            if name not in made:
                subclass = self.change.subclass_of(name) if self.change is not None else None
                made[name] = None
                if subclass is not None:
                    role = RoleProgram.of(subclass[1], self.change)
                    if misread is None:
                        self.subclasses[name] = role
                    if self.inspects:
                        role.inspect()
                    program = made[name] = role.program(subclass[0], misread=misread)
                    # Flink compares no serializers here: it reads the subclass with the one that it infers now.
                    program.is_refused = misread is not None and any(part.is_refused for part in subclass[1].parts)
            return made[name]

        return subclass_of


@dataclass(frozen=True)
class _EitherForm:
    """Kryo 2 wrote values with synthetic fields (``this$0``), or without: the form that takes all bytes is theirs.

    Where both do, with different results, other values must have shown it.
    """

    change: KryoChange | None
    roles: tuple[RoleProgram, ...]

    def read(self, rewrite: Callable[[], T]) -> T:
        """Return the result of a function that rewrites a value."""
        change = self.change
        if change is None or change.before != 2:
            return rewrite()
        counted = self._counted()
        try:
            rewritten = rewrite()
        except ValueErrors as error:
            other = self._of_other(rewrite, counted)
            if other is None:
                raise
            change.synthetic.change()
            change.synthetic.is_proven = _is_of_bytes(error)
            return other[0]
        if change.has_forms and not change.synthetic.is_proven:
            try:
                self._prove(change, rewrite, rewritten)
            except AmbiguousFormError:
                _restore(counted)
                raise
        return rewritten

    def _prove(self, change: KryoChange, rewrite: Callable[[], T], value: T) -> None:
        """Read a value in the other form too, which must fail or make no difference."""
        counted = self._counted()
        change.synthetic.change()
        try:
            other = rewrite()
        except ValueErrors as error:
            change.synthetic.is_proven = _is_of_bytes(error)
            return
        finally:
            change.synthetic.change()
            _restore(counted)
        if other != value:
            raise AmbiguousFormError(
                "Kryo wrote a value with fields of the compiler (this$0), or without them: it can be read in both ways",
                expected="flink-scala was on the class path of the job, or was not: no other value shows it",
                remedy="leave the state out (drop), or as it is (as_is)",
            )

    def _of_other(self, rewrite: Callable[[], T], counted: Iterable[_Counted]) -> tuple[T] | None:
        """Return the result in the other form, None if it fails too."""
        change = self.change
        assert change is not None
        if not change.has_forms:
            return None
        failed = self._counted()
        _restore(counted)
        change.synthetic.change()
        try:
            return (rewrite(),)
        except ValueErrors:
            _restore(failed)
            return None
        finally:
            change.synthetic.change()

    def _counted(self) -> list[_Counted]:
        return [_Counted.of(part) for role in self.roles for _, part, _ in role.all_parts]


@dataclass(frozen=True)
class _Counted:
    """What a part had counted before a value."""

    part: KryoStatePart | ScalaPart
    values: int
    changed: int
    lost: Losses | None

    @classmethod
    def of(cls, part: KryoStatePart | ScalaPart) -> _Counted:
        lost = part.inspection.lost.copy() if isinstance(part, KryoStatePart) and part.inspection.is_on else None
        return cls(part, part.values, part.changed, lost)


def _restore(counted: Iterable[_Counted]) -> None:
    for saved in counted:
        saved.part.values, saved.part.changed = saved.values, saved.changed
        if saved.lost is not None and isinstance(saved.part, KryoStatePart):
            saved.part.inspection.found_before(saved.lost.copy())


def _is_of_bytes(error: Exception) -> bool:
    """Return whether an error shows that bytes are in another form, and no class is missing."""
    return isinstance(error, CorruptStateError) or (isinstance(error, PartError) and error.is_of_bytes)


class EntryProgram:
    """Program for the entries of one keyed state, or of one queue of timers: composite key, and value.

    ``walks``: the roles (:data:`KEY` is the key's) in which unlisted subclasses of POJOs may have parts to rewrite.
    """

    def __init__(
        self,
        meta: StateMetaInfoSnapshot,
        key_serializer: TypeSerializer,
        key: RoleProgram,
        roles: Mapping[str, RoleProgram],
        misread: Misread | None = None,
        walks: Collection[str] = (),
    ) -> None:
        self.compiled: CompiledProgram | None = None
        self.meta = meta
        self.key_role = key
        self.roles = roles
        self.timer = is_timer(meta)
        # A misreading is that of the other release, whose Kryo never writes synthetic fields.
        self._form = _EitherForm(key.change if misread is None else None, (key, *roles.values()))
        value = roles[VALUE]
        units = unit_serializers(meta)
        self.kind = meta.state_type
        self.user: ValueProgram | None = None
        if self.timer:
            timer = value.program(meta.value_serializer, misread=misread, walks=VALUE in walks)
            self.key_parts: tuple[ValueProgram, ...] = (timer,)
            self.changes_keys = not timer.changes_nothing
            self.value = timer  # of timers, values are empty
            return
        if self.kind == LIST:
            self.value = value.program(units[0], "element", misread=misread, walks=VALUE in walks)
        elif self.kind == MAP:
            self.value = value.program(units[1], "value", misread=misread, walks=VALUE in walks)
            self.user = value.program(units[0], "key", misread=misread, walks=VALUE in walks)
        else:
            self.value = value.program(units[0], misread=misread, walks=VALUE in walks)
            compiled = None if misread is not None else value.compiled(self.value)
            self.compiled = replace(compiled, others=self.new_value) if compiled is not None else None
        namespace = roles[NAMESPACE]
        self.key_parts = (
            key.program(key_serializer, misread=misread, walks=KEY in walks),
            namespace.program(meta.namespace_serializer, misread=misread, walks=NAMESPACE in walks),
        )
        self.variable = key_serializer.length < 0 and meta.namespace_serializer.length < 0
        self.changes_keys = not all(program.changes_nothing for program in self._of_keys)

    @property
    def _of_keys(self) -> Iterator[ValueProgram]:
        yield from self.key_parts
        if self.user is not None:
            yield self.user

    @property
    def changes_nothing(self) -> bool:
        """Return whether all entries stay as they are."""
        return not self.changes_keys and self.value.changes_nothing

    @property
    def uncertain_values(self) -> int:
        """Number of parts of entries of which it is unknown whether Flink reads them as others, or fails."""
        return sum(program.uncertain_values for program in (*self._of_keys, self.value))

    @property
    def hides_in_keys(self) -> bool:
        """Return whether composite keys may change only by subclasses of POJOs that are not in the snapshot."""
        programs = list(self._of_keys)
        return not any(program.rewrites for program in programs) and any(program.has_pojos for program in programs)

    @property
    def hides_in_values(self) -> bool:
        """Return whether values may change only by such subclasses."""
        return not self.timer and not self.value.rewrites and self.value.has_pojos

    def entry(self, key: bytes, value: bytes) -> tuple[bytes, bytes]:
        """Return the composite key without its key-group prefix, and the value."""
        return self.key(key), self.new_value(value)

    def key(self, data: bytes) -> bytes:
        """Return the composite key without its key-group prefix."""
        return self._form.read(lambda: self.walked_key(data)) if self.changes_keys else data

    def walked_key(self, data: bytes) -> bytes:
        """Return the composite key after a walk through all of it, even if nothing changes."""
        out = bytearray()
        at = 0
        for program in self.key_parts:
            start = len(out)
            end = program.run(data, at, out)
            if not self.timer and self.variable:
                behind = _length(end - at)
                if data[end : end + len(behind)] != behind:
                    raise self._damaged("the length after a variable key or namespace", data)
                end += len(behind)
                out += _length(len(out) - start)
            at = end
        if self.user is not None:
            at = self.user.run(data, at, out)
        if at != len(data) and not self.key_parts[0].lenient:
            raise self._damaged("a composite key without bytes after it", data)
        return bytes(out)

    def new_value(self, data: bytes) -> bytes:
        """Return the value."""
        return data if self.value.changes_nothing or self.timer else self._form.read(lambda: self.walked(data))

    def walked(self, data: bytes) -> bytes:
        """Return the value after a walk through all of it, even if nothing changes."""
        if self.kind == MAP:
            return data if data[:1] != b"\0" else b"\0" + self.value.whole(data[1:])
        if self.kind == LIST:
            return self._elements(data)
        return self.value.whole(data)

    def _elements(self, data: bytes) -> bytes:
        out = bytearray()
        at = self.value.run(data, 0, out)
        while at < len(data):
            if data[at] != COMMA and not self.value.lenient:
                raise self._damaged("a comma between the elements of a list", data)
            out.append(COMMA)
            at = self.value.run(data, at + 1, out)
        return bytes(out)

    def _damaged(self, expected: str, data: bytes) -> CorruptStateError:
        return CorruptStateError(
            "an entry does not match its serializers", state=self.meta.name, expected=expected, found=data[:40].hex()
        )


class ElementProgram:
    """Program for an operator state: an element of a list or union state, or a whole broadcast state."""

    def __init__(
        self, meta: StateMetaInfoSnapshot, roles: Mapping[str, RoleProgram], misread: Misread | None = None
    ) -> None:
        self.roles = roles
        self.broadcast = meta.kind is BackendStateType.BROADCAST
        names = (KEY, VALUE) if self.broadcast else (VALUE,)
        self.programs = [roles[name].program(meta.serializers[name], misread=misread) for name in names]
        self._form = _EitherForm(roles[VALUE].change if misread is None else None, tuple(roles.values()))

    @property
    def uncertain_values(self) -> int:
        """Number of elements of which it is unknown whether Flink reads them as others, or fails."""
        return sum(program.uncertain_values for program in self.programs)

    @property
    def changes_nothing(self) -> bool:
        """Return whether all elements stay as they are."""
        return all(program.changes_nothing for program in self.programs)

    def elements(self, data: bytes, count: int) -> list[bytes]:
        """Return ``count`` elements that are contiguous; a broadcast state is one element."""
        return self._form.read(lambda: list(self._elements(data, count)))

    def _elements(self, data: bytes, count: int) -> Iterator[bytes]:
        at = 0
        for _ in range(count):
            out = bytearray()
            repeated = 1
            if self.broadcast:
                repeated = int.from_bytes(data[at : at + 4], "big")
                out += data[at : at + 4]
                at += 4
                if repeated > len(data):
                    raise CorruptStateError("a broadcast state has more entries than bytes", found=repeated)
            for _ in range(repeated):
                for program in self.programs:
                    at = program.run(data, at, out)
            yield bytes(out)
        if at != len(data) and not self.programs[0].lenient:
            raise CorruptStateError("bytes are left over after the elements of an operator state", found=len(data) - at)


def _is_misread(part: KryoStatePart, misread: Misread | None) -> bool:
    if misread is Misread.ALL:
        return isinstance(part.part.old, KryoSerializer)
    return misread is Misread.KEPT and part.keeps_kryo


def _length(size: int) -> bytes:
    """Return a length after a variable key or namespace: base 256, lowest digit first."""
    return size.to_bytes(max(1, (size.bit_length() + 7) // 8), "little")
