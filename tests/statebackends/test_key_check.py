"""Keys that are not of the key group that they lie in are refused: Flink would never find them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from keyed_models import KEYED, Model, Written, by_key, expected, write

from pyspark_savepoint.formats.errors import CorruptStateError
from pyspark_savepoint.formats.key_groups import KeyGroupRange, KeyGroupRangeOffsets
from pyspark_savepoint.statebackends.keyed_sources import KeyedSource

MODEL: Model = {key: {"total": key, "items": [1, 2]} for key in range(40)}


@pytest.mark.parametrize("heap", [False, True])
def test_a_key_in_another_key_group_is_damage(heap: bool) -> None:
    sound = write(MODEL, heap=heap, max_parallelism=4)
    assert by_key(sound.rows(KEYED, 1 << 20)) == expected(MODEL, KEYED)

    with pytest.raises(CorruptStateError, match="is not of this key group") as raised:
        Written(sound.source, 3).rows(KEYED, 1 << 20)

    facts = raised.value.facts
    assert facts["path"] == "the stream"
    assert facts["operator"] == "the operator"
    assert "key group" in facts["found"]
    assert "option('raw', 'key')" in facts["remedy"]


def test_a_handle_of_other_key_groups_is_noticed() -> None:
    source = write(MODEL, heap=False, max_parallelism=4).source
    assert isinstance(source, KeyedSource)
    first = source.offsets.offsets[0]
    shifted = replace(source, offsets=KeyGroupRangeOffsets(KeyGroupRange(1, 1), (first,)))

    with pytest.raises(CorruptStateError, match="key group 1 is damaged"):
        Written(shifted, 4).rows(KEYED, 1 << 20)
