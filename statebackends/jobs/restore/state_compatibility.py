"""Compatibility of a registered state of a snapshot with a state that a job registers.

=================== ==========================================================================================
the key             as is or reconfigured; keys never migrate
the kind            VALUE, LIST, MAP, REDUCING, AGGREGATING and LIST, UNION must not change
the namespace       as is or reconfigured
the value           anything but incompatible; a map's keys do not migrate in RocksDB and ForSt
time to live        switched on or off: incompatible up to Flink 2.0, a migration since 2.2
=================== ==========================================================================================

Flink: ``RegisteredKeyValueStateBackendMetaInfo#checkStateMetaInfo``, ``HeapKeyedStateBackend``,
``RocksDBKeyedStateBackend#tryRegisterKvStateInformation``, ``DefaultOperatorStateBackend``,
``TtlAwareSerializerSnapshot``.
"""

from __future__ import annotations

from pyspark_savepoint.formats.keyed.meta_info import StateMetaInfoSnapshot
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.composite.collections import ListSerializer, MapSerializer
from pyspark_savepoint.formats.serializers.runtime.ttl import TtlSerializer
from pyspark_savepoint.statebackends.jobs.compatibility.compatibility import (
    AS_IS,
    Compatibility,
    Flink,
    Resolution,
    after_migration,
    incompatible,
    unknown,
    worst,
)
from pyspark_savepoint.statebackends.jobs.compatibility.compatibility_rules import resolve
from pyspark_savepoint.statebackends.jobs.restore.job_description import StateDescription

#: The kind recorded by Flink up to 1.4: it is compatible with any kind.
UNKNOWN_KIND = "UNKNOWN"
#: Values migrate to and from a time to live since 2.2; 2.1 supports a part of that.
TTL_STAYS, TTL_MIGRATES = (2, 0), (2, 2)


def resolve_key(old: TypeSerializer, new: TypeSerializer, version: Flink) -> Resolution:
    """Compare keys, which cannot migrate because their hashes decide their place."""
    return _without_migration(resolve(old, new, version), "the key").within("key")


def resolve_keyed_state(
    old: StateMetaInfoSnapshot, new: StateDescription, backend: str | None, version: Flink
) -> Resolution:
    """Compare a keyed state; if the backend is unknown, a change that any backend refuses is incompatible."""
    if old.state_type not in (new.kind, UNKNOWN_KIND):
        return incompatible(f"was registered as {old.state_type}, and is now {new.kind}")
    found = [_resolve_value(old.value_serializer, new.serializer, version)]
    if new.namespace is not None:
        namespace = resolve(old.namespace_serializer, new.namespace, version)
        found.append(_without_migration(namespace, "the namespace").within("namespace"))
    if (
        backend != "hashmap"
        and isinstance(old.value_serializer, MapSerializer)
        and isinstance(new.serializer, MapSerializer)
    ):
        user_key = resolve(old.value_serializer.nested[0], new.serializer.nested[0], version)
        found.append(_without_migration(user_key, "a map's key").within("the map's key"))
    return worst(found)


def resolve_operator_state(old: StateMetaInfoSnapshot, new: StateDescription, version: Flink) -> Resolution:
    """Compare an operator state; a broadcast state and a list state of one name are separate states."""
    if old.state_type != new.kind:
        if "BROADCAST" in (old.state_type, new.kind):
            return Resolution(
                Compatibility.AS_IS,
                (f"was a {old.state_type} state: the {new.kind} state of that name begins empty",),
            )
        return incompatible(f"was registered as {old.state_type}, and is now {new.kind}")
    found = [resolve(old.value_serializer, new.serializer, version)]
    if new.key is not None:
        found.append(resolve(old.serializers["KEY_SERIALIZER"], new.key, version).within("key"))
    return worst(found)


def _resolve_value(old: TypeSerializer, new: TypeSerializer, version: Flink) -> Resolution:
    if isinstance(old, ListSerializer) and isinstance(new, ListSerializer):
        return _resolve_unit(old.nested[0], new.nested[0], version).within("the elements")
    if isinstance(old, MapSerializer) and isinstance(new, MapSerializer):
        key = resolve(old.nested[0], new.nested[0], version).within("the map's key")
        return worst([key, _resolve_unit(old.nested[1], new.nested[1], version).within("the map's value")])
    return _resolve_unit(old, new, version)


def _resolve_unit(old: TypeSerializer, new: TypeSerializer, version: Flink) -> Resolution:
    """Compare units that carry the time of last access: a value, an element, or the value of a map."""
    was, will = isinstance(old, TtlSerializer), isinstance(new, TtlSerializer)
    if was == will:
        return resolve(old, new, version)
    values = resolve(
        old.value if isinstance(old, TtlSerializer) else old,
        new.value if isinstance(new, TtlSerializer) else new,
        version,
    )
    switched = f"a time to live is switched {'off' if was else 'on'}"
    if version <= TTL_STAYS:
        return incompatible(f"{switched}, which only Flink 2.2 and later can do")
    if version < TTL_MIGRATES:
        return unknown(f"{switched}, which Flink 2.1 can do in part")
    return worst([after_migration(switched), values])


def _without_migration(found: Resolution, what: str) -> Resolution:
    if found.verdict is not Compatibility.AFTER_MIGRATION:
        return found
    return incompatible(f"{what} cannot migrate: {'; '.join(found.reasons)}") if found.reasons else AS_IS
