"""What Flink decides about a serializer of a snapshot and that of a job: can the one's bytes become the other's?

=============== ============================================================================
as is           the bytes are the same
reconfigured    the same, once the new serializer has taken over an order of the old snapshot
after migration values are read by the old serializer and written by the new one
incompatible    the restore fails
unknown         the user's own snapshot class decides, or what it decides by is not known
misread         Flink takes it for compatible, and reads the bytes wrongly
=============== ============================================================================

Of a composite the worst part counts, after what its own fields say (:mod:`compatibility_rules`). What only a job knows
(whether a class can be loaded) is taken for granted. Since 1.19 Flink does not look whether two composites are of one
class, where the new one has no more to compare than its parts: TUPLE<LONG, LONG> and MAP<LONG, LONG> pass. Flink:
``TypeSerializerSnapshot#resolveSchemaCompatibility``, ``CompositeTypeSerializerSnapshot``,
``CompositeTypeSerializerUtil``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from pyspark_savepoint.formats.serializers.base import CompositeSerializer, TypeSerializer
from pyspark_savepoint.formats.serializers.runtime.ttl import TtlAwareSerializer

Flink = tuple[int, int]
NEWEST_FLINK: Flink = (2, 3)
#: Since when the class of a composite is not compared.
COMPOSITES_UNCHECKED: Flink = (1, 19)


class Compatibility(StrEnum):
    """``TypeSerializerSchemaCompatibility.Type``, and UNKNOWN."""

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
    """A verdict, and the reasons for it where it is not "as is": each names the part that it is about."""

    verdict: Compatibility
    reasons: tuple[str, ...] = ()

    def within(self, part: str) -> Resolution:
        """The same, said of a part of something larger."""
        return Resolution(self.verdict, tuple(f"{part}: {reason}" for reason in self.reasons))


AS_IS = Resolution(Compatibility.AS_IS)


def incompatible(reason: str) -> Resolution:
    return Resolution(Compatibility.INCOMPATIBLE, (reason,))


def after_migration(reason: str) -> Resolution:
    """Every value is written anew."""
    return Resolution(Compatibility.AFTER_MIGRATION, (reason,))


def reconfigured(reason: str) -> Resolution:
    """The new serializer adopts something of the old snapshot."""
    return Resolution(Compatibility.RECONFIGURED, (reason,))


def misread(reason: str) -> Resolution:
    """Flink does not notice."""
    return Resolution(Compatibility.MISREAD, (reason,))


def unknown(reason: str) -> Resolution:
    """Nobody but the job can tell."""
    return Resolution(Compatibility.UNKNOWN, (reason,))


def worst(resolutions: Iterable[Resolution]) -> Resolution:
    """The worst verdict, with the reasons of all that are as bad."""
    every = [resolution for resolution in resolutions if resolution.verdict is not Compatibility.AS_IS]
    if not every:
        return AS_IS
    verdict = max((resolution.verdict for resolution in every), key=lambda verdict: verdict.severity)
    reasons = dict.fromkeys(reason for found in every if found.verdict is verdict for reason in found.reasons)
    return Resolution(verdict, tuple(reasons))


def resolve(old: TypeSerializer, new: TypeSerializer, version: Flink = NEWEST_FLINK) -> Resolution:
    """What Flink of a version decides when ``old`` stands in a snapshot and ``new`` is the job's."""
    from pyspark_savepoint.statebackends.jobs.compatibility.compatibility_rules import RULES, resolve_opaque

    old, new = _unwrapped(old), _unwrapped(new)
    rule = next((rule for kind, rule in RULES if isinstance(new, kind)), None)
    if old.snapshot_class != new.snapshot_class:
        return _other_class(old, new, version, is_checked=rule is not None)
    if old.opaque or new.opaque:
        opaque = resolve_opaque(old, new)
        if opaque is not None:
            return opaque
    return rule(old, new, version) if rule is not None else resolve_parts(old, new, version)


def _other_class(old: TypeSerializer, new: TypeSerializer, version: Flink, *, is_checked: bool) -> Resolution:
    different = f"{old.flink_type} versus {new.flink_type}"
    composite = isinstance(old, CompositeSerializer) and isinstance(new, CompositeSerializer)
    if version < COMPOSITES_UNCHECKED or is_checked or not composite:
        return incompatible(different)
    if resolve_parts(old, new, version).verdict is Compatibility.INCOMPATIBLE:
        return incompatible(different)
    return misread(f"{different}: Flink looks at the parts alone, and reads the bytes wrongly")


def resolve_parts(old: TypeSerializer, new: TypeSerializer, version: Flink = NEWEST_FLINK) -> Resolution:
    """The worst of the parts in their order; there must be as many."""
    if len(old.children) != len(new.children):
        return incompatible(f"{old.flink_type} versus {new.flink_type}: another number of parts")
    pairs = enumerate(zip(old.children, new.children, strict=True))
    return worst(resolve(before, after, version).within(part_name(old, place)) for place, (before, after) in pairs)


def part_name(serializer: TypeSerializer, place: int) -> str:
    """What messages call a part: ``f1``, ``the element``, ``the value of the map`` ..."""
    family = serializer.flink_type.partition("<")[0].lower().replace("_", " ")
    count = len(serializer.children)
    if family in ("tuple", "row", "rowdata", "case class"):
        return f"field f{place}"
    if family in ("map", "sorted map") and count == 2:
        return ("the map's key", "the map's value")[place]
    return f"inside {family}" if count == 1 else f"part {place} of {family}"


def _unwrapped(serializer: TypeSerializer) -> TypeSerializer:
    return serializer.inner if isinstance(serializer, TtlAwareSerializer) else serializer
