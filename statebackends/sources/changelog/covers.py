"""Check whether one serializer reads what another wrote, so that a materialized state and its changes are one state."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.composite.optional_map import Member
from pyspark_savepoint.formats.serializers.composite.pojo import PojoSerializer


def covers(wide: TypeSerializer, narrow: TypeSerializer) -> bool:
    """Return whether serializer ``wide`` reads everything that ``narrow`` wrote.

    They differ where subclasses of a POJO were registered later, on first use.
    """
    if type(wide) is not type(narrow) or wide.snapshot_class != narrow.snapshot_class:
        return False
    if wide.flink_type == narrow.flink_type:
        return True
    if isinstance(wide, PojoSerializer) and isinstance(narrow, PojoSerializer):
        others = {member.name: member for member in wide.others}
        pairs = [*_pairs(wide.fields, narrow.fields), *_pairs(wide.registered, narrow.registered)]
        pairs += [(others.get(member.name), member) for member in narrow.others]
        return wide.class_name == narrow.class_name and all(_covers_member(*pair) for pair in pairs)
    children = list(zip_longest(wide.children, narrow.children))
    return bool(children) and all(one and other and covers(one, other) for one, other in children)


def _pairs(wide: Sequence[Member], narrow: Sequence[Member]) -> list[tuple[Member | None, Member | None]]:
    return list(zip_longest(wide, narrow))


def _covers_member(wide: Member | None, narrow: Member | None) -> bool:
    if wide is None or narrow is None or wide.name != narrow.name:
        return False
    return covers(wide.serializer, narrow.serializer)
