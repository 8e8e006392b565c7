"""Rules for serializers that compare more than their parts, each as in Flink's snapshot class of the same name.

A rule gets the serializers of the snapshot and of the job, both of one snapshot class. Flink: ``...Snapshot#
resolveOuterSchemaCompatibility`` and ``#resolveSchemaCompatibility`` of the classes named below.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyspark_savepoint.formats.serializers.avro.serializer import AvroSerializer
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.basic.enums import EnumSerializer, ScalaEnumSerializer
from pyspark_savepoint.formats.serializers.basic.primitives import SimpleSerializer
from pyspark_savepoint.formats.serializers.composite.collections import (
    GenericArraySerializer,
    LinkedListSerializer,
    SortedMapSerializer,
)
from pyspark_savepoint.formats.serializers.composite.pojo import PojoSerializer
from pyspark_savepoint.formats.serializers.composite.row import RowSerializer
from pyspark_savepoint.formats.serializers.composite.tuples import CaseClassSerializer
from pyspark_savepoint.formats.serializers.composite.wrappers import NullableSerializer, TraversableSerializer
from pyspark_savepoint.formats.serializers.kryo.described.serializer import KryoSerializer
from pyspark_savepoint.formats.serializers.runtime.cep import NfaStateSerializer
from pyspark_savepoint.formats.serializers.runtime.generic import GenericSerializer
from pyspark_savepoint.formats.serializers.runtime.timers_and_sinks import TwoPhaseCommitSerializer
from pyspark_savepoint.formats.serializers.sql.rowdata import (
    BinaryRowDataSerializer,
    CollectionDataSerializer,
    RowDataSerializer,
)
from pyspark_savepoint.formats.serializers.sql.table_data import DecimalDataSerializer, TimestampDataSerializer
from pyspark_savepoint.formats.serializers.sql.table_wrappers import ExternalSerializer
from pyspark_savepoint.statebackends.jobs.compatibility.avro_compatibility import resolve_avro
from pyspark_savepoint.statebackends.jobs.compatibility.compatibility import (
    AS_IS,
    NEWEST_FLINK,
    Flink,
    Resolution,
    Resolver,
    Rule,
    after_migration,
    incompatible,
    reconfigured,
    unknown,
    worst,
)
from pyspark_savepoint.statebackends.jobs.compatibility.pojo_compatibility import resolve_pojo


def resolve_opaque(old: TypeSerializer, new: TypeSerializer) -> Resolution | None:
    """Compare serializers of which at least one is known only as bytes; return None if their rule still applies."""
    if isinstance(old, (KryoSerializer, AvroSerializer, GenericSerializer, SimpleSerializer)):
        return None
    if old == new:
        return AS_IS
    return unknown(f"the snapshot class {old.snapshot_class} is the user's own, and its content differs")


def _resolve_generic(old: GenericSerializer, new: GenericSerializer, _resolver: Resolver) -> Resolution:
    if old.type_class != new.type_class:
        return incompatible(f"values of {old.type_class} versus {new.type_class}")
    return AS_IS


def _resolve_enum(old: EnumSerializer, new: EnumSerializer, _resolver: Resolver) -> Resolution:
    if old.enum_class != new.enum_class:
        return incompatible(f"the enum {old.enum_class} versus {new.enum_class}")
    gone = [name for name in old.constants if name not in new.constants]
    if gone:
        return incompatible(
            f"the enum {old.enum_class} has no constant {', '.join(gone)} any more, so that Flink cannot read "
            "the snapshot at all: keep constants that were once there"
        )
    if old.constants == new.constants:
        return AS_IS
    return reconfigured(f"the enum {old.enum_class} has new constants, or another order of them")


def _resolve_scala_enum(old: ScalaEnumSerializer, new: ScalaEnumSerializer, _resolver: Resolver) -> Resolution:
    if old.enum_class != new.enum_class:
        return incompatible(f"the enumeration {old.enum_class} versus {new.enum_class}")
    ids = dict(zip(new.constants, new.ids, strict=True))
    for name, number in zip(old.constants, old.ids, strict=True):
        if ids.get(name) != number:
            return incompatible(f"{old.enum_class}.{name} was number {number}, and is {ids.get(name, 'gone')}")
    return AS_IS


def _resolve_kryo(old: KryoSerializer, new: KryoSerializer, _resolver: Resolver) -> Resolution:
    if old.type_class != new.type_class:
        return incompatible(f"KRYO<{old.type_class}> versus KRYO<{new.type_class}>")
    pairs = (
        (old.registrations, new.registrations),
        (old.defaults, new.defaults),
        (old.default_classes, new.default_classes),
    )
    for before, after in pairs:
        here = {name for name, key, _ in after if key is not None}
        gone = [name for name, key, _ in before if key is None and name not in here]
        if gone:
            return incompatible(f"classes that were registered with Kryo could not be loaded: {', '.join(gone)}")
    if all(_is_prefix([frame[0] for frame in before], [frame[0] for frame in after]) for before, after in pairs):
        return AS_IS
    return reconfigured("classes are registered with Kryo in another order")


def _is_prefix(before: Sequence[str], after: Sequence[str]) -> bool:
    return list(after[: len(before)]) == list(before)


def _resolve_row_data(old: RowDataSerializer, new: RowDataSerializer, resolver: Resolver) -> Resolution:
    if len(old.fields) != len(new.fields):
        return incompatible(f"rows of {len(old.fields)} fields versus {len(new.fields)}")
    for place, (before, after) in enumerate(zip(old.fields, new.fields, strict=True)):
        if before.kind != after.kind:
            return incompatible(f"field f{place}: {before.kind} versus {after.kind}; SQL rows do not migrate")
    return resolver.resolve_parts(old, new)


def _resolve_collection_data(
    old: CollectionDataSerializer, new: CollectionDataSerializer, _resolver: Resolver
) -> Resolution:
    before, after = ([str(part.kind) for part in side.kinds] for side in (old, new))
    if [part.kind for part in old.kinds] != [part.kind for part in new.kinds]:
        return incompatible(f"{', '.join(before)} versus {', '.join(after)}")
    return AS_IS


def _equal(what: str, part: Callable[[Any], object]) -> Rule:
    """Return a rule: a property must be equal, else incompatible; then the nested serializers count."""

    def rule(old: TypeSerializer, new: TypeSerializer, resolver: Resolver) -> Resolution:
        before, after = part(old), part(new)
        if before == after:
            return resolver.resolve_parts(old, new)
        shown = "" if isinstance(before, (bytes, tuple)) else f": {before} versus {after}"
        return incompatible(f"{old.flink_type} has another {what}{shown}")

    return rule


def _migrates(what: str, part: Callable[[Any], object]) -> Rule:
    """Return a rule: if a property differs, values migrate, provided that the parts allow it."""

    def rule(old: TypeSerializer, new: TypeSerializer, resolver: Resolver) -> Resolution:
        parts = resolver.resolve_parts(old, new)
        if part(old) == part(new):
            return parts
        return worst([after_migration(f"{old.flink_type} is written {what} since"), parts])

    return rule


#: Rules by class of the job's serializer; the first match counts.
RULES: tuple[tuple[type[TypeSerializer], Rule], ...] = (
    (PojoSerializer, resolve_pojo),
    (ScalaEnumSerializer, _resolve_scala_enum),
    (EnumSerializer, _resolve_enum),
    (KryoSerializer, _resolve_kryo),
    (AvroSerializer, resolve_avro),
    (GenericSerializer, _resolve_generic),
    (RowDataSerializer, _resolve_row_data),
    (CollectionDataSerializer, _resolve_collection_data),
    (BinaryRowDataSerializer, _equal("number of fields", lambda row: row.fields)),
    (DecimalDataSerializer, _equal("precision or scale", lambda data: (data.precision, data.scale))),
    (TimestampDataSerializer, _equal("precision", lambda data: data.precision)),
    (NullableSerializer, _equal("padding", lambda nullable: nullable.padding)),
    (GenericArraySerializer, _equal("class of elements", lambda array: array.component_class)),
    (CaseClassSerializer, _equal("class", lambda product: product.class_name)),
    (TraversableSerializer, _equal("builder", lambda traversable: traversable.builder_code)),
    (SortedMapSerializer, _equal("comparator", lambda sorted_map: sorted_map.comparator)),
    (ExternalSerializer, _equal("data type", lambda external: (external.data_type, external.internal_input))),
    (RowSerializer, _migrates("with or without a row kind", lambda row: row.supports_row_kind)),
    (LinkedListSerializer, _migrates("with or without a mask of nulls", lambda linked: linked.has_null_mask)),
    (
        TwoPhaseCommitSerializer,
        _migrates("with or without null transactions", lambda state: state.supports_null_transaction),
    ),
    (
        NfaStateSerializer,
        _migrates("with or without a previous timestamp", lambda state: state.supports_previous_timestamp),
    ),
)


def resolve(old: TypeSerializer, new: TypeSerializer, version: Flink = NEWEST_FLINK) -> Resolution:
    """Return the verdict of a Flink version for serializer ``old`` in a snapshot and ``new`` in the job."""
    return Resolver(version, RULES, resolve_opaque).resolve(old, new)
