"""Rows with a column for each of several states: one edit, with the same result as an edit for each."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from time import process_time

import pyarrow as pa
import pytest

import pyspark_savepoint
from pyspark_savepoint.api.local_savepoint import LocalSavepoint
from pyspark_savepoint.command_line.main import main
from pyspark_savepoint.errors import OptionError, StateNotFoundError

STATES = ["total", "recent_amounts", "spent_by_currency", "coupon"]
NEW = {"visits": [3, None], "names": [["a"], ["b", "c"]]}


def rows(shop: Path) -> pa.Table:
    """Return rows of two keys for states that exist, and for two that do not."""
    read = pyspark_savepoint.open(shop).keyed_state("accounts").select("key", *STATES).to_arrow().slice(0, 2)
    for name, values in NEW.items():
        read = read.append_column(name, pa.array(values))
    return read


def content(savepoint: LocalSavepoint) -> pa.Table:
    table = savepoint.keyed_state("accounts", include_ttl=True).to_arrow()
    return table.select(sorted(table.column_names)).sort_by("key")


def test_states_together_and_one_by_one(shop: Path, tmp_path: Path) -> None:
    base, given = pyspark_savepoint.open(shop), rows(shop)
    options = {"ttl": ["visits", "coupon"], "states": {"names": "value"}}
    together = base.with_state("accounts", [*STATES, *NEW], given, replace=True, **options).write(tmp_path / "together")
    alone = base
    for name in (*STATES, *NEW):
        own = {"visits": {"ttl": True}, "names": {"states": {"names": "value"}}}.get(name, {})
        alone = alone.with_state("accounts", name, given.select(["key", name]), replace=True, **own)
    alone = alone.write(tmp_path / "alone")
    assert together.table("states", "accounts").to_arrow().drop_columns("operator_uid_hash") == alone.table(
        "states", "accounts"
    ).to_arrow().drop_columns("operator_uid_hash")
    assert content(together).column("profile") == content(base).column("profile")
    times = [name for name in content(alone).column_names if name.endswith("last_access")]
    assert content(together).drop_columns(times) == content(alone).drop_columns(times)


def test_updates_together_and_one_by_one(shop: Path, tmp_path: Path) -> None:
    base, given = pyspark_savepoint.open(shop), rows(shop).select(["key", "total", "spent_by_currency"])
    given = given.set_column(1, "total", pa.array([7, None], pa.int64()))
    together = base.update_state("accounts", ["total", "spent_by_currency"], given).write(tmp_path / "together")
    alone = base.update_state("accounts", "total", given.select(["key", "total"]))
    alone = alone.update_state("accounts", "spent_by_currency", given.select(["key", "spent_by_currency"]))
    assert content(together) == content(alone.write(tmp_path / "alone"))
    assert {row["key"]: row["total"] for row in together.keyed_state("accounts").rows()}[given["key"][0].as_py()] == 7


def test_what_is_refused(shop: Path) -> None:
    base, given = pyspark_savepoint.open(shop), rows(shop)
    for names, match in (
        ([], "an empty list"),
        (["total", "total"], "named twice"),
        (["total", "other"], "no column 'other'"),
        (["total"], "column 'recent_amounts' belongs to no state"),
        (5, "states must be given by their names"),
        (["total", 5], "a state must be given by its name"),
    ):
        with pytest.raises(OptionError, match=match):
            base.with_state("accounts", names, given)  # type: ignore[arg-type]
    with pytest.raises(StateNotFoundError, match="no state 'visits' to update"):
        base.update_state("accounts", ["total", "visits"], given)
    with pytest.raises(OptionError, match="'types' cannot change"):
        base.update_state("accounts", ["total"], given.select(["key", "total"]), types={"total": "INT"})  # type: ignore[call-arg]
    with pytest.raises(OptionError, match="other upper and lower case"):
        base.with_state("accounts", ["Total"], given.select(["key", "total"]).rename_columns(["key", "Total"]))


def _wide(path: Path, columns: int, prefix: str) -> str:
    names = [f"{prefix}{number}" for number in range(columns)]
    lines = [",".join(["key", *names]), *(",".join([str(key), *map(str, range(columns))]) for key in range(3))]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


@pytest.mark.parametrize("way", ["added", "replaced", "updated"])
def test_the_time_is_linear_in_the_columns(tmp_path: Path, way: str) -> None:
    """Twice 400 columns take about twice the time, and far less than the 26 seconds of 600 edits."""
    seconds = []
    for columns in (400, 800):
        base, new = tmp_path / f"base-{columns}", tmp_path / f"new-{columns}"
        given = _wide(tmp_path / "given.csv", columns, "d" if way == "added" else "c")
        more = {"added": [], "replaced": ["--replace"], "updated": ["--upsert"]}[way]
        with contextlib.redirect_stdout(io.StringIO()):
            assert main(["create", str(base), "wide", _wide(tmp_path / "base.csv", columns, "c")]) == 0
            begin = process_time()
            assert main(["put", str(base), str(new), "wide", given, *more]) == 0
            seconds.append(process_time() - begin)
    assert seconds[1] < 3 * seconds[0] + 2


def test_very_many_edits_in_a_chain(tmp_path: Path) -> None:
    """Tables of 700 edits are read one after the other, not each within the next one."""
    savepoint = pyspark_savepoint.create().with_operator("op", pa.table({"key": [1], "first": [0]}))
    for number in range(700):
        savepoint = savepoint.with_state("op", f"s{number}", pa.table({"key": [1], f"s{number}": [number]}))
    (row,) = savepoint.write(tmp_path / "new").keyed_state("op").rows()
    assert row["s699"] == 699
    assert len(row) == 702
