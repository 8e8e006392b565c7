"""Keys of which only the job's own serializer knows the ends: they end where what is behind them begins.

Behind a key are its namespace, and a user key or a value. Where these have known types, a key ends at a place from
which they parse to exactly the end. The true end is such a place. So it is the end if it is the only one. If there are
more, keys of other rows tell: a serializer reads its values without a length, so no key begins with another.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pyspark_savepoint.formats.serializers.basic.primitives import ConstantSerializer
from pyspark_savepoint.formats.serializers.layout import Part, program

if TYPE_CHECKING:
    from pyspark_savepoint.formats.columns import Cursors, Longs

#: How often the bytes of a row may be parsed.
STEPS = 16
#: The place of a key that may end at several.
SEVERAL = -2


def skip_unknown_keys(at: Cursors, behind: Sequence[Part]) -> bool:
    """Move every cursor past a key of unknown length, behind which values of the parts go on to the end.

    Returns:
        False if a key may end at several places, or if the ends of what is behind it are not known.

    """
    from pyspark_savepoint.formats.kernels import skip

    compiled = program(*behind)
    places: Longs = at.end - sum(compiled.widths)
    if min(compiled.widths) < 0:
        if not compiled.is_known:
            return False
        first = behind[0]
        zeros = first.width if isinstance(first, ConstantSerializer) else 0
        parts = compiled.tables, compiled.parts
        skip.only_places(*parts[0], parts[1], at.buffer, at.position, at.end, zeros, STEPS, places)
        _by_other_keys(at, places)
    none = np.flatnonzero((places < at.position) & (places != SEVERAL))
    if len(none):
        at.fail(int(none[0]), "a key, and behind it " + ", ".join(part.flink_type for part in behind))
    if np.any(places == SEVERAL):
        return False
    at.position[:] = places
    return True


def _by_other_keys(at: Cursors, places: Longs) -> None:
    """Find the ends that are not the only ones, where a key of another row is what the row begins with."""
    several = np.flatnonzero(places == SEVERAL).tolist()
    if not several:
        return
    data, start, end = at.buffer, at.position.tolist(), at.end.tolist()
    rows = np.flatnonzero(places > at.position).tolist()
    known = {data[start[row] : places[row]].tobytes() for row in rows}
    sizes = sorted({len(key) for key in known})
    for row in several:
        stops = (start[row] + size for size in sizes if start[row] + size <= end[row])
        places[row] = next((stop for stop in stops if data[start[row] : stop].tobytes() in known), SEVERAL)
