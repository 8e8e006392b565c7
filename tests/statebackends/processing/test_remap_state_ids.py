"""Entries that functions made, as a part of an operator's entries: numbers of another head, and the keys alone."""

from __future__ import annotations

from pyspark_savepoint.formats.columns import DecodeOptions
from pyspark_savepoint.formats.serializers.basic.strings import STRING, StringSerializer
from pyspark_savepoint.statebackends.processing.operators.bootstrap import BootstrapTask
from pyspark_savepoint.statebackends.processing.runtime.values import from_python
from pyspark_savepoint.statebackends.rows.descriptors import StateKind
from pyspark_savepoint.statebackends.writing.entry_encoder import RemapStateIds, serialized
from tests.statebackends.processing.tasks import batches_of, plan_of
from tests.statebackends.processing.test_bootstrap import Everything

RAW = DecodeOptions()
RECORDS = [("a", 1, 1), ("ab", -5, 2), ("", 7, 3), ("a", 9, 4)]


def test_numbers_change_states_are_left_out_and_keys_are_found() -> None:
    plan = plan_of(Everything())
    assert plan.states is not None
    entries = list(BootstrapTask(plan, 0).run(batches_of(RECORDS)))
    # The list goes, the others come behind three states that are there already.
    numbers = tuple(-1 if state.kind is StateKind.LIST else i + 3 for i, state in enumerate(plan.states))
    found = [row for batch in RemapStateIds(plan.descriptor, numbers, True)(entries) for row in batch.to_pylist()]
    before = [row for batch in entries for row in batch.to_pylist()]
    kept = [row for row in before if numbers[row["state"]] >= 0]
    assert 0 < len(kept) < len(before)
    assert [{**row, "state": row["state"] - 3} for row in found] == [
        {**row, "serialized_key": other["serialized_key"]} for row, other in zip(kept, found, strict=True)
    ]
    keys = serialized(
        StringSerializer.of(STRING), from_python(["", "a", "ab"], plan.key.key_serializer.arrow_type(RAW), "k")
    )
    assert {row["serialized_key"] for row in found} == set(keys.to_pylist())
    plain = [row for batch in RemapStateIds(plan.descriptor, numbers, False)(entries) for row in batch.to_pylist()]
    assert plain == [{name: row[name] for name in plain[0]} for row in found]
