"""A changed query of a SQL job gets the state that real Flink has for it: recorded cases, by value."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyspark_savepoint
from pyspark_savepoint.api.local_savepoint import LocalSavepoint
from pyspark_savepoint.formats.errors import (
    OptionError,
    SavepointError,
    SavepointWarning,
    UnsupportedStateError,
    ValueRangeError,
)
from tests.data import unpacked
from tests.oracle.sql_changes import BEFORE, CASES
from tests.statebackends.evolution.verdicts import changes

RECORDED = ("1.20.5", "2.3.0")
#: Cases whose state is right and not the same: Flink keeps more rows than it needs, if ranks are not in the output.
OTHERWISE = ("top-with-rank",)
BY_VALUE = [name for name, case in CASES.items() if case.truth is None and name not in OTHERWISE]
Rows = list[dict[str, Any]]


def folder_of(version: str, name: str) -> Path:
    return unpacked() / "sql-changes" / version / name


def sums(rows: Rows) -> pa.Table:
    """The sums of the prices of each shop."""
    shops: dict[str, int] = {}
    for row in rows:
        shops[row["shop"]] = shops.get(row["shop"], 0) + (row["price"] or 0)
    return pa.table({"shop": list(shops), "total": pa.array(shops.values(), pa.int32())})


#: What a user gives as history, of the rows before the savepoint.
HISTORIES: Mapping[str, Callable[[Rows], dict[str, pa.Table]]] = {
    "sum-backfilled": lambda rows: {"total": sums(rows)},
}


def arguments(folder: Path) -> dict[str, Any]:
    """What a user gives for a case, beside the plans."""
    case = json.loads((folder / "case.json").read_text("utf-8"))
    given = dict(case["given"])
    given.pop("backfill", None)
    if folder.name in HISTORIES:
        rows = [row for table, _, row in case["script"][:BEFORE] if table == "orders"]
        given["backfill"] = HISTORIES[folder.name](rows)
    return given


def evolved(folder: Path, to: Path) -> LocalSavepoint:
    """The savepoint of a case, for its new query."""
    old = pyspark_savepoint.open(folder / "before")
    return old.evolve(folder / "old.json", folder / "new.json", **arguments(folder)).write(to)


def test_a_rank_with_another_order_is_made_of_what_comes_before_it(tmp_path: Path) -> None:
    """Also with another number of rows. What was emitted before stays in the sink."""
    folder = folder_of("2.3.0", "growing-top-2-to-4")
    old = json.loads((folder / "old.json").read_text("utf-8"))
    new = json.loads(json.dumps(old))
    (rank,) = [node for node in new["nodes"] if "rank" in node["type"]]
    for one in rank["orderBy"]["fields"]:
        one["isAscending"] = not one["isAscending"]
    rank["rankRange"]["end"] = 3
    savepoint = pyspark_savepoint.open(folder / "before")
    rows = [row for row in savepoint.check_evolution(old, new).to_arrow().to_pylist() if row["level"] == "operator"]
    assert {row["verdict"] for row in rows if "Rank" in row["operator"]} == {"derived"}
    counts = {row["key"]["f0"]: row["accState"]["f0"] for row in savepoint.keyed_state("6_group-aggregate").rows()}
    best = sorted(sorted(counts, reverse=True), key=lambda item: counts[item])[:3]
    (ranked,) = savepoint.evolve(old, new).write(tmp_path / "new").keyed_state("8_rank").rows()
    assert sorted(key["f0"] for key, _ in ranked["data-state-with-update"]) == sorted(best)


def keyed_rows(savepoint: LocalSavepoint) -> dict[tuple[str, str], list[str]]:
    """The rows of all keyed tables, by operator and table."""
    found = {}
    warnings.simplefilter("ignore", SavepointWarning)  # Flink 1 records no uids
    for state in savepoint.states().to_arrow().to_pylist():
        place = state["operator_uid_hash"], state["table"]
        if state["table"] in ("keyed_state", "window_state", "timers") and place not in found:
            rows = savepoint.table(state["table"], uid=place[0]).to_arrow().to_pylist()
            found[place] = sorted(json.dumps(_plain(row), sort_keys=True, default=str) for row in rows)
    return found


def _plain(value: Any) -> Any:
    """A value whose maps have one order."""
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return sorted(([_plain(key), _plain(one)] for key, one in value), key=lambda one: json.dumps(one, default=str))
    return [_plain(one) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize("version", RECORDED)
@pytest.mark.parametrize("name", BY_VALUE)
def test_state_is_that_of_the_new_query(version: str, name: str, tmp_path: Path) -> None:
    folder = folder_of(version, name)
    new, golden = evolved(folder, tmp_path / "new"), pyspark_savepoint.open(folder / "golden")
    assert keyed_rows(new) == keyed_rows(golden)


@pytest.mark.parametrize("version", RECORDED)
@pytest.mark.parametrize("name", [name for name in CASES if name not in BY_VALUE])
def test_every_key_stays(version: str, name: str, tmp_path: Path) -> None:
    folder = folder_of(version, name)
    before, new = pyspark_savepoint.open(folder / "before"), evolved(folder, tmp_path / "new")
    assert {place: len(rows) for place, rows in keyed_rows(new).items()} == {
        place: len(rows) for place, rows in keyed_rows(before).items()
    }


def test_what_is_added_is_not_filled_without_consent(tmp_path: Path) -> None:
    folder = folder_of("2.3.0", "sum-added")
    with pytest.raises(UnsupportedStateError) as raised:
        pyspark_savepoint.open(folder / "before").evolve(folder / "old.json", folder / "new.json")
    assert "SUM(price) ('total') is filled" in str(raised.value)


def test_other_rows_of_before_are_not_kept_without_consent() -> None:
    folder = folder_of("2.3.0", "filter-in-front")
    with pytest.raises(UnsupportedStateError, match="filters"):
        pyspark_savepoint.open(folder / "before").evolve(folder / "old.json", folder / "new.json")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda table: table.slice(1), "no row for a key"),
        (lambda table: pa.concat_tables([table, table.slice(0, 1)]), "two values for one key"),
        (
            lambda table: pa.concat_tables([table, pa.table({"shop": ["shop 9"], "total": pa.array([1], pa.int32())})]),
            "a key that the savepoint has not",
        ),
        (lambda table: table.set_column(1, "total", pa.array([2**40] * 3)), "does not fit"),
    ],
    ids=["missing", "twice", "unknown", "too large"],
)
def test_history_must_be_that_of_the_savepoint(
    change: Callable[[pa.Table], pa.Table], message: str, tmp_path: Path
) -> None:
    folder = folder_of("1.20.5", "sum-backfilled")
    given = change(arguments(folder)["backfill"]["total"])
    before = pyspark_savepoint.open(folder / "before")
    plans = folder / "old.json", folder / "new.json"
    with pytest.raises(ValueRangeError, match=message):
        before.evolve(*plans, backfill={"total": given}).write(tmp_path / "new")
    assert not (tmp_path / "new" / "_metadata").exists()


def test_a_name_that_no_field_has_is_refused() -> None:
    folder = folder_of("1.20.5", "sum-backfilled")
    table = pa.table({"shop": ["shop 0"], "sum": pa.array([1], pa.int32())})
    with pytest.raises(OptionError, match="under the name 'sum'"):
        pyspark_savepoint.open(folder / "before").evolve(
            folder / "old.json", folder / "new.json", backfill={"sum": table}
        )


def test_operators_that_do_not_change_keep_their_files(tmp_path: Path) -> None:
    folder = folder_of("2.3.0", "join-condition-added")
    before, new = pyspark_savepoint.open(folder / "before"), evolved(folder, tmp_path / "new")
    files = [
        sorted(row["size"] for row in one.table("files").to_arrow().to_pylist() if row["size"]) for one in (before, new)
    ]
    assert files[0] == files[1]


def test_a_changed_savepoint_is_evolved_first() -> None:
    folder = folder_of("2.3.0", "sum-removed")
    changed = pyspark_savepoint.open(folder / "before").with_max_parallelism(64)
    with pytest.raises(SavepointError, match="not written yet"):
        changed.evolve(folder / "old.json", folder / "new.json")


def done(savepoint: LocalSavepoint) -> list[tuple[str | None, str, int | None, int | None]]:
    """Of each state of the operators that are no source: what was done, and its entries before and after."""
    return [
        (row["state"], row["done"], row["entries_before"], row["entries_after"])
        for row in savepoint.evolution.rows()
        if not row["new_uid"].endswith("source")
    ]


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("sum-backfilled", [("accState", "backfilled", 3, 3)]),
        ("sum-added", [("accState", "filled", 3, 3)]),
        ("keys-gone", [("accState", "rebuilt", 3, 1), ("distinctAcc_0", "converted", 15, 5)]),
        ("growing-top-2-to-4", [("accState", "kept", 5, 5), ("data-state-with-update", "rebuilt", 2, 4)]),
        (
            "window-keys-merged",
            [
                ("window-aggs", "converted", 4, 3),
                ("_timer_state/event_window-timers", "converted", 4, 3),
                ("watermark", "kept", 1, 1),
            ],
        ),
    ],
)
def test_the_report_says_what_was_done_with_each_state(
    name: str, rows: list[tuple[str, str, int, int]], tmp_path: Path
) -> None:
    new = evolved(folder_of("1.20.5", name), tmp_path / "new")
    assert done(new) == rows
    report = new.evolution
    assert sum(report.counts.values()) == len(report.rows())
    assert report.to_arrow().num_rows == len(json.loads(report.to_json())["states"])
    assert f"| {rows[0][1]} | {rows[0][2]} | {rows[0][3]} |" in report.to_markdown()
    assert repr(report) == f"<EvolutionReport: {report.summary}>"
    assert len(report.stable_plan()["nodes"]) == len(report.new_plan["nodes"])


def test_the_report_is_that_of_one_savepoint(tmp_path: Path) -> None:
    folder = folder_of("2.3.0", "sum-removed")
    before = pyspark_savepoint.open(folder / "before")
    planned = before.evolve(folder / "old.json", folder / "new.json").with_max_parallelism(64)
    assert done(planned) == [("accState", "converted", 3, None)]
    new = planned.write(tmp_path / "new")
    assert done(new) == [("accState", "converted", 3, 3)]
    for other in (before, pyspark_savepoint.open(tmp_path / "new"), new.with_max_parallelism(32)):
        with pytest.raises(OptionError, match="not made by evolve"):
            _ = other.evolution


@pytest.mark.parametrize(("release", "expected"), [("2.3", 1), ("1.16", 128)])
def test_an_operator_without_a_key_gets_the_max_parallelism_that_the_release_gives_it(
    release: str, expected: int, tmp_path: Path
) -> None:
    """Flink 1.16 gives all of them that of the job, newer releases 1."""
    folder = folder_of("2.3.0", "keys-gone")
    plan = json.loads((folder / "new.json").read_text("utf-8"))
    wide = pyspark_savepoint.open(folder / "golden").with_max_parallelism(128).write(tmp_path / "wide")
    new = wide.evolve(plan, {**plan, "flinkVersion": release}).write(tmp_path / "new")
    assert new.plan.operator("6_group-aggregate").max_parallelism == expected
    assert keyed_rows(new) == keyed_rows(wide)
    assert {row[1] for row in done(new)} == {"kept" if expected == 128 else "converted"}


@pytest.mark.parametrize("version", RECORDED)
def test_sides_of_a_join_in_the_other_order_have_their_rows(version: str, tmp_path: Path) -> None:
    folder = changes() / version / "join-swapped-left"
    other = {"left-records": "right-records", "right-records": "left-records"}
    before = pyspark_savepoint.open(folder / "before")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SavepointWarning)
        before.evolve(folder / "old.json", folder / "new.json").write(tmp_path / "evolved")
        old, new = (
            [
                {name: sorted(map(str, row[name])) for name in other}
                for row in one.keyed_state("8_join").to_arrow().to_pylist()
            ]
            for one in (
                pyspark_savepoint.open(folder / "before", uids=["8_join"]),
                pyspark_savepoint.open(tmp_path / "evolved", uids=["8_join"]),
            )
        )
    assert new == [{name: row[other[name]] for name in row} for row in old]
    assert any(row["left-records"] for row in old)


@pytest.mark.parametrize(
    ("name", "uid", "expected", "kept"),
    [("1.16.3/global-top", "8_rank", 1, "converted"), ("2.3.0/global-sort", "5_temporal-sort", 128, "kept")],
)
def test_the_max_parallelism_of_an_operator_without_a_key_is_that_of_its_kind(
    name: str, uid: str, expected: int, kept: str, tmp_path: Path
) -> None:
    """Newer releases narrow a Top-N of 1.16, and no release narrows a sort by time."""
    folder = changes() / name
    base = pyspark_savepoint.open(folder / "before")
    new = base.evolve(folder / "old.json", folder / "new.json").write(tmp_path / "new")
    assert base.plan.operator(uid).max_parallelism == 128
    assert new.plan.operator(uid).max_parallelism == expected
    assert keyed_rows(new) == keyed_rows(base)
    assert {row["done"] for row in new.evolution.rows() if row["new_uid"] == uid} == {kept}


def test_a_join_of_two_subtasks_that_loses_its_key_has_one(tmp_path: Path) -> None:
    folder = changes() / "2.3.0" / "join-loses-keys"
    new = pyspark_savepoint.open(folder / "before").evolve(folder / "old.json", folder / "new.json")
    assert keyed_rows(new.write(tmp_path / "new")) == keyed_rows(pyspark_savepoint.open(folder / "golden"))


def test_a_join_that_gets_a_key_counts_matches_under_it(tmp_path: Path) -> None:
    """Flink 1.20 gives NOT IN no key, and max parallelism 1; IN has the key of both rows, and that of the job."""
    folder = changes() / "1.20.5" / "anti-join-gets-key"
    base = pyspark_savepoint.open(folder / "before", uids=["12_join"])
    new = base.evolve(folder / "old.json", folder / "new.json", fill="initial").write(tmp_path / "new")
    operators = [one.plan.operator("12_join").max_parallelism for one in (base, new)]
    assert operators == [1, 128]
    keys = [row["key"]["f0"] for row in new.keyed_state("12_join").to_arrow().to_pylist()]
    assert len(keys) > 1
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("batch_rows", [1, 1_000])
def test_sets_of_sessions_that_have_merged_are_one_with_their_session(tmp_path: Path, batch_rows: int) -> None:
    """Flink keeps them under the window of the session's first row, and the session under what it is now."""
    folder = changes() / "2.3.0" / "session-filters-turned"
    base = pyspark_savepoint.open(folder / "before", batchSize=str(batch_rows))
    new = base.evolve(folder / "old.json", folder / "new.json").write(tmp_path / "new")
    rows = [one.window_state("6_window-aggregate").to_arrow().to_pylist() for one in (base, new)]
    assert len(rows[0]) == len(rows[1]) == 6
    turned = {1: 2, 2: 1, 3: 3}
    for before, after in zip(
        *(sorted(each, key=lambda row: str((row["key"], row["window"]))) for each in rows), strict=True
    ):
        assert (after["key"], after["window"]) == (before["key"], before["window"])
        counts, values = before["window-aggs"], before["distinctAcc_0"]
        turned_counts = None if counts is None else {**counts, "f0": counts["f1"], "f1": counts["f0"]}
        assert after["window-aggs"] == turned_counts
        assert sorted(after["distinctAcc_0"] or []) == sorted((value, turned[bits]) for value, bits in values or [])


@pytest.mark.parametrize(
    ("name", "chosen"),
    [
        ("hop-distinct-filters-turned", (1, 0)),
        ("hop-distinct-filter-out", (1,)),
        ("log-distinct-turned", (1, 0)),
    ],
)
def test_values_of_distinct_have_the_counts_of_each_call(name: str, chosen: tuple[int, ...], tmp_path: Path) -> None:
    """Where rows are also taken out, and in hopping windows, these are in a list: of one call it is a number."""
    folder = changes() / "1.20.5" / name
    base = pyspark_savepoint.open(folder / "before")
    new = base.evolve(folder / "old.json", folder / "new.json").write(tmp_path / "new")
    uid, table = (
        ("4_group-aggregate", "keyed_state") if "log" in name else ("7_global-window-aggregate", "window_state")
    )
    states = []
    for one in (base, new):
        rows = getattr(one, table)(uid).to_arrow().to_pylist()
        states.append(
            {(row["key"]["f0"], row.get("window"), value): n for row in rows for value, n in row["distinctAcc_0"] or ()}
        )
    wanted = {place: [counts[one] for one in chosen] for place, counts in states[0].items()}
    wanted = {place: counts for place, counts in wanted.items() if any(counts)}
    assert len(wanted) > 3
    assert states[1] == (wanted if len(chosen) > 1 else {place: counts[0] for place, counts in wanted.items()})


def test_a_rank_that_keeps_all_rows_moves_them_to_the_keys_of_another_partition(tmp_path: Path) -> None:
    folder = changes() / "2.3.0" / "rank-of-changes"
    old = (folder / "old.json").read_text("utf-8")
    new = json.loads(old)
    (rank,) = [node for node in new["nodes"] if node["id"] == 4]
    rank["partition"]["fields"] = [2]  # the amount, and not the shop
    base = pyspark_savepoint.open(folder / "before")
    (row,) = [row for row in base.check_evolution(old, new).to_arrow().to_pylist() if row["new_uid"] == "4_rank"][:1]
    assert row["verdict"] == "transformed"
    evolved = base.evolve(old, new).write(tmp_path / "new")
    before, after = (one.keyed_state("4_rank").to_arrow().to_pylist() for one in (base, evolved))
    rows = [[place["f1"] for each in table for place, _ in each["data-state"]] for table in (before, after)]
    assert sorted(rows[0]) == sorted(rows[1])
    assert len(after) > len(before)
    for each in after:
        assert {row["f2"] for _, ranked in each["data-state"] for row in ranked} == {each["key"]["f0"]}
        counts = [(place, len(ranked)) for place, ranked in each["data-state"]]
        assert sorted(map(str, counts)) == sorted(map(str, each["sorted-map"]))


@pytest.mark.parametrize("name", ["where-to-filter", "filter-to-where", "where-of-key", "count-of-given"])
def test_conditions_that_move_or_are_of_the_key_keep_the_state(name: str, tmp_path: Path) -> None:
    folder = changes() / "1.20.5" / name
    base = pyspark_savepoint.open(folder / "before")
    new = base.evolve(folder / "old.json", folder / "new.json").write(tmp_path / "new")
    assert keyed_rows(new) == keyed_rows(base)


def test_keys_that_become_one_are_named_with_the_uid_of_their_operator(tmp_path: Path) -> None:
    """Savepoints of Flink 1 have its hash alone."""
    folder = changes() / "1.20.5" / "first-keys-merged"
    base = pyspark_savepoint.open(folder / "before")
    with pytest.raises(SavepointError, match="two keys become one, of which the new query keeps one row") as raised:
        base.evolve(folder / "old.json", folder / "new.json").write(tmp_path / "new")
    assert raised.value.facts["operator"] == "6_deduplicate"


def test_early_results_of_windows_stay_until_their_windows_change() -> None:
    folder = changes() / "2.3.0" / "early-results"
    base, plans = pyspark_savepoint.open(folder / "before"), [folder / "old.json", folder / "new.json"]
    (note,) = base.evolve(*plans).evolution.warnings
    assert note.startswith("the windows of 5_group-window-aggregate emit early or late results, which no plan says")
    new = json.loads(plans[1].read_text("utf-8"))
    (window,) = [node["window"] for node in new["nodes"] if "window" in node]
    window["size"] = "PT3M"
    (row,) = [row for row in base.check_evolution(plans[0], new).to_arrow().to_pylist() if row["level"] == "operator"][
        :1
    ]
    assert (row["verdict"], row["reason"].partition(",")[0]) == (
        "refused",
        "its windows have emitted early or late results",
    )


@pytest.mark.parametrize("version", RECORDED)
def test_rows_beyond_the_best_go_with_their_numbers(version: str, tmp_path: Path) -> None:
    """Flink keeps a row more for a result with numbers. Without them it would be taken for a better one."""
    folder = folder_of(version, "top-with-rank")
    numbered, without = pyspark_savepoint.open(folder / "golden"), pyspark_savepoint.open(folder / "before")
    assert keyed_rows(numbered) != keyed_rows(without)
    plans = folder / "new.json", folder / "old.json"
    rows = numbered.check_evolution(*plans).to_arrow().to_pylist()
    assert [row["verdict"] for row in rows if row["old_uid"] == "6_rank" and row["level"] == "operator"] == [
        "transformed"
    ]
    assert keyed_rows(numbered.evolve(*plans).write(tmp_path / "new")) == keyed_rows(without)


def test_a_constant_of_the_new_query_is_in_all_rows(tmp_path: Path) -> None:
    """Also the number that Flink 2.3 gives behind a deduplication, which Flink 1 leaves out."""
    folder = folder_of("2.3.0", "top-5-to-3")
    old = (folder / "old.json").read_text("utf-8")
    new = json.loads(old)
    for node in new["nodes"]:
        if node["id"] in (4, 5, 6):
            node["outputType"] = node["outputType"].removesuffix(">") + ", `w0$o0` BIGINT NOT NULL>"
        if node["id"] == 4:
            node["projection"].append({"kind": "LITERAL", "value": 1, "type": "BIGINT NOT NULL"})
    savepoint = pyspark_savepoint.open(folder / "before")
    evolved = savepoint.evolve(old, new).write(tmp_path / "new")
    rows = evolved.keyed_state("6_rank").to_arrow().to_pylist()
    assert {row["f3"] for each in rows for _, ranked in each["data-state-with-append"] for row in ranked} == {1}


@pytest.mark.parametrize("kind", [pa.int64(), pa.timestamp("us"), pa.timestamp("s", tz="Europe/Paris"), pa.string()])
def test_ends_of_windows_are_times_with_or_without_a_zone(tmp_path: Path, kind: pa.DataType) -> None:
    """As tables of windows, and as SQL, have them."""
    folder = folder_of("2.3.0", "window-sum-added")
    old = pyspark_savepoint.open(folder / "before")
    rows = old.window_state("6_global-window-aggregate").to_arrow().to_pylist()
    ends = pa.array([row["window"] for row in rows]).cast(pa.timestamp("ms")).cast(kind)
    given = pa.table({"shop": [row["key"]["f0"] for row in rows], "window_end": ends, "total": range(len(rows))})

    def evolve() -> LocalSavepoint:
        return old.evolve(folder / "old.json", folder / "new.json", backfill={"total": given}).write(tmp_path / "new")

    if kind == pa.string():
        with pytest.raises(OptionError, match=r"(?s)'window_end' in another type.*expected: TIMESTAMP\(3\)\n"):
            evolve()
        return
    sums = evolve().window_state("6_global-window-aggregate").to_arrow().column("window-aggs").to_pylist()
    assert [row["f1"] for row in sums] == list(range(len(rows)))
