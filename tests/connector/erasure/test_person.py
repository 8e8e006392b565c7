"""A person in 49 places of a job of real Flink: found, erased, and proved; `test_put_back.py` puts them back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pyspark_savepoint import Savepoint
from pyspark_savepoint.erasure.report import ErasureReport
from pyspark_savepoint.errors import UnsupportedStateError
from tests.connector.erasure.conftest import opened_job as opened
from tests.connector.erasure.test_erasing import errors
from tests.oracle.person import BY, ID, MAIL, RECORD_TYPES, UIDS, WHERE, keys

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.many_sets

#: Rows that keys remove, by operator and state.
OF_KEYS = {
    ("by-long", "total"): 1,
    ("by-long", "notes"): 1,
    ("by-long", "spent"): 1,
    ("by-long", "user-timers"): 2,
    ("by-int", "rank"): 1,
    ("by-text", "name"): 1,
    ("by-text", "visits"): 1,
    ("by-big", "n"): 1,
    ("by-kryo", "n"): 1,
    ("by-kryo", "user-timers"): 1,
    ("by-tuple", "n"): 1,
    ("by-pojo", "n"): 1,
    ("by-row", "n"): 2,
    ("windows", "sums"): 2,
    ("windows", "contents"): 1,
    ("windows", "by-name"): 2,
    ("windows", "window-timers"): 1,
    ("opaque", "map"): 1,
    ("opaque", "list"): 1,
    ("opaque", "sealed"): 1,
}
#: Elements, entries and values that conditions remove.
OF_CONDITIONS = {
    **{("values", f"elements of {state}"): 3 for state in ("friend", "friends", "groups", "array", "mails", "by-mail")},
    **{("values", f"elements of {state}"): 3 for state in ("mail-of", "recent", "recent-mails", "recent-by-mail")},
    ("values", "elements of pojo"): 4,
    ("values", "elements of row"): 4,
    ("values", "elements of tuple"): 1,
    ("values", "elements of map"): 4,
    ("operator-states", "pending"): 3,
    ("operator-states", "owners"): 2,
    ("operator-states", "names"): 1,
    ("operator-states", "rules"): 2,
    ("operator-states", "bytes"): 1,
}


@pytest.mark.thorough("a person with all places")
def test_keys_alone_leave_what_the_report_names(job: Path, tmp_path: Path) -> None:
    report = opened(job).erase(keys(), by=BY, record_types=RECORD_TYPES, to=tmp_path / "new", below=job)
    places = {(one["operator_uid"], one["state"] or one["column"]) for one in report.content["standing"]}
    assert {uid for uid, _ in places} == {"by-row", "values", "operator-states", "ask", "click-texts"}
    assert len(places) == 1 + 17 + 5 + 2 + 1
    opaque = {(one["operator_uid"], one["state"]): one["hits"] for one in report.content["not_looked_into"]}
    assert [(hit["encoding"], hit["certain"]) for hit in opaque["operator-states", "bytes"]] == [("UTF-8", True)]
    found = opened(tmp_path / "new").verify_erasure(report, keys())
    assert {"standing", "files"} <= errors(found)
    with pytest.raises(UnsupportedStateError, match="looked into"):
        opened(job).erase(keys(), by=BY, strict=True, to=tmp_path / "strict", below=job)


@pytest.mark.thorough("2.3.0", sets=("1.20.5",))
def test_the_person_is_erased_everywhere_and_nobody_else(job: Path, erased: tuple[Path, ErasureReport]) -> None:
    folder, report = erased
    new = opened(folder)
    removed = {
        (row["operator"], row["state"]): row["removed"]
        for row in report.rows()
        if row["removed"] and row["table"] != "in_flight"
    }
    assert removed == OF_KEYS | OF_CONDITIONS
    assert report.content["standing"] == [one for one in report.content["standing"] if not one["equal"]]
    assert errors(new.verify_erasure(report, keys(), where=WHERE)) == set()
    for uid, part in (("ask", "input 0"), ("ask", "_async_wait_operator_state_")):
        old_rows, new_rows = (
            [row["value"] for row in sp.table("in_flight", uid, state=part).rows()] for sp in (opened(job), new)
        )
        mine = [row for row in old_rows if row["f0"] == ID or row["f1"].endswith(f"of {MAIL}")]
        assert mine
        assert new_rows == [row for row in old_rows if row not in mine]
    for path in folder.iterdir():
        assert MAIL.encode() + b"\x00" not in path.read_bytes()


@pytest.mark.slow("49 places, each by tasks; test_erasing.py has a small job")
@pytest.mark.spark
def test_spark_erases_the_person(
    spark: SparkSession, job: Path, erased: tuple[Path, ErasureReport], tmp_path: Path
) -> None:
    _, report = erased
    given = spark.createDataFrame(keys().to_pandas())
    base = Savepoint.load(spark, str(job), uids=UIDS)
    there = base.erase(given, by=BY, where=WHERE, record_types=RECORD_TYPES, to=str(tmp_path / "new"), below=job)
    assert there.removed == report.removed
    new = Savepoint.load(spark, str(tmp_path / "new"), uids=UIDS)
    assert errors(new.verify_erasure(there, given, where=WHERE)) == set()
