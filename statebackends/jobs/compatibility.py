"""Flink's compatibility check of a snapshot's serializer with the job's: whether the old bytes can still be read.

=============== ============================================================================
as is           the bytes are the same
reconfigured    the same, after the new serializer has adopted an order from the old snapshot
after migration values are read by the old serializer and written by the new one
incompatible    the restore fails
unknown         the user's own snapshot class decides, or its input is not known
misread         Flink considers it compatible, and reads the bytes wrongly
=============== ============================================================================

For a composite, the rules of its own fields (:mod:`compatibility_rules`) come first, then the worst of its parts
counts. Facts that only the job knows (whether a class can be loaded) are assumed to hold. Since 1.19 Flink does not
check whether two composites have the same class, unless the new one has more to compare than its parts: TUPLE<LONG,
LONG> and MAP<LONG, LONG> pass. Flink: ``TypeSerializerSnapshot#resolveSchemaCompatibility``,
``CompositeTypeSerializerSnapshot``, ``CompositeTypeSerializerUtil``.

Effects of another Flink version on a snapshot, independent of the job's types:

============================== =====================================================================================
metadata                       1.x reads versions up to 4, 2.0 up to 5, 2.1 and later up to 6
removed snapshot classes       2.x has no Scala API, no Gelly, and moved the sink of two-phase commits: streams that
                               name such a class cannot be read at all
Kryo                           1.x wrote with Kryo 2, and 2.x reads with Kryo 5: the snapshot passes, the bytes of many
                               classes differ
============================== =====================================================================================

Flink: ``MetadataSerializers``, ``TypeSerializerSnapshot#readVersionedSnapshot``, ``KryoSerializer``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pyspark_savepoint.formats.flink_releases import Flink, last_with_metadata, release_of, why_unknown
from pyspark_savepoint.formats.metadata import CheckpointMetadata
from pyspark_savepoint.formats.serializers.base import CompositeSerializer, TypeSerializer
from pyspark_savepoint.formats.serializers.kryo.described.serializer import KryoSerializer
from pyspark_savepoint.formats.serializers.runtime.ttl import TtlAwareSerializer

#: The first version that does not compare the classes of composites.
COMPOSITES_UNCHECKED: Flink = (1, 19)


class Compatibility(StrEnum):
    """Verdict about two serializers, with UNKNOWN and MISREAD added.

    Flink: ``TypeSerializerSchemaCompatibility.Type``.
    """

    AS_IS = "as is"
    RECONFIGURED = "reconfigured"
    AFTER_MIGRATION = "after migration"
    UNKNOWN = "unknown"
    MISREAD = "misread"
    INCOMPATIBLE = "incompatible"

    @property
    def severity(self) -> int:
        return list(Compatibility).index(self)


@dataclass(frozen=True)
class Resolution:
    """Verdict, with reasons unless it is "as is"; each reason names the part that it is about."""

    verdict: Compatibility
    reasons: tuple[str, ...] = ()

    def within(self, part: str) -> Resolution:
        """Return the resolution as that of a part of something larger."""
        return Resolution(self.verdict, tuple(f"{part}: {reason}" for reason in self.reasons))


AS_IS = Resolution(Compatibility.AS_IS)


def incompatible(reason: str) -> Resolution:
    return Resolution(Compatibility.INCOMPATIBLE, (reason,))


def after_migration(reason: str) -> Resolution:
    """Return the verdict for values that are all rewritten."""
    return Resolution(Compatibility.AFTER_MIGRATION, (reason,))


def reconfigured(reason: str) -> Resolution:
    """Return the verdict for a new serializer that adopts settings of the old snapshot."""
    return Resolution(Compatibility.RECONFIGURED, (reason,))


def misread(reason: str) -> Resolution:
    """Return the verdict for a change that Flink does not detect."""
    return Resolution(Compatibility.MISREAD, (reason,))


def unknown(reason: str) -> Resolution:
    """Return the verdict for a change that only the job can judge."""
    return Resolution(Compatibility.UNKNOWN, (reason,))


def worst(resolutions: Iterable[Resolution]) -> Resolution:
    """Return the worst verdict, with the reasons of all that are equally bad."""
    every = [resolution for resolution in resolutions if resolution.verdict is not Compatibility.AS_IS]
    if not every:
        return AS_IS
    verdict = max((resolution.verdict for resolution in every), key=lambda verdict: verdict.severity)
    reasons = dict.fromkeys(
        reason for candidate in every if candidate.verdict is verdict for reason in candidate.reasons
    )
    return Resolution(verdict, tuple(reasons))


Rule = Callable[[Any, Any, "Resolver"], Resolution]


@dataclass(frozen=True)
class Resolver:
    """Check of a Flink version, with the rules of serializers that compare more than their parts.

    ``rules`` are by class of the job's serializer; the first match counts. ``opaque`` compares serializers of which at
    least one is known only as bytes, and returns None if their rule still applies.
    """

    version: Flink
    rules: tuple[tuple[type[TypeSerializer], Rule], ...]
    opaque: Callable[[TypeSerializer, TypeSerializer], Resolution | None]

    def resolve(self, old: TypeSerializer, new: TypeSerializer) -> Resolution:
        """Return the verdict for serializer ``old`` in a snapshot and ``new`` in the job."""
        old, new = _unwrapped(old), _unwrapped(new)
        rule = next((rule for kind, rule in self.rules if isinstance(new, kind)), None)
        if old.snapshot_class != new.snapshot_class:
            return self._other_class(old, new, is_checked=rule is not None)
        if old.opaque or new.opaque:
            opaque = self.opaque(old, new)
            if opaque is not None:
                return opaque
        return rule(old, new, self) if rule is not None else self.resolve_parts(old, new)

    def _other_class(self, old: TypeSerializer, new: TypeSerializer, *, is_checked: bool) -> Resolution:
        different = f"{old.flink_type} versus {new.flink_type}"
        composite = isinstance(old, CompositeSerializer) and isinstance(new, CompositeSerializer)
        if self.version < COMPOSITES_UNCHECKED or is_checked or not composite:
            return incompatible(different)
        if self.resolve_parts(old, new).verdict is Compatibility.INCOMPATIBLE:
            return incompatible(different)
        return misread(f"{different}: Flink looks at the parts alone, and reads the bytes wrongly")

    def resolve_parts(self, old: TypeSerializer, new: TypeSerializer) -> Resolution:
        """Return the worst verdict of the parts, pairwise in order; their number must be equal."""
        if len(old.children) != len(new.children):
            return incompatible(f"{old.flink_type} versus {new.flink_type}: another number of parts")
        pairs = enumerate(zip(old.children, new.children, strict=True))
        return worst(self.resolve(before, after).within(part_name(old, index)) for index, (before, after) in pairs)


def part_name(serializer: TypeSerializer, position: int) -> str:
    """Return the name of a part for messages: ``field f1``, ``the map's value``, ``inside list`` ..."""
    family = serializer.flink_type.partition("<")[0].lower().replace("_", " ")
    count = len(serializer.children)
    if family in ("tuple", "row", "rowdata", "case class"):
        return f"field f{position}"
    if family in ("map", "sorted map") and count == 2:
        return ("the map's key", "the map's value")[position]
    return f"inside {family}" if count == 1 else f"part {position} of {family}"


def _unwrapped(serializer: TypeSerializer) -> TypeSerializer:
    return serializer.inner if isinstance(serializer, TtlAwareSerializer) else serializer


SECOND: Flink = (2, 0)


def flink_of(metadata: CheckpointMetadata) -> Flink:
    """Return the newest Flink that may have written the snapshot."""
    return last_with_metadata(metadata.version).version


def metadata_problem(metadata: CheckpointMetadata, version: Flink) -> str | None:
    """Return why this Flink cannot open the snapshot, or None."""
    newest = release_of(version).metadata
    if metadata.version <= newest:
        return None
    return f"metadata version {metadata.version}; Flink {'.'.join(map(str, version))} reads versions up to {newest}"


def crosses(metadata: CheckpointMetadata, version: Flink) -> bool:
    """Return whether a job of Flink 2 restores a snapshot of Flink 1."""
    return flink_of(metadata) < SECOND <= version


def resolve_version(
    serializers: Iterable[TypeSerializer], metadata: CheckpointMetadata, version: Flink, kryo: bool = True
) -> Resolution:
    """Return the verdict of a newer Flink about an operator's serializers; about those of Kryo only if asked."""
    if not crosses(metadata, version):
        return worst(())
    parts = (part for serializer in serializers for part in serializer.all_parts())
    return worst(resolution for part in parts for resolution in _crossing(part, version, kryo))


def _crossing(serializer: TypeSerializer, version: Flink, kryo: bool) -> Iterator[Resolution]:
    problem = why_unknown(serializer.snapshot_class, version)
    if problem is not None:
        yield incompatible(f"{problem}, and cannot read the snapshot at all")
    if kryo and isinstance(serializer, KryoSerializer):
        yield unknown(
            f"{serializer.flink_type} was written by Kryo 2, and Flink 2 reads with Kryo 5: check_migration shows "
            "what becomes of the values"
        )
