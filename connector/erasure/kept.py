"""What conditions must have left: the older rows without what they name, compared with the newer ones.

A condition may name an element by its position (``list_index = 0``): then the next element moves there, and matches in
the newer snapshot. So the newer snapshot is not searched for what conditions name: it is compared with what is left of
the older one, and each element that a condition does not name must be there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from pyspark_savepoint.erasure.elements import Elements, WithoutElements
from pyspark_savepoint.erasure.erasing import ELEMENTS, Erasing
from pyspark_savepoint.erasure.tables import KEYED_TABLES, OF_OPERATOR, batches_of
from pyspark_savepoint.formats.errors import SavepointError
from pyspark_savepoint.statebackends.merging.row_bytes import row_bytes
from pyspark_savepoint.text.texts import numbered

#: Columns that are others when an element before is gone, or counts of what is there.
MOVING = frozenset({*OF_OPERATOR, "subtask", "position", "expected"})
OPERATOR_STATE = "operator_state"
#: Operator, table and state of elements, as :class:`Looked` counts them.
Place = tuple[str, str, str]


def compared(
    old: Erasing, new: Erasing, changed: Callable[[str, Elements], pa.Table]
) -> Iterator[tuple[Place, str | None]]:
    """Yield for each condition on elements that was checked how the newer snapshot differs; None if it does not.

    Rows of connectors and records in flight are compared only if a condition still has some: they have columns that a
    write changes.

    Args:
        old: The older snapshot, examined.
        new: The newer one, examined.
        changed: Returns the rows of a keyed state that differ, by operator and condition.

    """
    for own, several in old.elements.items():
        for one in several:
            keyed = one.table in KEYED_TABLES
            place = own, one.table, f"{ELEMENTS}{one.state}" if keyed else one.state or ""
            if not keyed and one.table != OPERATOR_STATE and not _count(new, place):
                continue
            try:
                how = (
                    _elements(changed(own, one), old, own, one, _count(old, place))
                    if keyed
                    else _rows(old, new, own, one)
                )
            except SavepointError as error:
                how = f"cannot be compared: {error}"
            yield place, how


def _count(erasing: Erasing, place: Place) -> int:
    counts = erasing.looked.states.get(place)
    return 0 if counts is None else counts.removed


def _elements(changed: pa.Table, old: Erasing, own: str, one: Elements, named: int) -> str | None:
    """Compare a keyed state: in rows that differ, the newer value is the older one without what the condition names."""
    wrong = removed = 0
    for batch in changed.to_batches():
        names = [name for name in ("key", "window") if name in batch.schema.names]
        column = next(name for name in (one.state, f"state_{one.state}") if f"{name}_before" in batch.schema.names)
        before, after = (batch.column(f"{column}_{side}") for side in ("before", "after"))
        rows = pa.record_batch([*(batch.column(name) for name in names), before], [*names, column])
        left, _, gone = WithoutElements.of(one, rows.schema).of_batch(rows)
        removed += gone
        differs = pc.not_equal(row_bytes([left.column(column)]), row_bytes([after]))
        wrong += pc.and_(differs, pc.invert(old.keys[own].mask(rows))).true_count
    if wrong:
        return f"{numbered(wrong, 'value')} other than the condition leaves"
    return f"{numbered(named - removed, 'element')} still there" if removed < named else None


def _rows(old: Erasing, new: Erasing, own: str, one: Elements) -> str | None:
    """Compare the rows of another table, in any order."""
    sides: list[Mapping[str, pa.DataType]] = []
    stored: list[pa.Array] = []
    for erasing in (old, new):
        schema, batches = batches_of(erasing.options, erasing.path, **erasing.rows_options(own, one))
        names = sorted(name for name in schema.names if name not in MOVING)
        mask = one.mask(schema) if erasing is old else None
        kept = (batch if mask is None else batch.filter(pc.invert(mask(batch))) for batch in batches)
        parts = [row_bytes([batch.column(name) for name in names]) for batch in kept if len(batch)]
        sides.append({name: schema.field(name).type for name in names})
        stored.append(pa.concat_arrays(parts) if parts else pa.array([], pa.large_binary()))
    if sides[0] == sides[1]:
        before, after = (rows.take(pc.sort_indices(rows)) for rows in stored)
        if before.equals(after):
            return None
    elif not len(stored[0]) and not len(stored[1]):
        return None
    return f"{numbered(len(stored[1]), 'row')}, other than the {len(stored[0])} that the condition leaves"
