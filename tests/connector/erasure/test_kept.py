"""What conditions leave: elements named by their positions, and places that are accepted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyspark_savepoint
from pyspark_savepoint.erasure.tables import unknown_place
from pyspark_savepoint.errors import OptionError, UnsupportedStateError
from tests.connector.erasure.conftest import opened_job
from tests.connector.erasure.test_erasing import errors
from tests.oracle.person import BY, MAIL, WHERE, keys

pytestmark = pytest.mark.many_sets


@pytest.mark.parametrize(
    "condition", ["list_index = 0", "list_index = 1 AND list_value > 10.0", "list_index = 0 OR list_value > 100.0"]
)
def test_elements_named_by_position(shop: Path, tmp_path: Path, condition: str) -> None:
    where = {"accounts.recent_amounts": condition}
    sp = pyspark_savepoint.open(shop)
    report = sp.erase([1042], where=where, to=tmp_path / "new", below=tmp_path)
    new = pyspark_savepoint.open(tmp_path / "new")
    assert errors(new.verify_erasure(report, [1042], where=where)) == set()
    # One element more is gone, and one that the condition names is there again.
    rows = new.keyed_state("accounts", state="recent_amounts").to_arrow()
    lists = rows.column("recent_amounts").to_pylist()
    at = next(number for number, amounts in enumerate(lists) if amounts and len(amounts) > 1)
    lists[at] = lists[at][1:]
    fewer = pa.table({"key": rows.column("key"), "recent_amounts": pa.array(lists, rows.schema.field(1).type)})
    for number, changed in enumerate((fewer, sp.keyed_state("accounts", state="recent_amounts").to_arrow())):
        other = new.with_state("accounts", "recent_amounts", changed).write(tmp_path / str(number))
        assert "rows" in errors(other.verify_erasure(report, [1042], where=where))


def test_records_in_flight_named_by_position(job: Path, tmp_path: Path) -> None:
    where = {"ask.input 0": "position = 0"}
    report = opened_job(job).erase(where=where, to=tmp_path / "new", below=job)
    assert report.removed > 0
    assert errors(opened_job(tmp_path / "new").verify_erasure(report, where=where)) == set()
    assert "rows" in errors(opened_job(job).verify_erasure(report, where=where))


def test_places_that_are_accepted(job: Path, tmp_path: Path) -> None:
    where = {name: condition for name, condition in WHERE.items() if not name.startswith("click-texts")}
    arguments: dict[str, Any] = {"by": BY, "where": where, "strict": True, "below": job}
    with pytest.raises(UnsupportedStateError, match=r"(?s)click-texts\.output 0.*accept=\['click-texts\.output 0'\]"):
        opened_job(job).erase(keys(), to=tmp_path / "strict", **arguments)
    dry = opened_job(job).erase(keys(), dry_run=True, **arguments)
    named = [unknown_place(one) for one in dry.content["not_looked_into"]]
    with pytest.raises(UnsupportedStateError):
        opened_job(job).erase(keys(), to=tmp_path / "strict", accept=named[1:], **arguments)
    report = opened_job(job).erase(keys(), to=tmp_path / "new", accept=named, **arguments)
    assert report.content["arguments"]["accept"] == sorted(named)
    with pytest.raises(OptionError, match=r"(?s)nothing is unknown.*click-texts\.output 0"):
        opened_job(job).erase(keys(), dry_run=True, accept=["click-texts.output 1"], **arguments)
    with pytest.raises(OptionError, match="'strict', which is not set"):
        opened_job(job).erase(keys(), dry_run=True, accept=named)
    new = opened_job(tmp_path / "new")
    assert errors(new.verify_erasure(report, keys(), where=where, accept=named)) == set()


def test_evidence_names_operators_by_uid(job: Path, tmp_path: Path) -> None:
    """The checkpoint of Flink 1.20 has none; arguments name them."""
    sp = pyspark_savepoint.open(job)
    where = {"values.friend": f"friend = '{MAIL}'"}
    report = sp.erase(keys(), by=BY, where=where, to=tmp_path / "new", below=job)
    assert {one["operator_uid"] for one in report.content["operators"]} >= {"values", "by-long"}
    findings = sp.verify_erasure(report, keys(), where=where)
    rows = [one["evidence"] for one in findings if one["check"] == "rows"]
    assert any(" of by-long keyed_state total " in one for one in rows)
    assert any(one.startswith("values keyed_state elements of friend: ") for one in rows)
