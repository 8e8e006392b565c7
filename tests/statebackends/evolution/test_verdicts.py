"""What becomes of state when a query changes: recorded changes, with the savepoint that real Flink wrote."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import pyspark_savepoint
from pyspark_savepoint.formats.errors import OptionError, UnsupportedStateError
from pyspark_savepoint.formats.serializers.sql.logical_types import LogicalType
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.evolution.changes import Backfilled, Call, Constant, OldField, Verdict, Waiting
from pyspark_savepoint.statebackends.evolution.evolution import check_options, evolution_of
from pyspark_savepoint.statebackends.evolution.lineage import Term
from pyspark_savepoint.statebackends.evolution.lineage import explained as explained_terms
from pyspark_savepoint.statebackends.evolution.logical_types import logical_type_of
from pyspark_savepoint.statebackends.evolution.plans import read_plan
from pyspark_savepoint.statebackends.evolution.report import lines_of
from pyspark_savepoint.statebackends.evolution.sources_of_fields import taken
from pyspark_savepoint.statebackends.evolution.stable_plan import stable_plan
from tests.data import unpacked
from tests.statebackends.evolution.verdicts import VERDICTS, changes, evolution, explained, names, shown

EXPECTED = json.loads(VERDICTS.read_text("utf-8"))
CASES = {name: json.loads((changes() / name / "case.json").read_text("utf-8")) for name in names()}
#: Changes that no plan tells: parallelism is that of the job, and a partner without state that would be missed.
TOLD = (Verdict.AS_IS, Verdict.TRANSFORMED, Verdict.DERIVED)


@pytest.mark.parametrize("name", CASES)
def test_verdicts(name: str) -> None:
    found = evolution(name)
    assert json.loads(json.dumps(shown(found))) == EXPECTED[name]
    assert list(lines_of(found))[-1]
    for one in found.operators:
        for state in one.states:
            new = state.new
            if new is not None and new.columns and state.fields and state.old is not None:
                assert len(state.fields) == len(new.columns), state


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case["restored"] and not case["same_rows"]])
def test_what_restores_with_other_rows_is_never_as_is(name: str) -> None:
    assert evolution(name).verdict is not Verdict.AS_IS


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case["restored"]])
def test_what_does_not_restore_is_as_is_only_where_ids_or_key_groups_are_others(name: str) -> None:
    found = evolution(name)
    if found.verdict is Verdict.AS_IS:
        assert any(one.moves for one in found.operators) or name.endswith("parallelism-max")


def test_only_what_is_asked_for_is_filled() -> None:
    (field,) = evolution("2.3.0/agg-add-sum").needed
    assert (field.name, field.source, field.backfill) == ("SUM(v)", None, "total")
    filled = evolution("2.3.0/agg-add-sum", fill="initial")
    assert not filled.needed
    assert filled.exit_code == 1
    change = filled.of("6_group-aggregate")
    assert change is not None
    assert change.states[0].fields[1].source == Constant(None)
    given = evolution("2.3.0/agg-add-sum", backfill=["total"])
    change = given.of("6_group-aggregate")
    assert change is not None
    assert change.states[0].fields[1].source == Backfilled("total")
    assert (given.verdict, given.exit_code) == (Verdict.BACKFILLED, 0)


def test_a_fill_that_would_be_wrong_later_is_not_made() -> None:
    found = evolution("2.3.0/agg-retract", fill="initial")
    assert {field.name for field in found.needed} == {"SUM(v) count of values", "MAX(v)", "COUNT(*)", "hi"}
    assert found.exit_code == 2


def test_a_call_begins_anew_with_all_of_its_parts() -> None:
    found = evolution("2.3.0/average-of-count", fill="initial")
    change = found.of("6_group-aggregate")
    assert change is not None
    assert [field.source for field in change.states[0].fields[1:]] == [Constant(0), Constant(0)]
    found = evolution("2.3.0/distinct-without-filter", fill="initial")
    change = found.of("6_group-aggregate")
    assert change is not None
    assert change.states[1].parts["number"] == Call("moved_bits", (0, 0))


def test_a_quotient_of_what_is_filled_and_of_what_goes_on_is_said() -> None:
    told = [line for line in lines_of(evolution("1.20.5/deviation-beside-sum", fill="initial")) if "divides" in line]
    assert len(told) == 1
    assert "what begins anew by what goes on" in told[0]
    assert not any("divides" in line for line in lines_of(evolution("2.3.0/average-of-count", fill="initial")))


def test_other_conditions_are_refused_until_they_are_accepted() -> None:
    assert evolution("2.3.0/ids-filter").exit_code == 2
    kept = evolution("2.3.0/ids-filter", filters="keep")
    assert (kept.verdict, kept.exit_code) == (Verdict.AS_IS, 0)
    assert any("as you accept" in line for line in lines_of(kept))


def test_renamed_tables_are_told() -> None:
    assert evolution("2.3.0/rename-tables").verdict is Verdict.LOST
    assert evolution("2.3.0/rename-tables", sources={"numbers": "t"}).verdict is Verdict.AS_IS
    with pytest.raises(OptionError, match="sources"):
        evolution("2.3.0/rename-tables", sources={"numbrs": "t"})


def test_a_plan_of_another_job_is_refused() -> None:
    folder = changes() / "2.3.0"
    savepoint = Snapshot.open(str(folder / "join-to-left" / "before"))
    plan = folder / "agg-reorder" / "old.json"
    with pytest.raises(OptionError, match="not the plan of this savepoint"):
        evolution_of(plan, plan, check_options(), savepoint)


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        '{"nodes": [], "edges": []}',
        '{"nodes": [{"id": 1}], "edges": []}',
        '{"nodes": 1, "edges": []}',
        '{"nodes": [{"id": 1, "type": "stream-exec-sink_1", "outputType": "ROW<`a` INT>"}], "edges": []}',
    ],
)
def test_what_is_no_plan_is_one_error(text: str) -> None:
    with pytest.raises(OptionError, match="old_plan"):
        read_plan(text, "old_plan")


def test_cut_plans_are_one_error() -> None:
    whole = json.loads((changes() / "2.3.0" / "pipeline" / "old.json").read_text("utf-8"))
    for number in range(len(whole["nodes"]) - 1):
        cut = {**whole, "nodes": [node for place, node in enumerate(whole["nodes"]) if place != number]}
        with pytest.raises(OptionError, match="new_plan"):
            read_plan(cut, "new_plan")


@pytest.mark.parametrize("name", ["ids-sink", "mini-batch-on", "mini-batch-two-phase", "union-branch"])
def test_a_stable_plan_has_the_ids_of_the_old_one(name: str) -> None:
    folder = changes() / "2.3.0" / name
    found = evolution(f"2.3.0/{name}")
    stable = stable_plan(read_plan(folder / "new.json"), found)
    again = evolution_of(folder / "old.json", stable, check_options(), Snapshot.open(str(folder / "before")))
    partners = [one for one in again.operators if one.old is not None and one.new is not None]
    assert len(partners) >= 2
    assert not any(one.moves for one in partners)
    assert len({node["id"] for node in stable["nodes"]}) == len(stable["nodes"])


def test_first_rows_by_time_of_flink_1_wait_for_the_watermark_in_flink_2() -> None:
    """Flink 1 emits them at once, Flink 2 when the watermark comes: in other states, with timers."""
    old, new = (changes() / release / "dedup-first-rowtime" for release in ("1.20.5", "2.3.0"))
    options = check_options(fill="initial")
    found = evolution_of(old / "old.json", new / "new.json", options, Snapshot.open(str(old / "before")))
    (change,) = [one for one in found.operators if one.new is not None and one.new.transformation == "deduplicate"]
    waiting = {state.new_name: state.waiting for state in change.states}
    assert waiting == {
        "waiting-to-emit-on-timer": Waiting(time=1, delay=40_000),
        "already-emitted-state-boolean": Waiting(time=1, delay=40_000, waits=False),
    }
    assert [(one.service, one.action) for one in change.timers] == [("user-timers", "made")]


def test_alike_operators_are_ambiguous_until_one_is_named() -> None:
    plan = json.loads((changes() / "2.3.0" / "agg-add-sum" / "old.json").read_text("utf-8"))
    twice = json.loads(json.dumps(plan))
    for node in plan["nodes"][1:]:
        twice["nodes"].append({**node, "id": node["id"] + 10})
    twice["nodes"][-2]["aggCalls"][0] = {**twice["nodes"][-2]["aggCalls"][0], "filterArg": 0}
    for edge in plan["edges"]:
        source = edge["source"] if edge["source"] == 1 else edge["source"] + 10
        twice["edges"].append({**edge, "source": source, "target": edge["target"] + 10})
    new = json.loads((changes() / "2.3.0" / "agg-add-sum" / "old.json").read_text("utf-8"))
    new["nodes"][5]["aggCalls"][0]["distinct"] = True
    new["nodes"][5]["aggCalls"][0]["argList"] = [0]
    found = evolution_of(twice, new, check_options())
    (change,) = [one for one in found.operators if one.verdict is Verdict.AMBIGUOUS]
    assert len(change.candidates) == 2
    assert all("nodes={'6': " in text for text in change.candidates)
    assert all("whose rows go to table sink" in text for text in change.candidates)
    assert found.exit_code == 2
    settled = evolution_of(twice, new, check_options(nodes={"6": "16"})).of("6_group-aggregate")
    assert settled is not None
    assert settled.old_uid == "16_group-aggregate"
    with pytest.raises(OptionError, match="nodes"):
        evolution_of(twice, new, check_options(nodes={"6": "99"}))


def test_lag_goes_on_under_another_id_and_is_never_another() -> None:
    """Its lists of Java's stay with the whole accumulator, also where the rows that OVER keeps are others."""
    change = evolution("2.3.0/lag").of("6_over-aggregate")
    assert change is not None
    assert (change.verdict, change.old_uid) == (Verdict.TRANSFORMED, "5_over-aggregate")
    assert [one.verdict for one in change.states if one.new_name == "accState"] == [Verdict.AS_IS]
    old = json.loads((changes() / "2.3.0" / "lag" / "old.json").read_text("utf-8"))
    for name, value in (
        ("constants", [{"kind": "LITERAL", "value": 2, "type": "INT NOT NULL"}]),
        ("arguments", [0, 4]),
    ):
        new = json.loads(json.dumps(old))
        (spec,) = [node["overSpec"] for node in new["nodes"] if "over-aggregate" in node["type"]]
        if name == "constants":
            spec["constants"] = value
        else:
            spec["groups"][0]["aggCalls"][0]["argList"] = value
        assert evolution_of(old, new, check_options(fill="initial")).verdict in (Verdict.REFUSED, Verdict.UNKNOWN)


def changed(name: str, kind: str, attribute: str, value: object) -> Verdict:
    """The verdict of a recorded query against itself, with one attribute of the nodes of a kind changed."""
    old = json.loads((changes() / "2.3.0" / name / "old.json").read_text("utf-8"))
    new = json.loads(json.dumps(old))
    places = [place.replace("\0", ".") for place in attribute.split(".")]
    for node in new["nodes"]:
        if kind in node["type"]:
            inner = node
            for place in places[:-1]:
                inner = inner.setdefault(place, {})
            inner[places[-1]] = value
    assert old != new
    return evolution_of(old, new, check_options()).verdict


#: A condition: the first field is greater than itself.
CONDITION = {
    "kind": "CALL",
    "internalName": "$>$1",
    "operands": [{"kind": "INPUT_REF", "inputIndex": 0, "type": "BIGINT"}] * 2,
    "type": "BOOLEAN",
}


@pytest.mark.parametrize(("calc", "code", "verdicts"), [(4, 0, ["as is"] * 2), (7, 2, ["as is", "refused"])])
def test_conditions_over_changes_are_refused_also_if_rows_of_before_are_kept(
    calc: int, code: int, verdicts: list[str]
) -> None:
    """Of calc 4 rows are only added; the rows of calc 7 are those of an aggregate, which change."""
    old = json.loads((changes() / "2.3.0" / "agg-of-agg" / "old.json").read_text("utf-8"))
    new = json.loads(json.dumps(old))
    next(node for node in new["nodes"] if node["id"] == calc)["condition"] = CONDITION
    found = evolution_of(old, new, check_options(filters="keep"))
    assert found.exit_code == code
    aggregates = [one for one in found.operators if one.new is not None and "aggregate" in one.new.transformation]
    assert [one.verdict.value for one in aggregates] == verdicts
    assert code == 0 or "Give the rows of its tables in argument 'backfill'" in aggregates[1].reasons[0]
    asked = evolution_of(old, new, check_options())
    assert asked.exit_code == 2
    assert any("filters='keep' accepts that" in "".join(one.reasons) for one in asked.operators) == (code == 0)


@pytest.mark.parametrize(
    ("options", "verdict"),
    [
        ({"connector": "kafka", "format": "json"}, "as is"),
        ({"connector": "kafka", "format": "debezium-json"}, "refused"),
        ({"connector": "mysql-cdc"}, "refused"),
    ],
)
def test_the_connector_and_format_of_a_table_tell_whether_rows_are_only_added(
    options: dict[str, str], verdict: str
) -> None:
    old = json.loads((changes() / "2.3.0" / "join-to-left" / "new.json").read_text("utf-8"))
    for node in old["nodes"]:
        if "scanTableSource" in node:
            node["scanTableSource"]["table"]["resolvedTable"]["options"] = options
    new = json.loads(json.dumps(old))
    calc = next(node for node in new["nodes"] if "calc" in node["type"])
    calc["condition"] = CONDITION
    (join,) = [
        one
        for one in evolution_of(old, new, check_options(filters="keep")).operators
        if one.new is not None and one.new.transformation == "join"
    ]
    assert join.verdict.value == verdict


@pytest.mark.parametrize(
    ("name", "kind", "attribute", "value"),
    [
        ("window-add", "global-window-aggregate", "windowing.window.size", "PT7M"),
        ("window-add", "local-window-aggregate", "configuration.table\0local-time-zone", "Asia/Tokyo"),
        ("old-window-add", "group-window-aggregate", "window.timeField.fieldIndex", 0),
        ("join-to-left", "join_1", "joinSpec.filterNulls", [False]),
        ("join-to-left", "join_1", "joinSpec.leftKeys", [0]),
        ("interval-join", "interval-join", "intervalJoinSpec.windowBounds.leftTimeIndex", 0),
        ("interval-join", "interval-join", "intervalJoinSpec.windowBounds.leftUpperBound", 120_000),
        ("window-join", "window-join", "leftWindowing.windowEnd", 1),
        ("normalize-column", "changelog-normalize", "filterCondition", CONDITION),
        ("dedup-last", "deduplicate", "keepLastRow", False),
        ("dedup-last", "deduplicate", "isRowtime", True),
        ("dedup-last", "deduplicate", "type", "stream-exec-deduplicate_2"),
        ("top-number", "rank", "rankRange.end", 7),
        ("top-number", "rank", "rankRange.start", 2),
        ("top-number", "rank", "orderBy.fields", [{"index": 1, "isAscending": True, "nullIsLast": True}]),
        ("over-add", "over-aggregate", "overSpec.constants", [{"kind": "LITERAL", "value": 9, "type": "INT NOT NULL"}]),
        ("agg-add-sum", "group-aggregate", "grouping", []),
        ("pipeline", "deduplicate", "keepLastRow", False),
        ("match-column", "match", "matchSpec.pattern", CONDITION),
    ],
)
def test_what_changes_the_meaning_is_never_as_is(name: str, kind: str, attribute: str, value: object) -> None:
    assert changed(name, kind, attribute, value) is not Verdict.AS_IS


@pytest.mark.parametrize(
    ("kind", "verdict"), [("INNER", Verdict.AS_IS), ("LEFT", Verdict.LOST), ("FULL", Verdict.LOST)]
)
def test_an_outer_interval_join_has_matched_by_what_was_before(kind: str, verdict: Verdict) -> None:
    """Flink goes on with these matches, under other bounds or another condition: rows have them without that."""
    old = json.loads((changes() / "2.3.0" / "interval-join" / "old.json").read_text("utf-8"))
    (join,) = [node["intervalJoinSpec"] for node in old["nodes"] if "interval-join" in node["type"]]
    join["joinSpec"]["joinType"] = kind
    assert evolution_of(old, old, check_options()).verdict is Verdict.AS_IS
    new = json.loads(json.dumps(old).replace('"leftUpperBound": 60000', '"leftUpperBound": 20000'))
    assert evolution_of(old, new, check_options()).verdict is verdict
    new = json.loads(json.dumps(old))
    (join,) = [node["intervalJoinSpec"] for node in new["nodes"] if "interval-join" in node["type"]]
    join["joinSpec"]["nonEquiCondition"] = CONDITION
    assert evolution_of(old, new, check_options()).verdict is verdict


def test_what_changes_before_an_operator_flows_down() -> None:
    """The rows of a join behind a deduplication are others, when that keeps another row."""
    old = json.loads((changes() / "2.3.0" / "pipeline" / "old.json").read_text("utf-8"))
    new = json.loads(json.dumps(old))
    for node in new["nodes"]:
        if "deduplicate" in node["type"]:
            node["keepLastRow"] = False
    change = evolution_of(old, new, check_options()).of("15_join")
    assert change is not None
    assert change.verdict is Verdict.REFUSED
    assert "other rows than before" in change.reasons[0]


@pytest.mark.parametrize("argument", ["casts", "columns"])
def test_a_name_that_the_new_query_does_not_have_is_an_error(argument: str) -> None:
    """Names of fields are known, also of those that need nothing."""
    for known in ("total", "6.total", "SUM(v)"):
        if argument == "columns" or known == "SUM(v)":
            evolution("2.3.0/agg-add-sum", **{argument: {known: "n" if argument == "columns" else "INT"}})
    with pytest.raises(OptionError, match=f"argument '{argument}' names what the new query does not have") as raised:
        evolution("2.3.0/agg-add-sum", **{argument: {"totl": "BIGINT"}})
    assert "did you mean" in str(raised.value)


@pytest.mark.parametrize("name", ["total", "SUM(v)", "6.SUM(v)"])
def test_a_column_gets_the_values_of_the_one_that_the_user_names(name: str) -> None:
    """By the name in the output, and by the one that the report shows; one that OLD does not have is an error."""
    found = evolution("2.3.0/agg-add-sum", fill="initial", columns={name: "n"})
    (state,) = (one for change in found.operators for one in change.states if one.new_name == "accState")
    assert (state.fields[1].name, state.fields[1].verdict) == ("SUM(v)", Verdict.TRANSFORMED)
    with pytest.raises(OptionError, match="names what the old query does not have"):
        evolution("2.3.0/agg-add-sum", fill="initial", columns={name: "nosuch"})


def of_flink_1_17(plan: Path) -> dict[str, Any]:
    """A plan as 1.17 writes it: no time to live, and numbers of expressions as texts."""

    def plain(value: Any) -> Any:
        if isinstance(value, list):
            return [plain(one) for one in value]
        if not isinstance(value, dict):
            return value
        found = {name: plain(one) for name, one in value.items() if name != "state"}
        if value.get("kind") == "LITERAL" and type(value.get("value")) is int:
            found["value"] = str(value["value"])
        return found

    return {**plain(json.loads(plan.read_text("utf-8"))), "flinkVersion": "1.17"}


def test_plans_before_1_18_mean_the_same() -> None:
    count = 0
    for name in names():
        folder = changes() / name
        if not explained(folder):
            savepoint = Snapshot.open(str(folder / "before"))
            found = evolution_of(of_flink_1_17(folder / "old.json"), folder / "new.json", check_options(), savepoint)
            assert json.loads(json.dumps(shown(found))) == EXPECTED[name], name
            count += 1
    assert count > 60


def test_the_time_to_live_of_a_plan_that_does_not_say_it_is_that_of_the_savepoint() -> None:
    folder = changes() / "2.3.0" / "ttl-off"
    plan = of_flink_1_17(folder / "old.json")
    found = evolution_of(plan, plan, check_options(), Snapshot.open(str(folder / "before")))
    assert found.verdict is Verdict.AS_IS
    assert [one for one in found.warnings if "table.exec.state.ttl" in one]
    states = [state for one in found.operators for state in one.states if state.new is not None]
    assert states
    assert all(state.new and state.new.ttl for state in states)


def notes_of(name: str, change: Callable[[dict[str, Any]], object]) -> list[str]:
    """What is said of a recorded query against itself, with one change."""
    old = json.loads((changes() / "2.3.0" / name / "old.json").read_text("utf-8"))
    new = json.loads(json.dumps(old))
    change(new)
    return list(evolution_of(old, new, check_options()).warnings)


def test_what_no_plan_says_is_said() -> None:
    (zone,) = evolution("2.3.0/time-zone").warnings
    assert zone.startswith("node 4 Calc(select=[DATE_FORMAT(")
    assert zone.endswith("the new job needs the same table.local-time-zone as the old one")

    def delayed(plan: dict[str, Any]) -> None:
        (node,) = [one for one in plan["nodes"] if "watermark-assigner" in one["type"]]
        node["watermarkExpr"] = {**CONDITION, "internalName": "$-$1", "type": "TIMESTAMP(3)"}

    (watermark,) = notes_of("window-add", delayed)
    assert watermark.startswith("the watermark of table t is another one")


def test_functions_of_the_user_are_told_by_their_class() -> None:
    """A name can be that of another class; without a class in the plan, only the name is known."""
    function = {"kind": "CALL", "catalogName": "`c`.`d`.`f`", "class": "com.shop.F", "type": "VARCHAR(2147483647)"}

    def plan(call: dict[str, Any], name: str) -> dict[str, Any]:
        found = json.loads((changes() / "2.3.0" / "time-zone" / "old.json").read_text("utf-8"))
        (node,) = [one for one in found["nodes"] if one.get("projection", [{}])[0].get("kind") == "CALL"]
        operands = [{"kind": "INPUT_REF", "inputIndex": 0, "type": "BIGINT"}]
        node["projection"] = [{**call, "operands": operands, "catalogName": f"`c`.`d`.`{name}`"}]
        return found

    unnamed = {name: value for name, value in function.items() if name != "class"}
    other = {**function, "class": "com.shop.G"}
    for old, new, verdict, said in (
        (plan(function, "f"), plan(function, "g"), Verdict.AS_IS, ""),
        (plan(function, "f"), plan(other, "f"), Verdict.LOST, ""),
        (plan(unnamed, "f"), plan(unnamed, "g"), Verdict.LOST, ""),
        (plan(unnamed, "f"), plan(unnamed, "f"), Verdict.AS_IS, "f is a function of yours"),
    ):
        found = evolution_of(old, new, check_options())
        assert found.verdict is verdict
        assert "".join(found.warnings).startswith(said) == bool(found.warnings or not said)


def test_computed_columns_are_shown_as_sql() -> None:
    call = {"kind": "CALL", "internalName": "$CASE$1", "type": "INT"}
    more = {**CONDITION, "operands": [CONDITION["operands"][0], {"kind": "LITERAL", "value": 20, "type": "INT"}]}
    null = {"kind": "LITERAL", "value": None, "type": "INT"}
    rex = {**call, "operands": [more, CONDITION["operands"][0], null]}
    term = Term("digest", "$f1", rex, (Term("column", "amount"),))
    assert explained_terms([term, Term("other", "price")]) == "$f1 is CASE WHEN (amount > 20) THEN amount ELSE NULL END"


def test_over_of_flink_1_is_not_restored_with_a_time_to_live_that_begins(tmp_path: Path) -> None:
    """No plan says how long the state of OVER lives, so that a sentence says what the job must not set."""
    folder = changes() / "2.3.0/over-unbounded"
    text = (folder / "new.json").read_text("utf-8")
    assert '"2.3"' in text
    (tmp_path / "new.json").write_text(text.replace('"2.3"', '"1.20"', 1), "utf-8")
    plans = folder / "old.json", tmp_path / "new.json"
    found = evolution_of(*plans, check_options(fill="initial"), Snapshot.open(str(folder / "before")))
    (sentence,) = [one for one in found.warnings if "over-aggregate" in one]
    assert "Flink 1 does not restore it with table.exec.state.ttl" in sentence


def test_sets_of_columns_are_told_apart_by_what_they_have() -> None:
    swapped = evolution("1.20.5/sets-swapped").of("7_group-aggregate")
    assert swapped is not None
    assert [one.verdict for one in swapped.key] == [Verdict.TRANSFORMED] * 3
    assert evolution("1.20.5/sets-added").exit_code == 1
    added = evolution("1.20.5/sets-added").of("7_group-aggregate")
    assert added is not None
    assert added.reasons == ("groups by (item) are new, and begin with no rows of before",)
    assert {state.verdict for state in added.states} == {Verdict.AS_IS}


def test_what_was_looked_up_is_the_same_in_plans_of_other_releases() -> None:
    assert evolution("1.20.5/lookup-counts").verdict is Verdict.AS_IS


def test_changed_state_of_forst_is_for_other_backends() -> None:
    (note,) = evolution("2.3.0/forst-rank").warnings
    assert note.endswith("write it portable, and run the new job on RocksDB or hashmap")


def test_parts_of_a_connector_move_with_their_sink() -> None:
    part = evolution("1.20.5/committing-sink").of("Sink Committer: 8_writer")
    assert part is not None
    assert part.old is not None
    assert (part.old.uid, part.moves, part.narrows) == ("Sink Committer: 7_writer", True, True)


def test_rows_of_a_rank_that_are_also_taken_out_are_not_filled() -> None:
    (field,) = evolution("2.3.0/rank-of-changes", fill="initial").needed
    assert (field.name, field.verdict, field.source) == ("item", Verdict.BACKFILLED, None)
    assert field.reason.endswith(
        "as a later change of an old row would not find it, as it is found by all of its columns"
    )


def test_a_temporal_join_of_a_job_with_a_time_to_live() -> None:
    assert evolution("2.3.0/temporal-ttl").verdict is Verdict.AS_IS


def test_a_committer_of_two_subtasks_keeps_its_max_parallelism_behind_an_operator_without_a_key() -> None:
    found = evolution("2.3.0/committing-of-two")
    assert found.verdict is Verdict.AS_IS
    assert [one.new_uid for one in found.operators if one.narrows] == []
    assert [one.old_uid for one in found.operators if str(one.old_uid).startswith("Sink Committer")] != []


def test_a_first_value_that_is_filled_takes_the_next_one() -> None:
    """Flink takes a value where the order is the largest; with any other, NULL would stay for ever."""
    change = evolution("2.3.0/first-value-of-other", fill="initial").of("6_group-aggregate")
    assert change is not None
    assert change.states[0].fields[0].source == Constant({"firstValue": None, "firstOrder": 2**63 - 1})


def test_count_of_a_column_goes_on_where_it_becomes_not_null_or_nullable() -> None:
    """The planner makes COUNT(*) of it, so that the plans have different calls."""
    folder = unpacked() / "sql-changes" / "2.3.0" / "sum-added"
    stars = (folder / "new.json").read_text("utf-8")
    columns = json.loads(stars)
    (aggregate,) = [node for node in columns["nodes"] if "group-aggregate" in node["type"]]
    aggregate["aggCalls"][0]["argList"] = [1]
    sure = json.loads(stars.replace("`price` INT,", "`price` INT NOT NULL,"))

    def counted(old: Any, new: Any) -> tuple[Verdict, str]:
        change = evolution_of(old, new, check_options()).of("6_group-aggregate")
        assert change is not None
        return change.states[0].fields[0].verdict, change.states[0].fields[0].reason

    was = "from COUNT(*): the column is NOT NULL in the old query"
    assert counted(sure, columns) == (Verdict.DERIVED, was)
    becomes = "from COUNT(price): the column is NOT NULL in the new query"
    assert counted(columns, sure) == (Verdict.DERIVED, becomes)
    assert counted(json.loads(stars), columns)[0] is Verdict.FILLED
    assert counted(columns, json.loads(stars))[0] is Verdict.FILLED


def test_an_average_of_windows_with_a_gap_tells_their_sum() -> None:
    folder = unpacked() / "sql-changes" / "2.3.0" / "gap-window-sum-removed"
    new = json.loads((folder / "old.json").read_text("utf-8"))
    old = json.loads(json.dumps(new).replace('"$SUM$1"', '"$AVG$1"'))
    found = evolution_of(old, new, check_options())
    assert found.verdict is Verdict.DERIVED


def test_a_problem_of_several_states_is_said_once() -> None:
    folder = changes() / "2.3.0" / "over-add"
    old = json.loads((folder / "old.json").read_text("utf-8"))
    new = json.loads(json.dumps(old))
    for node in new["nodes"]:
        if "over-aggregate" in node["type"]:
            node["overSpec"]["groups"][0]["isRows"] = not node["overSpec"]["groups"][0]["isRows"]
    with pytest.raises(UnsupportedStateError) as raised:
        pyspark_savepoint.open(folder / "before").evolve(old, new)
    found = raised.value.facts["found"]
    assert "states inputState, accState" in found
    assert found.count("are backfilled (") == 1


def test_the_largest_value_of_a_changelog_gets_a_wider_type() -> None:
    """Flink keeps it in a structure of its own, whose parts are told by their names."""
    kinds = [logical_type_of(text) for text in ("INT", "BIGINT")]
    old, new = (
        LogicalType("STRUCTURED_TYPE", class_name="MaxWithRetract", names=("max", "mapSize"), children=(one, kinds[1]))
        for one in kinds
    )
    found = taken("MAX(amount)", new, (OldField("accState", 0, "MAX(amount)"), old))
    assert (found.verdict, found.reason) == (Verdict.TRANSFORMED, "max: INT becomes BIGINT")
    other = replace(new, class_name="Other")
    assert taken("MAX(amount)", other, (OldField("accState", 0, "MAX(amount)"), old)).verdict is Verdict.REFUSED


def test_a_report_says_each_reason_once_for_an_operator_and_its_states() -> None:
    lines = list(lines_of(evolution("2.3.0/agg-key-added")))
    key = "its key has s now, which the old one has not: it begins anew, unless its history is given in argument "
    assert [line.strip() for line in lines if "its key has" in line] == [f"{key}'backfill'"]
    lines = list(lines_of(evolution("2.3.0/agg-of-agg")))
    assert "        hi: backfilled" in lines  # its state has said why
