"""What Flink decides about a serializer of a snapshot and that of a job: can the one's bytes become the other's?

=============== ============================================================================
as is           the bytes are the same
reconfigured    the same, once the new serializer has taken over an order of the old snapshot
after migration values are read by the old serializer and written by the new one
incompatible    the restore fails
unknown         the user's own snapshot class decides, or what it decides by is not known
=============== ============================================================================

Of a composite the worst part counts, after what its own fields say (:mod:`compatibility_rules`). What only a job knows
(whether a class can be loaded) is taken for granted. Twins: ``TypeSerializerSnapshot#resolveSchemaCompatibility``,
``CompositeTypeSerializerSnapshot``, ``CompositeTypeSerializerUtil``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.ttl import TtlAwareSerializer


class Compatibility(StrEnum):
    """``TypeSerializerSchemaCompatibility.Type``, and UNKNOWN."""

    AS_IS = "as is"
    RECONFIGURED = "reconfigured"
    AFTER_MIGRATION = "after migration"
    UNKNOWN = "unknown"
    INCOMPATIBLE = "incompatible"

    @property
    def severity(self) -> int:
        """Larger is worse."""
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
    """The restore fails."""
    return Resolution(Compatibility.INCOMPATIBLE, (reason,))


def after_migration(reason: str) -> Resolution:
    """Every value is written anew."""
    return Resolution(Compatibility.AFTER_MIGRATION, (reason,))


def reconfigured(reason: str) -> Resolution:
    """The new serializer adopts something of the old snapshot."""
    return Resolution(Compatibility.RECONFIGURED, (reason,))


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


def resolve(old: TypeSerializer, new: TypeSerializer) -> Resolution:
    """What Flink decides when ``old`` stands in a snapshot and ``new`` is the job's."""
    from pyspark_savepoint.statebackends.compatibility_rules import RULES, resolve_opaque

    old, new = _unwrapped(old), _unwrapped(new)
    if old.snapshot_class != new.snapshot_class:
        return incompatible(f"{old.flink_type} versus {new.flink_type}")
    if old.opaque or new.opaque:
        opaque = resolve_opaque(old, new)
        if opaque is not None:
            return opaque
    for kind, rule in RULES:
        if isinstance(old, kind) and isinstance(new, kind):
            return rule(old, new)
    return resolve_parts(old, new)


def resolve_parts(old: TypeSerializer, new: TypeSerializer) -> Resolution:
    """The worst of the parts in their order; there must be as many."""
    if len(old.children) != len(new.children):
        return incompatible(f"{old.flink_type} versus {new.flink_type}: another number of parts")
    pairs = enumerate(zip(old.children, new.children, strict=True))
    return worst(resolve(before, after).within(part_name(old, place)) for place, (before, after) in pairs)


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
