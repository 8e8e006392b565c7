"""The restore check on the shop's savepoint; `tests/oracle` compares its verdicts with real restores."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pyspark_savepoint.formats.errors import OperatorNotFoundError, OptionError
from pyspark_savepoint.formats.metadata.identifiers import OperatorID, OperatorIdentifier
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.jobs.graph.operator_ids import (
    OperatorIDPair,
    generated_ids,
    identifiers_to_change,
    operator_at,
    operator_at_plan,
)
from pyspark_savepoint.statebackends.jobs.graph.stream_graph import StreamGraph, StreamGraphHasher
from pyspark_savepoint.statebackends.jobs.graph.stream_nodes import ChainingStrategy
from pyspark_savepoint.statebackends.jobs.restore.job_reader import describe_job, from_graph
from pyspark_savepoint.statebackends.jobs.restore.restore_check import check_restore
from pyspark_savepoint.statebackends.jobs.restore.restore_plan import plan_restore, restore_plan_table
from pyspark_savepoint.statebackends.jobs.restore.restore_verdicts import SCHEMA, OperatorVerdict, RestoreCheck, Verdict

SHOP = Path(__file__).parents[2] / "oracle" / "savepoints" / "shop" / "savepoint"
UIDS = (
    *("orders-source", "orders-parser", "accounts", "warehouse-export", "currency-converter", "orders-per-minute"),
    "rates-source",
)


@pytest.fixture(scope="module")
def shop() -> Snapshot:
    return Snapshot.open(str(SHOP))


def job(*changed: dict[str, Any], without: tuple[str, ...] = (), **more: Any) -> Any:
    """The shop's job, with some operators described further."""
    by_uid = {operator["uid"]: operator for operator in changed}
    operators = [by_uid.pop(uid, {"uid": uid}) for uid in UIDS if uid not in without]
    return describe_job({"operators": [*operators, *by_uid.values()], **more})


def only(check: RestoreCheck, verdict: Verdict) -> OperatorVerdict:
    (row,) = [row for row in check.operators if row.verdict is verdict]
    return row


def test_the_same_job_restores(shop: Snapshot) -> None:
    for same in (describe_job(shop), job()):
        check = check_restore(shop, same)
        assert check.verdict is Verdict.RESTORES
        assert len(check.operators) == len(UIDS)


def test_an_operator_that_is_gone_is_named_with_what_it_may_be_now(shop: Snapshot) -> None:
    check = check_restore(shop, job({"uid": "account"}, without=("accounts",)))
    row = only(check, Verdict.FAILS)
    assert row.match is not None
    assert row.match.state.uid == "accounts"
    assert row.remedy == ("if this is 'account' of the job: change_operator_identifier('accounts', 'account')")
    assert only(check, Verdict.BEGINS_EMPTY).operator is not None
    allowed = check_restore(shop, job(without=("accounts",)), allow_non_restored_state=True)
    assert only(allowed, Verdict.IS_DROPPED).reasons == ("the job has no operator of this id",)


def test_an_operator_is_recognised_by_its_name(shop: Snapshot) -> None:
    made = StreamGraph()
    made.operator("orders per minute", made.source("orders").key_by(), uid="per-minute")
    rows = {row.match.state.uid: row for row in check_restore(shop, from_graph(made)).operators if row.match}
    assert rows["orders-per-minute"].remedy == (
        "if this is 'orders per minute' (uid 'per-minute') of the job: "
        "change_operator_identifier('orders-per-minute', 'per-minute')"
    )
    assert re.search(
        r"change_operator_identifier\('orders-source', '[0-9a-f]{32}'\)$", str(rows["orders-source"].remedy)
    )
    assert "remove_operator" in str(rows["currency-converter"].remedy)


def test_an_operator_that_moved_is_recognised_by_its_states(shop: Snapshot) -> None:
    described = describe_job(shop)
    moved = [
        replace(
            one, uid="ledger", name="Ledger", label="'ledger'", ids=OperatorIDPair(OperatorID.from_uid("ledger"), "uid")
        )
        if one.uid == "accounts"
        else one
        for one in described.operators
    ]
    row = only(check_restore(shop, replace(described, operators=tuple(moved))), Verdict.FAILS)
    assert row.remedy == "if this is 'ledger' of the job: change_operator_identifier('accounts', 'ledger')"
    # Two with the same states are told by their timers.
    twin = replace(
        next(one for one in moved if one.uid == "ledger"), uid="twin", label="'twin'",
        ids=OperatorIDPair(OperatorID.from_uid("twin"), "uid"), timers=frozenset({"window-timers"}),
    )  # fmt: skip
    row = only(check_restore(shop, replace(described, operators=(*moved, twin))), Verdict.FAILS)
    assert row.remedy == "if this is 'ledger' of the job: change_operator_identifier('accounts', 'ledger')"
    other = [replace(one, key=None, keyed_states={}) if one.uid == "ledger" else one for one in moved]
    row = only(check_restore(shop, replace(described, operators=tuple(other))), Verdict.FAILS)
    assert row.remedy == "remove it from the snapshot (remove_operator), or start the job with allowNonRestoredState"


def test_an_operator_that_moved_and_changed_is_recognised_by_the_states_that_it_still_has(shop: Snapshot) -> None:
    described = describe_job(shop)
    accounts = next(one for one in described.operators if one.uid == "accounts")
    names = list(accounts.keyed_states or {})
    assert len(names) > 1
    ids = OperatorIDPair(OperatorID.from_uid("ledger"), "uid")
    ledger = replace(
        accounts, uid="ledger", name="Ledger", label="'ledger'", ids=ids, key=None,
        keyed_states={names[0]: (accounts.keyed_states or {})[names[0]]},
    )  # fmt: skip
    others = tuple(one for one in described.operators if one is not accounts)
    row = only(check_restore(shop, replace(described, operators=(*others, ledger))), Verdict.FAILS)
    assert row.remedy == "if this is 'ledger' of the job: change_operator_identifier('accounts', 'ledger')"
    # Two that share as much are not told apart.
    twin = replace(ledger, uid="twin", label="'twin'", ids=OperatorIDPair(OperatorID.from_uid("twin"), "uid"))
    row = only(check_restore(shop, replace(described, operators=(*others, ledger, twin))), Verdict.FAILS)
    assert "remove_operator" in str(row.remedy)


def test_a_source_inside_another_operator_is_not_restored(shop: Snapshot) -> None:
    made = StreamGraph()
    inputs = [made.source(name, uid=name) for name in ("orders-source", "rates-source")]
    made.operator("both", *inputs, uid="both", chaining=ChainingStrategy.HEAD_WITH_SOURCES)
    check = check_restore(shop, from_graph(made))
    inside = [row for row in check.operators if any("runs inside an operator" in reason for reason in row.reasons)]
    assert [row.verdict for row in inside] == [Verdict.BEGINS_EMPTY] * 2 + [Verdict.FAILS] * 2
    made.chaining = False
    apart = check_restore(shop, from_graph(made), allow_non_restored_state=True)
    assert sum(row.verdict is Verdict.RESTORES for row in apart.operators) == 2


def test_an_operator_without_state_is_not_missed(shop: Snapshot) -> None:
    check = check_restore(shop, job(without=("orders-parser",)))
    assert check.verdict is Verdict.RESTORES
    assert only(check, Verdict.NOTHING_TO_RESTORE).reasons == ("it has no state",)


@pytest.mark.parametrize(
    ("changed", "reason", "remedy"),
    [
        (
            {"maxParallelism": 64},
            "max parallelism 128 in the snapshot, 64 in the job",
            "set max parallelism 128 in the job, or none",
        ),
        (
            {"parallelism": 129},
            "parallelism 129 is above the snapshot's max parallelism 128",
            "parallelism at most 128",
        ),
        (
            {"parallelism": 3, "maxParallelism": 2},
            "the job does not start: parallelism 3 is above its max parallelism 2",
            "set max parallelism 128",
        ),
        ({"key": "STRING"}, "key: LONG versus STRING", "keep the type of the key"),
        (
            {"states": {"total": "STRING"}},
            "state total: LONG versus STRING",
            "or remove_state('accounts', 'total') lets it begin empty",
        ),
        (
            {"states": {"total": {"kind": "LIST", "type": "LONG"}}},
            "state total: was registered as VALUE, and is now LIST",
            "remove_state",
        ),
    ],
)
def test_what_fails_says_why_and_what_to_do(shop: Snapshot, changed: Any, reason: str, remedy: str) -> None:
    row = only(check_restore(shop, job({"uid": "accounts", **changed})), Verdict.FAILS)
    assert reason in row.reasons
    assert remedy in str(row.remedy)


def test_states_of_both_sides_are_listed(shop: Snapshot) -> None:
    check = check_restore(shop, job({"uid": "accounts", "key": "LONG", "states": {"total": "LONG", "new": "INT"}}))
    row = next(row for row in check.operators if row.states)
    verdicts = {state.state: state.verdict for state in row.states}
    assert verdicts["total"] == "as is"
    assert verdicts["new"] == "new"
    assert verdicts["profile"] == "not used"


def test_classes_of_states_that_are_not_used_must_still_be_there(shop: Snapshot) -> None:
    accounts = {"uid": "accounts", "key": "LONG", "states": {"total": "LONG"}}
    row = only(check_restore(shop, job(accounts)), Verdict.UNKNOWN)
    assert "oracle.Shop$Profile" in row.reasons[0]
    needed = sorted(name for reason in row.reasons for name in re.findall(r"oracle[.\w$]+", reason))
    assert check_restore(shop, job(accounts, javaClasses=needed)).verdict is Verdict.RESTORES
    # A type that the job has somewhere names its class.
    types = {state: {"type": f"ENUM<{name}>(A)"} for state, name in enumerate_names(needed)}
    assert check_restore(shop, job(accounts, {"uid": "new", "states": types})).verdict is Verdict.BEGINS_EMPTY


def enumerate_names(names: list[str]) -> list[tuple[str, str]]:
    return [(f"state {number}", name) for number, name in enumerate(names)]


def test_an_operator_that_is_not_keyed_any_more_drops_its_keyed_state(shop: Snapshot) -> None:
    row = only(check_restore(shop, job({"uid": "accounts", "states": {}})), Verdict.IS_DROPPED)
    assert "total" in row.reasons[0]


def test_state_under_the_id_that_is_not_taken_is_dropped(shop: Snapshot) -> None:
    other = str(OperatorID.from_uid("rates-source"))
    check = check_restore(shop, job({"uid": "accounts", "uidHash": other}, without=("rates-source",)))
    row = only(check, Verdict.IS_DROPPED)
    assert row.match is not None
    assert row.match.state.uid == "accounts"
    assert row.reasons == ("'accounts' restores the state of another of its ids; this one is dropped silently",)


def test_a_plan_of_the_rest_interface_leaves_operators_open(shop: Snapshot) -> None:
    nodes = [{"id": str(OperatorID.from_uid("accounts")), "parallelism": 2, "description": "accounts<br/>+- more<br/>"}]
    check = check_restore(shop, describe_job({"nodes": nodes}))
    assert check.verdict is Verdict.UNKNOWN
    assert check.notes


def test_the_table_has_the_worst_first(shop: Snapshot) -> None:
    table = check_restore(shop, job({"uid": "accounts", "key": "STRING"}, {"uid": "late"})).to_arrow()
    assert table.schema.equals(SCHEMA)
    assert table.column("verdict").to_pylist()[:2] == ["fails", "begins empty"]
    assert table.column("job_operator").to_pylist()[:2] == ["'accounts'", "'late'"]
    assert table.column("matched_by").to_pylist()[:2] == ["uid", None]


def test_execution_vertices_are_given_their_state(shop: Snapshot) -> None:
    plan = plan_restore(shop, job({"uid": "accounts", "parallelism": 3}))
    accounts = plan["'accounts'"]
    assert [vertex.key_group_range.start for vertex in accounts] == [0, 43, 86]
    assert all(vertex.managed_keyed_state for vertex in accounts)
    assert len(plan["'rates-source'"]) == 1
    rows = restore_plan_table(shop, job({"uid": "accounts", "parallelism": 3})).to_pylist()
    keyed = [(row["first_key_group"], row["last_key_group"]) for row in rows if row["job_operator"] == "'accounts'"]
    assert keyed == [(0, 42), (43, 85), (86, 127)]
    (second,) = [row for row in rows if row["job_operator"] == "'accounts'" and row["subtask"] == 1]
    assert second["keyed_state_of_subtasks"] == [0, 1]
    (converter, *_) = [row for row in rows if row["job_operator"] == "'currency-converter'"]
    assert [(state["state"], state["mode"]) for state in converter["operator_states"]] == [("rates", "BROADCAST")]


# -- operators by their place in the graph ----------------------------------------------------------------------


def graph() -> StreamGraph:
    """As much of the shop's graph as has its ids: everything there has a uid."""
    made = StreamGraph()
    orders = made.source("orders", uid="orders-source")
    made.operator("late", orders)
    made.operator("accounts", orders.key_by(), uid="accounts")
    return made


@pytest.mark.parametrize("hasher", StreamGraphHasher)
def test_an_operator_is_found_by_its_place(shop: Snapshot, hasher: StreamGraphHasher) -> None:
    for name in ("accounts", "3"):
        assert operator_at(shop, graph(), name, hasher) == OperatorID.from_uid("accounts")
    with pytest.raises(OperatorNotFoundError) as error:
        operator_at(shop, graph(), "late", hasher)
    assert f"({hasher.value})" in str(error.value)


def test_an_operator_is_found_by_its_place_in_a_plan(shop: Snapshot) -> None:
    bare = '{"nodes": [{"id": 4, "type": "Source: orders", "parallelism": 1}]}'
    plan = bare[:-1] + ', "settings": {"4": {"uid": "orders-source"}}}'
    assert operator_at_plan(shop, plan, "4", StreamGraphHasher.V2) == OperatorID.from_uid("orders-source")
    with pytest.raises(OperatorNotFoundError, match="assumed: no uid: 'Source: orders'"):
        operator_at_plan(shop, bare, "Source: orders", StreamGraphHasher.V2)
    with pytest.raises(OptionError, match="is not JSON"):
        operator_at_plan(shop, "{", "4", StreamGraphHasher.V2)


def test_uids_for_operators_that_had_none(shop: Snapshot) -> None:
    before = StreamGraph()
    before.operator("last", before.operator("count", before.source("orders").key_by()))
    old = generated_ids(before)
    states = tuple(replace(shop.operators[0], operator_id=operator_id) for operator_id in old.values())
    snapshot = replace(shop, metadata=replace(shop.metadata, operators=states))
    after = StreamGraph()
    after.operator("last", after.operator("count", after.source("orders").key_by(), uid="count"))
    # The operator behind the one with a uid has another id since, though it has no uid itself.
    assert identifiers_to_change(snapshot, after) == {
        old[2]: OperatorIdentifier.for_uid("count"),
        old[3]: OperatorIdentifier(generated_ids(after)[3]),
    }
    assert [node.uid for node in after.nodes.values()] == [None, "count", None]
    # What the snapshot has by its uid already keeps it.
    named = replace(states[1], operator_id=OperatorID.from_uid("count"))
    known = replace(shop, metadata=replace(shop.metadata, operators=(named,)))
    assert identifiers_to_change(known, after) == {}


def test_a_graph_whose_operators_have_no_uids_fails(shop: Snapshot) -> None:
    made = StreamGraph()
    made.operator("accounts", made.source("orders").key_by())
    check = check_restore(shop, from_graph(made))
    assert check.verdict is Verdict.FAILS
    assert sum(row.verdict is Verdict.BEGINS_EMPTY for row in check.operators) == 2


# -- types as a job infers them --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written_by", "fields", "verdict"),
    [
        ("2.3.0", {"inferredBy": "2.2"}, Verdict.RESTORES),
        ("2.3.0", {}, Verdict.FAILS),
        ("1.20.5", {"inferredBy": "2.2"}, Verdict.FAILS),
        ("1.20.5", {"inferredBy": "1.20"}, Verdict.RESTORES),
    ],
)
def test_what_a_release_infers_is_held_against_the_snapshot(
    corpus: Path, written_by: str, fields: dict[str, str], verdict: Verdict
) -> None:
    """As real Flink did (`outcomes.json` of data set `migration`): 2.x refuses the Kryo of 1.x, and any plain list."""
    folder = corpus / "migration" / "cases" / "pojo-list-string" / f"{written_by}-hashmap"
    savepoint = Snapshot.open(str(folder))
    classes = str(corpus / "migration" / "classes")
    words = "POJO<miglab.Model$PListString>(id INT, name STRING, v LIST<STRING>)"
    texts = [words] if not fields else [words, "miglab.Model$PListString", "POJO<miglab.Model$PListString>"]
    for text in texts:
        given = {**fields, "classes": [classes]} if "(" not in text else fields
        described = describe_job(
            {
                "operators": [{"uid": "source"}, {"uid": "state", "key": "LONG", "states": {"v": text}}],
                "flinkVersion": "2.2" if fields.get("inferredBy") != "1.20" else "1.20",
                **given,
            }
        )
        row = next(
            row for row in check_restore(savepoint, described).operators if row.operator and row.operator.uid == "state"
        )
        assert row.verdict is verdict, (text, row.reasons)


@pytest.mark.parametrize("field", ["uid", "uidHash", "generatedId", "name"])
def test_names_are_texts(field: str) -> None:
    with pytest.raises(OptionError, match=f'field "{field}" must be a text'):
        describe_job({"operators": [{"uid": "a", field: 5}]})


def test_former_and_mistaken_names_of_class_files() -> None:
    with pytest.raises(OptionError, match='it is "classes" now'):
        describe_job({"operators": [], "typesFrom": "/jobs/shop.jar"})
    with pytest.raises(OptionError, match="'javaClasses' of a description"):
        describe_job({"operators": [], "classes": ["com.shop.Order"]})
    with pytest.raises(OptionError, match="must be a list of names of Java classes"):
        describe_job({"operators": [], "javaClasses": ["com.shop.Order", 5]})
    with pytest.raises(OptionError, match="not known"):
        describe_job({"operators": [], "inferredBy": "3.0"})


# -- what a description leaves out --------------------------------------------------------------------------

PLAN = {
    "nodes": [
        {"id": 1, "type": "Source: orders", "parallelism": 1},
        {
            "id": 2,
            "type": "accounts",
            "parallelism": 2,
            "predecessors": [{"id": 1, "ship_strategy": "HASH", "side": "second"}],
        },
    ]
}


def test_a_plan_without_uids_decides_nothing_about_operators_that_have_some(shop: Snapshot) -> None:
    """`env.getExecutionPlan()` has no uids: whether they are the snapshot's must be added."""
    check = check_restore(shop, describe_job(PLAN))
    rows = {row.match.state.uid: row for row in check.operators if row.match}
    assert check.verdict is Verdict.UNKNOWN
    assert rows["accounts"].verdict is Verdict.UNKNOWN
    assert rows["accounts"].reasons == (
        "it may be one of these, whose uids an execution plan does not contain: Source: orders, accounts",
    )
    assert rows["accounts"].remedy is not None
    assert '{"settings": {' in rows["accounts"].remedy
    given = {**PLAN, "settings": {"Source: orders": {"uid": "orders-source"}, "accounts": {"uid": "accounts"}}}
    named = {
        row.match.state.uid: row.verdict for row in check_restore(shop, describe_job(given)).operators if row.match
    }
    assert named["accounts"] is Verdict.RESTORES
    assert named["currency-converter"] is Verdict.FAILS
    allowed = check_restore(shop, describe_job(PLAN), allow_non_restored_state=True)
    assert allowed.verdict is Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("state", "given", "verdict"),
    [
        ("spent_by_currency", "MAP<STRING, LONG>", "as is"),
        ("recent_amounts", "LIST<DOUBLE>", "as is"),
        ("recent_amounts", "DOUBLE", "unknown"),
        ("spent_by_currency", "LONG", "unknown"),
        ("recent_amounts", {"kind": "VALUE", "type": "LIST<DOUBLE>"}, "incompatible"),
        ("coupon", "STRING", "unknown"),
        ("coupon", {"type": "STRING", "ttl": True}, "as is"),
        ("coupon", "TTL<STRING>", "as is"),
        ("total", "LONG", "as is"),
        ("total", "INT", "incompatible"),
    ],
)
def test_kind_and_time_to_live_that_are_left_out(shop: Snapshot, state: str, given: Any, verdict: str) -> None:
    """Types as `ls` shows them; what they do not say is unknown, with what to add."""
    check = check_restore(shop, job({"uid": "accounts", "key": "LONG", "states": {state: given}}, flinkVersion="2.0"))
    (row,) = (row for row in check.operators if row.states)
    (found,) = (one for one in row.states if one.state == state)
    assert found.verdict == verdict, found
    assert ("add {" in found.reason) == (verdict == "unknown")


def test_a_kind_of_a_window_that_is_left_out(shop: Snapshot) -> None:
    window = {"type": "TUPLE<LONG, LONG>", "namespace": "TIME_WINDOW"}
    for given, verdict in ((window, "unknown"), ({**window, "kind": "AGGREGATING"}, "as is")):
        check = check_restore(
            shop, job({"uid": "orders-per-minute", "key": "STRING", "states": {"window-contents": given}})
        )
        assert next(row for row in check.operators if row.states).states[0].verdict == verdict
