"""PyFlink in thread mode: its states are Flink's own, under their own names; what it pickles are byte arrays.

The job is that of the other PyFlink tests, run by 1.20.3 with ``python.execution-mode=thread``, without the states and
windows of which that mode cannot take a savepoint (ClassCastException in Flink's serializers: ``v_list``, ``v_date``,
``v_bytes``, windows), without ``v_instant``, and with a dict in ``v_custom``.
"""

from __future__ import annotations

import pytest

from pyspark_savepoint.command_line.warming import unpack
from pyspark_savepoint.formats.snapshot.savepoint import find_snapshots
from tests.statebackends.python.test_pyflink_job import OF_FLINK_2, PICKLED_KEYS, STRING_KEYS, TUPLE_KEYS
from tests.statebackends.python.test_pyflink_writes import read


@pytest.fixture(scope="module")
def threads(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("threads")
    unpack(OF_FLINK_2.with_name("1.20.3-thread.tar.xz"), folder)
    return find_snapshots(str(folder))[0].path


@pytest.mark.parametrize(("uid", "keys"), [(STRING_KEYS, 20), (PICKLED_KEYS, 10), (TUPLE_KEYS, 20)])
def test_states_of_thread_mode_read_without_types(threads: str, uid: str, keys: int) -> None:
    rows = read(threads, uid, pickle="true").to_pylist()

    assert len(rows) == keys
    for row in rows:
        elements = row["list"]
        last = elements[-1]
        assert row["v_long"] == row["red"] == sum(elements)
        assert (row["v_string"], row["v_ttl"], dict(row["v_map"])) == (f"s{last}é漢", last, {f"k{last}": last})
        assert dict(row["map"]) == {f"m{element % 5}": element for element in elements}
    assert read(threads, uid, table="timers").num_rows == 300 + keys
