"""Command evolve: what becomes of a SQL job's state, as text and JSON, with exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pyspark_savepoint
from tests.connector.api.test_evolve_history import orders, place, rows_of
from tests.connector.command_line.conftest import Run
from tests.statebackends.evolution.verdicts import changes


def words(name: str, *target: Path) -> list[str]:
    folder = changes() / "2.3.0" / name
    return [
        "evolve",
        str(folder / "before"),
        *map(str, target),
        f"--old-plan={folder}/old.json",
        f"--new-plan={folder}/new.json",
    ]


@pytest.mark.parametrize(
    ("name", "more", "code", "said"),
    [
        ("agg-reorder", (), 0, "SUM(w): transformed (it moves to another place)"),
        ("agg-add-sum", (), 1, "SUM(v): filled (give its values in --backfill, or --fill initial to begin with NULL)"),
        ("agg-add-sum", ("--fill", "initial"), 1, "SUM(v): filled (begins with NULL)"),
        ("agg-add-sum", ("--backfill", "total=totals.parquet"), 0, "SUM(v): backfilled (given by you)"),
        ("agg-retract", (), 2, "only its history can give it: --backfill 'hi=FILE'"),
        ("ids-filter", (), 2, "--filters keep accepts that"),
        ("ids-filter", ("--filters", "keep"), 0, "as you accept"),
        ("rename-tables", (), 1, "(a table that was renamed is told by --source)"),
        ("rename-tables", ("--source", "numbers=t"), 0, "Nothing is lost."),
    ],
)
def test_answers(run: Run, name: str, more: tuple[str, ...], code: int, said: str) -> None:
    ran = run(*words(name), *more, "--dry-run")
    assert ran.code == code
    assert said in ran.out


def test_an_ambiguous_operator_is_settled_by_its_node(run: Run, tmp_path: Path) -> None:
    """One of two aggregates goes on. Nothing is written before it is said which."""
    ran = run(*words("two-alike", tmp_path / "new"), "--fill", "initial")
    assert ran.code == 2
    assert (
        "node 6 GroupAggregate(groupBy=[shop], select=[shop, COUNT(*) AS n, MIN(price) AS a]) may continue" in ran.out
    )
    assert "--node 6=6: node 6" in ran.out
    assert "--node 6=8: node 8" in ran.out
    assert "MAX(amount) AS a]), whose rows go to table sink1" in ran.out
    assert not (tmp_path / "new").exists()
    ran = run(*words("two-alike", tmp_path / "new"), "--fill", "initial", "--node", "6=8")
    assert ran.code == 1
    rows = {}
    for folder, uid in ((changes() / "2.3.0" / "two-alike" / "before", "8"), (tmp_path / "new", "6")):
        table = pyspark_savepoint.open(folder).keyed_state(f"{uid}_group-aggregate").to_arrow().to_pylist()
        rows[uid] = {row["key"]["f0"]: row["accState"] for row in table}
    assert {shop: row["f0"] for shop, row in rows["6"].items()} == {shop: row["f0"] for shop, row in rows["8"].items()}
    assert {row["f1"] for row in rows["6"].values()} == {None}


def test_other_commands_name_evolve(run: Run, tmp_path: Path) -> None:
    """``check-restore`` and ``report`` have no argument that gives values: they name the command that has it."""
    _, old, *plans = words("agg-add-sum")
    run("report", old, *plans, f"--file={tmp_path}/report.html")
    page = (tmp_path / "report.html").read_text("utf-8")
    assert "give its values in evolve --backfill, or evolve --fill initial to begin with NULL" in page
    assert "argument &#39;backfill&#39;" not in page
    _, old, old_plan, new_plan = words("ids-filter")
    ran = run("check-restore", old, new_plan.removeprefix("--new-plan="), old_plan)
    assert "evolve --filters keep accepts that" in ran.out
    assert "to do: pyspark-savepoint evolve OLD NEW --old-plan FILE --new-plan FILE writes" in ran.out


def test_the_savepoint_is_written(run: Run, tmp_path: Path) -> None:
    table = pa.table({"k": ["k0", "k1", "k2"], "total": pa.array([1, 2, 3], pa.int32())})
    pq.write_table(table, tmp_path / "totals.parquet")
    given = f"--backfill=total={tmp_path}/totals.parquet"
    ran = run(*words("agg-add-sum", tmp_path / "new"), given)
    assert ran.code == 0
    assert "operators" in ran.out
    states = pyspark_savepoint.open(tmp_path / "new").keyed_state("6_group-aggregate").to_arrow()
    rows = {row["key"]["f0"]: row["accState"]["f1"] for row in states.to_pylist()}
    assert rows == {"k0": 1, "k1": 2, "k2": 3}


@pytest.mark.parametrize("more", [("--dry-run", "--fill", "initial"), ()], ids=["dry run", "refused"])
def test_nothing_is_written(run: Run, tmp_path: Path, more: tuple[str, ...]) -> None:
    name = "agg-add-sum" if more else "agg-retract"
    assert run(*words(name, tmp_path / "new"), *more).code == (1 if more else 2)
    assert not (tmp_path / "new").exists()


def test_a_dry_run_shows_what_is_not_decided(run: Run, tmp_path: Path) -> None:
    ran = run(*words("agg-add-sum", tmp_path / "new"), "--dry-run")
    assert ran.code == 1
    assert "SUM(v): filled (give its values in --backfill" in ran.out
    assert "it is not written like this: 6_group-aggregate: SUM(v) ('total') is filled" in ran.out
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("part", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("side", ["old", "new"])
def test_a_plan_that_was_cut(run: Run, tmp_path: Path, side: str, part: float) -> None:
    given = {word.split("=")[0]: word for word in words("agg-reorder", tmp_path / "new")}
    text = (Path(given[f"--{side}-plan"].partition("=")[2])).read_text("utf-8")
    (tmp_path / "cut.json").write_text(text[: int(len(text) * part)], "utf-8")
    given[f"--{side}-plan"] = f"--{side}-plan={tmp_path}/cut.json"
    ran = run(*given.values())
    assert ran.code == 2
    assert f"--{side}-plan is not a compiled plan, or not all of one" in ran.err
    assert not (tmp_path / "new").exists()


def test_a_node_that_is_not_there_is_said_in_words_of_the_command(run: Run, tmp_path: Path) -> None:
    ran = run(*words("agg-reorder", tmp_path / "new"), "--node=99=6")
    assert ran.code == 2
    assert "--node names a node that --new-plan does not have" in ran.err


def test_json(run: Run) -> None:
    (record,) = run(*words("agg-reorder"), "--json").records
    assert (record["verdict"], record["exit_code"], record["to_give"]) == ("transformed", 0, [])
    fields = [(row["field"], row["verdict"]) for row in record["rows"] if row["level"] == "field"]
    assert fields == [("SUM(w)", "transformed"), ("SUM(v)", "transformed")]


def test_what_was_done_is_said(run: Run, tmp_path: Path) -> None:
    ran = run(*words("agg-reorder", tmp_path / "new"), "--json")
    assert ran.records[0]["counts"] == {"kept": 2, "converted": 1}
    (state,) = [row for row in ran.records[0]["states"] if row["done"] == "converted"]
    assert (state["state"], state["entries_before"], state["entries_after"]) == ("accState", 3, 3)
    assert "converted   accState: 3 -> 3 entries" in run(*words("agg-reorder", tmp_path / "again")).out


def test_the_page_shows_what_becomes_of_states(run: Run, tmp_path: Path) -> None:
    _, savepoint, *plans = words("agg-add-sum")
    assert run("report", savepoint, "--file", tmp_path / "page.html", *plans).code == 0
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "What becomes of it under the new query" in page
    assert "SUM(v): filled" in page
    ran = run("report", savepoint, "--file", tmp_path / "other.html", plans[0])
    assert ran.code == 2
    assert "give --old-plan and --new-plan" in ran.err


def test_the_plan_with_stable_ids(run: Run, tmp_path: Path) -> None:
    target = tmp_path / "stable.json"
    assert run(*words("ids-sink"), "--stable-plan", target).code == 0
    ids = {node["id"]: node["type"] for node in json.loads(target.read_text("utf-8"))["nodes"]}
    assert ids[6] == "stream-exec-group-aggregate_1"


def test_errors_are_in_the_words_of_the_command(run: Run, tmp_path: Path) -> None:
    (tmp_path / "cut.json").write_text('{"nodes": []}', "utf-8")
    path = words("agg-reorder")[1]
    ran = run("evolve", path, "--old-plan", tmp_path / "cut.json", "--new-plan", tmp_path / "cut.json")
    assert ran.code == 2
    assert "--old-plan is not a compiled plan" in ran.err
    twice = run(*words("agg-reorder"), "--node", "6=6", "--node", "6=7")
    assert twice.code == 2
    assert "--node names 6 twice" in twice.err


def test_history_of_a_table(run: Run, tmp_path: Path) -> None:
    (old, savepoint), (new, golden) = place("2.3.0", "count"), place("2.3.0", "count and sum")
    pq.write_table(orders(), tmp_path / "orders.parquet")
    given = f"--backfill=orders={tmp_path}/orders.parquet"
    ran = run("evolve", savepoint, tmp_path / "new", "--old-plan", old, "--new-plan", new, given)
    assert ran.code == 0
    assert "SUM(price): backfilled (computed from the rows of orders)" in ran.out
    assert rows_of(pyspark_savepoint.open(tmp_path / "new")) == rows_of(pyspark_savepoint.open(golden))


def test_changes_of_the_sink(run: Run) -> None:
    (old, before), (new, golden) = place("2.3.0", "top 5"), place("2.3.0", "top 3")
    words = ["catch-up", before, golden, "--old-plan", old, "--new-plan", new]
    ran = run(*words, "--json")
    assert ran.code == 1
    assert {record["_change_type"] for record in ran.records} == {"delete"}
    same = run("catch-up", before, before, "--old-plan", old, "--new-plan", old)
    assert (same.code, same.out) == (0, "no changes\n")


@pytest.mark.parametrize("name", ["totals.csv", "totals.jsonl"])
def test_texts_have_the_types_of_the_query(run: Run, tmp_path: Path, name: str) -> None:
    """Shops whose names look like numbers stay texts: nobody has to say so."""
    folder = changes() / "2.3.0" / "agg-add-sum"
    old = pyspark_savepoint.open(folder / "before")
    rows = old.keyed_state("6_group-aggregate").to_arrow()
    numbers = {"k0": "7", "k1": "0042", "k2": "1.50"}
    keys = [{"f0": numbers[row["key"]["f0"]]} for row in rows.to_pylist()]
    renamed = rows.set_column(0, "key", pa.array(keys, rows.schema.field("key").type))
    old.with_state("6_group-aggregate", "accState", renamed, replace=True).write(tmp_path / "numbered")
    texts = {
        "totals.csv": "k,total\n7,1\n0042,2\n1.50,3\n",
        "totals.jsonl": '{"k": "7", "total": 1}\n{"k": "0042", "total": 2}\n{"k": "1.50", "total": 3}\n',
    }
    (tmp_path / name).write_text(texts[name], "utf-8")
    given = ["evolve", tmp_path / "numbered", *words("agg-add-sum", tmp_path / "new")[2:]]
    assert run(*given, f"--backfill=total={tmp_path / name}").code == 0
    states = pyspark_savepoint.open(tmp_path / "new").keyed_state("6_group-aggregate").to_arrow()
    assert {row["key"]["f0"]: row["accState"]["f1"] for row in states.to_pylist()} == {"7": 1, "0042": 2, "1.50": 3}


def test_a_text_that_is_no_value_of_its_column(run: Run, tmp_path: Path) -> None:
    (tmp_path / "totals.csv").write_text("k,total\nk0,1\nk1,many\nk2,3\n", "utf-8")
    ran = run(*words("agg-add-sum", tmp_path / "new"), f"--backfill=total={tmp_path}/totals.csv")
    assert ran.code == 2
    assert "totals.csv, line 3, column 'total': not a value of the column's type" in ran.err
    assert "--type" not in ran.err
    assert not (tmp_path / "new").exists()
