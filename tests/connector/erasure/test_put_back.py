"""The proof of an erasure fails wherever the person is put back, one place after the other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import pyspark_savepoint
from pyspark_savepoint import LocalSavepoint
from pyspark_savepoint.erasure.report import ErasureReport
from tests.connector.erasure.conftest import opened_job as opened
from tests.connector.erasure.test_erasing import errors
from tests.connector.erasure.test_person import OF_KEYS
from tests.oracle.person import BY, KEYED, RECORD_TYPES, UIDS, WHERE, keys

pytestmark = [pytest.mark.slow("a person is put back in one place after the other"), pytest.mark.many_sets]


def put_back(old: LocalSavepoint, new: LocalSavepoint) -> Iterator[tuple[str, LocalSavepoint]]:
    """The erased savepoint with one state of keys as it was before."""
    for uid, state in OF_KEYS:
        if uid in ("by-kryo", "by-pojo", "opaque"):  # not written alone; the other test has them
            continue
        if state.endswith("timers"):
            timers = old.timers(uid, state=state)
            yield f"{uid}.{state}", new.remove_state(uid, state).with_timers(uid, timers)
        else:
            table = old.window_state(uid, state=state) if uid == "windows" else old.keyed_state(uid, state=state)
            yield f"{uid}.{state}", new.with_state(uid, state, table)


def test_one_state_that_is_put_back_is_found(job: Path, erased: tuple[Path, ErasureReport], tmp_path: Path) -> None:
    folder, report = erased
    old = pyspark_savepoint.open(job, uids=UIDS, timestamps="raw")
    new = pyspark_savepoint.open(folder, uids=UIDS, timestamps="raw")
    for number, (name, changed) in enumerate(put_back(old, new)):
        written = changed.write(tmp_path / f"{number}")
        assert "rows" in errors(opened(written.path or "").verify_erasure(report, keys(), where=WHERE)), name


@pytest.mark.parametrize("name", [*KEYED, *WHERE])
def test_one_operator_or_condition_that_is_forgotten_is_found(
    job: Path, erased: tuple[Path, ErasureReport], tmp_path: Path, name: str
) -> None:
    """Everything is erased but in one place."""
    _, report = erased
    where = {one: condition for one, condition in WHERE.items() if one != name}
    kind = "no-mail" if name in ("by-text", "by-kryo", "by-tuple", "by-row") else "nobody"
    by = dict(BY)
    if name in KEYED and name not in where.keys() ^ WHERE.keys():
        by[name] = dict.fromkeys(BY[name], kind) if isinstance(BY[name], dict) else kind
    opened(job).erase(keys(), by=by, where=where, record_types=RECORD_TYPES, to=tmp_path / "new", below=job)
    found = errors(opened(tmp_path / "new").verify_erasure(report, keys(), where=WHERE))
    in_buffers = name == "click-texts.output 0"  # which comparisons leave out
    assert {"after", "files" if in_buffers else "differences"} <= found
    assert {"rows", "standing"} & found
