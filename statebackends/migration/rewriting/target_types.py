"""Serializers of the new release for those of a snapshot, as far as they are known.

They are taken from, in this order: types in words, a savepoint of the new job, class files. Without any of them they
are known except in one case: in a snapshot of Flink 1, a field of type ``List``, ``Collection``,
``Iterable``, ``Map`` or ``Set`` is Kryo's, and Flink 2 has serializers of its own for it, but only if its type
arguments are plain classes. The snapshot does not contain these.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from pyspark_savepoint.formats.class_files import ClassPath, ClassType
from pyspark_savepoint.formats.errors import SavepointError
from pyspark_savepoint.formats.flink_releases import why_unknown
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.composite.collections import ListSerializer, MapSerializer, SetSerializer
from pyspark_savepoint.formats.serializers.composite.fields import FieldsSerializer
from pyspark_savepoint.formats.serializers.composite.optional_map import Entry
from pyspark_savepoint.formats.serializers.composite.pojo import PojoSerializer
from pyspark_savepoint.formats.serializers.composite.wrappers import RUNTIME, NullableSerializer
from pyspark_savepoint.formats.serializers.kryo.described.serializer import KryoSerializer
from pyspark_savepoint.formats.serializers.sql.rowdata import RAW_VALUE, ROW_DATA
from pyspark_savepoint.statebackends.migration.rewriting.scala_types import (
    is_rewritten,
    of_scala_api,
    pairs_of,
    without_successor,
)
from pyspark_savepoint.statebackends.migration.rewriting.verdicts import MISSING_CLASS, MigrationVerdict
from pyspark_savepoint.statebackends.type_extraction import ExtractionRelease, TypeExtractor
from pyspark_savepoint.statebackends.type_extraction.known_classes import LISTS, MAP, SET
from pyspark_savepoint.statebackends.types.serializer_parts import Path, by_path, with_parts

#: Interfaces that Flink 2 has serializers for, if their arguments are known and plain.
COLLECTIONS = frozenset((*LISTS, MAP, SET))
SINK = "org.apache.flink.streaming.api.functions.sink."
#: Snapshot classes that have another name in Flink 2.
RENAMED = {
    f"{SINK}TwoPhaseCommitSinkFunction$StateSerializerSnapshot": (
        f"{SINK}legacy.TwoPhaseCommitSinkFunction$StateSerializerSnapshot"
    ),
}
FORMER = {new: old for old, new in RENAMED.items()}
LEAVE_OUT = "leave the state out (drop)"
LEAVE_OUT_OR_AS_IS = "leave the state out (drop), or as it is (as_is)"
IN_RAW = (
    "Kryo wrote values of a RAW type of SQL, which are not rewritten: the other release may read them as other values"
)
#: Snapshot classes that Flink 2 does not have, besides those of the Scala API: only old releases wrote them.
REMOVED_IN_FLINK_2 = {
    f"{RUNTIME}EitherSerializerSnapshot": "Flink 1.6 or older wrote it",
    "org.apache.flink.api.common.typeutils.base.GenericArraySerializerConfigSnapshot": "Flink 1.8 or older wrote it",
    "org.apache.flink.cep.nfa.NFA$MigratedNFASerializerSnapshot": "an old release wrote it",
    "org.apache.flink.cep.nfa.SharedBuffer$SharedBufferSerializerSnapshot": "an old release wrote it",
    "org.apache.flink.cep.nfa.sharedbuffer.SharedBufferNode$SharedBufferNodeSerializer$"
    "SharedBufferNodeSerializerSnapshot": "an old release wrote it",
}
NEW_SCALA_JOB = (
    "name a savepoint of the new job, written with flink-scala-api (types_from; an empty one suffices), or leave the "
    "state out (drop)"
)
RESAVE = "restore the job with Flink 1.20 and take a savepoint of it, then migrate that one"
#: Types in words of collections, as examples.
EXAMPLES = {"Map": "MAP<STRING, LONG>", "Set": "SET<STRING>"}


@dataclass(frozen=True)
class Obstacle:
    """Obstacle to the migration of a part."""

    verdict: MigrationVerdict
    reason: str
    remedy: str


@dataclass(frozen=True)
class OwnSerializers:
    """Classes that Kryo in the new job leaves to serializers of the job's own."""

    classes: frozenset[str]
    #: Those whose serializer is used for subclasses too.
    with_subclasses: frozenset[str]


@dataclass(frozen=True)
class ChangedPart:
    """A part whose bytes or snapshot may change: Kryo or the Scala API wrote ``old``, or its class was renamed."""

    path: Path
    old: TypeSerializer
    new: TypeSerializer
    obstacle: Obstacle | None = None
    #: Classes that the new job registers with serializers of its own, and the snapshot does not.
    own_serializers: OwnSerializers | None = None
    #: Whether the part is in a subclass of a POJO that no job has registered: Flink reads it with the old serializer,
    #: which it takes from the snapshot and compares with no other one.
    is_restored: bool = False

    @property
    def name(self) -> str:
        """The path as text."""
        return ".".join(self.path)

    @property
    def is_kryo(self) -> bool:
        """Whether values of the part are Kryo's, before or after."""
        return isinstance(self.old, KryoSerializer) or isinstance(self.new, KryoSerializer)

    @property
    def is_refused(self) -> bool:
        """Whether Flink finds the new serializer incompatible with the old one."""
        changes = self.obstacle is None and self.is_kryo and type(self.new) is not type(self.old)
        return changes and not self.is_restored

    @property
    def is_scala(self) -> bool:
        """Whether values of the part become those of flink-scala-api."""
        return is_rewritten(self.old, self.new)

    @property
    def has_values(self) -> bool:
        """Whether values must be looked at."""
        return self.is_kryo or self.is_scala


@dataclass(frozen=True)
class Target:
    """The serializer that the new release reads, and the parts that differ or are Kryo's."""

    serializer: TypeSerializer
    parts: tuple[ChangedPart, ...]

    @property
    def has_pojos(self) -> bool:
        """Whether values may be of subclasses of POJOs that the snapshot does not list."""
        return any(isinstance(part, PojoSerializer) for part in self.serializer.all_parts())

    @property
    def pojos_of_java(self) -> frozenset[str]:
        """The classes of Java that Flink takes for POJOs, whose fields it sets: ``java.util.TimeZone``."""
        pojos = (part for part in self.serializer.all_parts() if isinstance(part, PojoSerializer))
        return frozenset(pojo.class_name for pojo in pojos if pojo.class_name.startswith("java."))


class TargetTypes:
    """Types that a release infers, from class files."""

    def __init__(self, release: ExtractionRelease, classes: ClassPath) -> None:
        self.release = release
        self.classes = classes
        self._extracted: dict[str, TypeSerializer | SavepointError] = {}

    def extracted(self, class_name: str) -> TypeSerializer | SavepointError:
        """Return the serializer that the release infers for a class, or the error why it is unknown."""
        if class_name not in self._extracted:
            try:
                extracted: TypeSerializer | SavepointError = TypeExtractor(self.release, self.classes).of(
                    ClassType(class_name)
                )
            except SavepointError as error:
                extracted = error
            self._extracted[class_name] = extracted
        return self._extracted[class_name]

    def pojo(self, class_name: str) -> PojoSerializer | None:
        """Return the POJO that a class is, None if it is none."""
        extracted = self.extracted(class_name)
        return extracted if isinstance(extracted, PojoSerializer) else None

    def of(self, old: TypeSerializer, existing: TypeSerializer | None = None) -> Target:
        """Return the target of a serializer; ``existing`` is the serializer of the new job, if there is one."""
        search = _Search(self, by_path(existing) if existing is not None else {})
        serializer = search.target(old, ())
        return Target(serializer, tuple(map(search.marked, search.parts)))


@dataclass
class _Search:
    """Search through one serializer."""

    types: TargetTypes
    existing: dict[Path, TypeSerializer]
    parts: list[ChangedPart] = field(default_factory=list)
    #: Why the types below a path are not known.
    errors: dict[Path, SavepointError] = field(default_factory=dict)
    #: Paths of subclasses of POJOs that are not registered.
    unregistered: list[Path] = field(default_factory=list)

    def marked(self, part: ChangedPart) -> ChangedPart:
        """Return a part that knows whether it is in a subclass that is not registered."""
        is_restored = any(part.path[: len(path)] == path for path in self.unregistered)
        return replace(part, is_restored=True) if is_restored else part

    def target(self, old: TypeSerializer, path: Path) -> TypeSerializer:
        if isinstance(old, PojoSerializer):
            self.unregistered += [(*path, member.name) for member in old.others]
        if not self.types.release.has_collections and _is_collection(old):
            part = self._of_flink_2(old, path)
            self.parts.append(part)
            return part.new
        if isinstance(old, KryoSerializer):
            part = self._kryo(old, path)
            self.parts.append(part)
            return part.new
        known = self.existing.get(path)
        if of_scala_api(old) or (known is not None and is_rewritten(old, known)):
            return self._scala(old, known, path)
        if old.snapshot_class in (RAW_VALUE, ROW_DATA) and _has_kryo(old):
            self.parts.append(ChangedPart(path, old, old, Obstacle(MigrationVerdict.NEEDS, IN_RAW, LEAVE_OUT_OR_AS_IS)))
            return old
        if isinstance(old, PojoSerializer | FieldsSerializer) and _has_collections(old):
            self._learn(old.class_name, path)
        new = with_parts(old, self.target, path)
        name = old.snapshot_class
        renamed = RENAMED if self.types.release.has_collections else FORMER
        unknown = why_unknown(name, self.types.release.version)
        if name in renamed:
            new = replace(new, snapshot_class=renamed[name])
            self.parts.append(ChangedPart(path, old, new))
        elif unknown is not None and not self.types.release.has_collections:
            self.parts.append(ChangedPart(path, old, old, Obstacle(MigrationVerdict.IMPOSSIBLE, unknown, LEAVE_OUT)))
        elif name in REMOVED_IN_FLINK_2:
            obstacle = Obstacle(
                MigrationVerdict.IMPOSSIBLE, f"{MISSING_CLASS}{name} in Flink 2: {REMOVED_IN_FLINK_2[name]}", RESAVE
            )
            self.parts.append(ChangedPart(path, old, old, obstacle))
        return new

    def _scala(self, old: TypeSerializer, existing: TypeSerializer | None, path: Path) -> TypeSerializer:
        """Return what flink-scala-api has in place of a serializer of the Scala API, with all of its parts."""
        if existing is None or of_scala_api(existing):
            if not without_successor(old):
                self._hinder_scala(old, path, MigrationVerdict.NEEDS, "which has no Scala API", NEW_SCALA_JOB)
            for part_path, part in by_path(old).items():
                if without_successor(part):
                    self._hinder_scala(
                        part, (*path, *part_path), MigrationVerdict.IMPOSSIBLE, "nor in flink-scala-api", LEAVE_OUT
                    )
            return old
        pairs = pairs_of(old, existing)
        if pairs is None:
            reason = f"and its values are not rewritten as {existing.flink_type}, which the new job has"
            self._hinder_scala(old, path, MigrationVerdict.IMPOSSIBLE, reason, LEAVE_OUT)
            return old
        before = len(self.parts)
        made: list[TypeSerializer] = []
        for pair in pairs:
            part_path = (*path, *pair.path)
            self.existing.update({(*part_path, *inner): part for inner, part in by_path(pair.new).items()})
            since = len(self.parts)
            made.append(self.target(pair.old, part_path))
            blocked = any(part.obstacle is not None for part in self.parts[since:])
            if not blocked and made[-1].flink_type != pair.new.flink_type:
                reason = f"{pair.new.flink_type} is the type in the new job, and its values cannot be rewritten to it"
                obstacle = Obstacle(
                    MigrationVerdict.IMPOSSIBLE, reason, "give the new job the type that the old one has"
                )
                self.parts.append(ChangedPart(part_path, pair.old, pair.old, obstacle))
        self.parts[before:] = [part for part in self.parts[before:] if part.obstacle is not None or part.is_kryo]
        parts = iter(made)
        new = with_parts(existing, lambda part, _: next(parts, part))
        self.parts.append(ChangedPart(path, old, new))
        return new

    def _hinder_scala(
        self, old: TypeSerializer, path: Path, verdict: MigrationVerdict, reason: str, remedy: str
    ) -> None:
        reason = f"{MISSING_CLASS}{old.snapshot_class} in Flink 2, {reason}"
        self.parts.append(ChangedPart(path, old, old, Obstacle(verdict, reason, remedy)))

    def _learn(self, class_name: str, path: Path) -> None:
        """Add the types of a class from class files, below known ones."""
        if isinstance(self.existing.get(path), PojoSerializer | FieldsSerializer):
            return
        extracted = self.types.extracted(class_name)
        if isinstance(extracted, SavepointError):
            self.errors[path] = extracted
            return
        for part_path, part in by_path(extracted).items():
            self.existing.setdefault((*path, *part_path), part)

    def _of_flink_2(self, old: TypeSerializer, path: Path) -> ChangedPart:
        """Return the part for a list, map or set that Flink 2 inferred, and Flink 1 leaves to Kryo."""
        known = self.existing.get(path)
        if isinstance(known, KryoSerializer):
            return ChangedPart(path, old, known)
        release = self.types.release
        return ChangedPart(
            path,
            old,
            old,
            Obstacle(
                MigrationVerdict.NEEDS,
                f"Flink {release} leaves lists, maps and sets to Kryo, by the class of the field, which is not known",
                "name the job's jar or class files (classes), a savepoint of that job (types_from), or the type of the "
                "state in words (types), with KRYO<java.util.List>, or the class of the field, for this part",
            ),
        )

    def _kryo(self, old: KryoSerializer, path: Path) -> ChangedPart:
        known = self.existing.get(path)
        if known is None and old.type_class in COLLECTIONS:
            return ChangedPart(path, old, old, self._unknown(old, path))
        if known is None:
            return ChangedPart(path, old, old)
        new = old if isinstance(known, KryoSerializer) else _with_registrations(known, old)
        return ChangedPart(path, old, new, own_serializers=_own_serializers(known, old))

    def _unknown(self, old: KryoSerializer, path: Path) -> Obstacle:
        error = next((self.errors[path[:end]] for end in range(len(path), -1, -1) if path[:end] in self.errors), None)
        name = old.type_class.rpartition(".")[2]
        release = self.types.release
        if error is None:
            return Obstacle(
                MigrationVerdict.NEEDS,
                f"Flink {release} has a serializer for {name}<...> if its type arguments are plain classes; no class "
                "file contains them",
                f"name a savepoint of the new job (types_from), or the type of the state in words (types), with "
                f"{EXAMPLES.get(name, 'LIST<STRING>')} or the like for this part, or KRYO<{old.type_class}> if it is "
                f"Kryo's in the new job too",
            )
        if "StackOverflowError" in error.message:
            return Obstacle(MigrationVerdict.IMPOSSIBLE, error.message, str(error.facts.get("remedy", "")))
        return Obstacle(
            MigrationVerdict.NEEDS,
            f"Flink {release} has a serializer for {name}<...> if its arguments are plain classes: {error.message}",
            "name the job's jar or class files (classes), a savepoint of the new job (types_from), or the type of the "
            "state in words (types)",
        )


def _has_kryo(serializer: TypeSerializer) -> bool:
    return any(isinstance(part, KryoSerializer) for part in serializer.all_parts())


def _has_collections(serializer: TypeSerializer) -> bool:
    return any(
        part.type_class in COLLECTIONS if isinstance(part, KryoSerializer) else _is_collection(part)
        for part in serializer.all_parts()
    )


def _is_collection(serializer: TypeSerializer) -> bool:
    """Return whether Flink 2 inferred a serializer for a list, map or set: it is nullable, explicit ones are not."""
    return isinstance(serializer, NullableSerializer) and isinstance(
        serializer.nested[0], ListSerializer | MapSerializer | SetSerializer
    )


def _with_registrations(new: TypeSerializer, old: KryoSerializer) -> TypeSerializer:
    """Return a serializer whose Kryo parts have the job's registrations: those of the part that it replaces."""

    def change(part: TypeSerializer, path: Path) -> TypeSerializer:
        if not isinstance(part, KryoSerializer):
            return with_parts(part, change, path)
        own = part.registrations[:1]
        others = tuple(frame for frame in old.registrations[1:] if frame[0] != part.type_class)
        registrations: tuple[Entry, ...] = (*own, *others)
        return replace(part, registrations=registrations, defaults=old.defaults, default_classes=old.default_classes)

    return change(new, ())


def _own_serializers(existing: TypeSerializer, old: KryoSerializer) -> OwnSerializers | None:
    """Return the classes that the new job registers with serializers of its own, and the old job does not."""
    kryo = [part.classes for part in existing.all_parts() if isinstance(part, KryoSerializer)]
    classes = frozenset[str]().union(*(registered.custom for registered in kryo)) - old.classes.custom
    with_subclasses = frozenset[str]().union(*(registered.defaults for registered in kryo)) - old.classes.custom
    return OwnSerializers(classes, with_subclasses) if classes else None
