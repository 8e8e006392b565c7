"""Information about a snapshot through Spark: sizes, ages, differences, history, a database, and its display."""

from __future__ import annotations

import html
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException

import pyspark_savepoint
from pyspark_savepoint import OperatorIdentifier, Savepoint, diff, history, register
from pyspark_savepoint.engines.display import MAX_OPERATORS, html_tree, text_tree
from pyspark_savepoint.formats.errors import (
    OperatorNotFoundError,
    OptionError,
    SnapshotNotFoundError,
    StateExistsError,
    StateNotFoundError,
)
from pyspark_savepoint.formats.metadata import read_metadata, write_metadata
from pyspark_savepoint.formats.snapshot.savepoint import find_snapshots
from pyspark_savepoint.plan.savepoint_plan import Operators
from pyspark_savepoint.statebackends.catalog.statements import literal, name_tables

pytestmark = [pytest.mark.spark, pytest.mark.slow("whole savepoints compared and surveyed, again and again")]


@pytest.fixture
def savepoint(spark: Any, shop: Path) -> Savepoint:
    return Savepoint.load(spark, str(shop))


# -- sizes, keys, ages ------------------------------------------------------------------------------------------


def test_sizes_by_state(savepoint: Savepoint) -> None:
    found = savepoint.inspect.sizes("accounts").groupBy("state").sum("entries", "bytes").collect()
    by_state = {row["state"]: tuple(row)[1:] for row in found}
    assert by_state["total"] == (200, 3400)
    assert by_state["profile"] == (200, 9169)


def test_the_heaviest_keys_of_each_state(savepoint: Savepoint) -> None:
    found = savepoint.inspect.heaviest_keys("accounts", top=3).collect()
    assert {row["state"] for row in found} == {"total", "recent_amounts", "spent_by_currency", "coupon", "profile"}
    profile = [row["bytes"] for row in found if row["state"] == "profile"]
    assert len(profile) == 3
    assert profile == sorted(profile, reverse=True)


def test_ages_are_counted_over_all_key_groups(savepoint: Savepoint) -> None:
    found = savepoint.inspect.ttl_ages().where("units is not null").collect()
    assert sum(row["units"] for row in found) == 50
    assert {row["state"] for row in found} == {"coupon"}


def test_verify_finds_nothing_in_a_sound_snapshot_and_what_is_missing_first(
    spark: Any, shop: Path, tmp_path: Path
) -> None:
    path = tmp_path / "shop"
    shutil.copytree(shop, path)
    assert {row["status"] for row in Savepoint.load(spark, str(path)).inspect.verify().collect()} == {"ok"}
    next(file for file in path.iterdir() if file.name != "_metadata").unlink()
    statuses = [row["status"] for row in Savepoint.load(spark, str(path)).inspect.verify("accounts").collect()]
    assert statuses[0] == "error"
    assert statuses[-1] == "ok"


# -- differences -----------------------------------------------------------------------------------------------------


def test_a_snapshot_does_not_differ_from_itself(savepoint: Savepoint) -> None:
    assert diff(savepoint, savepoint, "accounts").count() == 0
    assert savepoint.diff(savepoint, "accounts", table="timers").count() == 0


def test_differences_in_numbers_and_by_key(spark: Any, savepoint: Savepoint, tmp_path: Path) -> None:
    gone = spark.createDataFrame([(1042,), (1043,)], "key bigint")
    edited = savepoint.remove_keys("accounts", gone).remove_operator("currency-converter")
    newer = edited.write(str(tmp_path / "newer"))
    numbers = {(row["operator_uid"], row["state"]): row for row in savepoint.diff(newer).collect()}
    total = numbers["accounts", "total"]
    assert (total["before"], total["after"], total["removed"], total["changed"]) == (200, 198, 2, 0)
    assert numbers["currency-converter", "rates"]["operator_change"] == "removed"
    assert numbers["orders-per-minute", "window-contents"]["removed"] == 0
    rows = savepoint.diff(newer, "accounts").collect()
    assert {(row["key"], row["change"]) for row in rows} == {(1042, "removed"), (1043, "removed")}
    known = {row["key"]: row for row in savepoint.keyed_state("accounts").where("key in (1042, 1043)").collect()}
    for row in rows:
        assert row["profile_before"] == known[row["key"]]["profile"]
        assert row["total_after"] is None
    timers = savepoint.diff(newer, "accounts", table="timers").collect()
    assert {(row["key"], row["change"]) for row in timers} == {(1042, "removed"), (1043, "removed")}
    rates = newer.diff(savepoint, "currency-converter").collect()
    assert {row["change"] for row in rates} == {"added"}
    assert len(rates) == 5
    assert {"value_before", "value_after"} <= set(rates[0].asDict())


def test_elements_of_lists_are_counted(savepoint: Savepoint, spark: Any, tmp_path: Path) -> None:
    newer = savepoint.remove_operator("warehouse-export").write(str(tmp_path / "newer"))
    rows = savepoint.diff(newer, "warehouse-export", state="pending_orders").collect()
    assert {row["change"] for row in rows} == {"removed"}
    assert sum(row["count"] for row in rows) == 20
    with pytest.raises(OptionError, match="'state' is missing"):
        savepoint.diff(newer, "warehouse-export")


def test_differences_of_what_is_not_there(savepoint: Savepoint) -> None:
    with pytest.raises(OperatorNotFoundError, match="neither") as raised:
        savepoint.diff(savepoint, "acounts")
    assert "'accounts'" in raised.value.facts["remedy"]
    with pytest.raises(StateNotFoundError) as missing:
        savepoint.diff(savepoint, "accounts", table="keyed_state", state="totl")
    assert "'total'" in missing.value.facts["remedy"]


# -- history ---------------------------------------------------------------------------------------------------------


def test_checkpoints_as_one_table(spark: Any, shop: Path, tmp_path: Path) -> None:
    for number in (1, 2):
        shutil.copytree(shop, tmp_path / f"chk-{number}")
    (tmp_path / "chk-3").mkdir()
    (tmp_path / "chk-3" / "_metadata").write_bytes(b"damaged")
    accounts = history(spark, str(tmp_path), "accounts", state="total")
    assert accounts.columns == ["checkpoint_id", "snapshot", "key", "total"]
    assert accounts.count() == 400
    assert {row["snapshot"] for row in accounts.select("snapshot").distinct().collect()} == {
        str(tmp_path / "chk-1"),
        str(tmp_path / "chk-2"),
    }
    assert history(spark, str(tmp_path), "accounts", last=1, state="total").count() == 200
    assert history(spark, str(tmp_path)).where("operator_uid = 'accounts'").count() == 2
    with pytest.raises(OperatorNotFoundError, match="none of 2"):
        history(spark, str(tmp_path), "nobody")
    with pytest.raises(SnapshotNotFoundError):
        history(spark, str(tmp_path / "chk-3"))


def test_changes_between_checkpoints_are_counted(savepoint: Savepoint, spark: Any, shop: Path, tmp_path: Path) -> None:
    shutil.copytree(shop, tmp_path / "chk-1")
    keys = spark.createDataFrame([(1042,), (1043,)], "key long")
    savepoint.remove_keys("accounts", keys).write(str(tmp_path / "chk-2"))
    changes = history(spark, str(tmp_path), "accounts", changes=True).where("state = 'total'").collect()
    (row,) = changes
    assert (row["checkpoint_id"], row["snapshot"], row["operator_uid"]) == (1, str(tmp_path / "chk-2"), "accounts")
    assert [row[name] for name in ("before", "after", "added", "removed", "changed")] == [200, 198, 0, 2, 0]
    assert history(spark, str(tmp_path), last=1, changes=True).collect() == []
    with pytest.raises(OptionError, match="without options"):
        history(spark, str(tmp_path), changes=True, table="timers")


# -- a database ------------------------------------------------------------------------------------------------------


def schemas(spark: Any) -> set[str]:
    return {row[0] for row in spark.sql("SHOW SCHEMAS").collect()}


@pytest.fixture
def clean(spark: Any) -> Iterator[None]:
    before = schemas(spark)
    warehouse = Path(spark.conf.get("spark.sql.warehouse.dir").removeprefix("file:"))
    files = set(warehouse.rglob("*"))
    yield
    assert schemas(spark) == before
    assert set(warehouse.rglob("*")) == files


@pytest.mark.usefixtures("clean")
def test_a_snapshot_as_a_database(spark: Any, savepoint: Savepoint, shop: Path) -> None:
    names = savepoint.create_tables()
    assert "`accounts`.`keyed_state`" in names
    assert spark.sql("SELECT sum(total) FROM accounts.keyed_state").first()[0] > 0
    assert spark.sql("SELECT count(*) FROM currency_converter.rates").first()[0] == 5
    assert spark.sql("SELECT count(*) FROM orders_per_minute.window_state").first()[0] == 24
    assert spark.sql("SELECT sum(bytes) FROM savepoint.sizes WHERE state = 'profile'").first()[0] == 9169
    join = "SELECT count(*) FROM accounts.keyed_state a JOIN accounts.timers t ON a.key = t.key"
    assert spark.sql(join).first()[0] == 400
    assert savepoint.create_tables() == names
    spark.sql("CREATE SCHEMA shop_accounts COMMENT 'mine'")
    with pytest.raises(StateExistsError, match="exist already and belong to something else"):
        savepoint.create_tables("shop")
    spark.sql("DROP SCHEMA shop_accounts")
    assert {"accounts", "savepoint"} <= schemas(spark)
    assert set(savepoint.drop_tables()) > {"accounts", "savepoint"}
    # Dropping its tables does nothing to the snapshot.
    assert savepoint.keyed_state("accounts").count() == 200


@pytest.mark.usefixtures("clean")
def test_what_somebody_put_into_a_namespace_stays(spark: Any, savepoint: Savepoint) -> None:
    savepoint.create_tables()
    spark.sql("CREATE VIEW accounts.rich AS SELECT * FROM accounts.keyed_state WHERE total > 100")
    assert "accounts" not in savepoint.drop_tables()
    # Temporary views are listed in every namespace.
    left = spark.sql("SHOW TABLES IN accounts").where("NOT isTemporary").collect()
    assert [row["tableName"] for row in left] == ["rich"]
    spark.sql("DROP SCHEMA accounts CASCADE")


@pytest.mark.usefixtures("clean")
def test_a_uid_of_white_space(spark: Any, shop: Path, tmp_path: Path) -> None:
    """Its operator has the namespace of its name, or of its hash, and is read by the hash; the others are as ever."""
    metadata = read_metadata((shop / "_metadata").read_bytes())
    blank = {"accounts": {"uid": " "}, "currency-converter": {"uid": " \t", "name": " "}}
    operators = tuple(replace(one, **blank.get(one.uid or "", {})) for one in metadata.operators)
    shutil.copytree(shop, tmp_path / "blank")
    (tmp_path / "blank" / "_metadata").write_bytes(write_metadata(replace(metadata, operators=operators)))
    savepoint = Savepoint.load(spark, str(tmp_path / "blank"))
    by_hash = f"operator_{OperatorIdentifier.for_uid('currency-converter').operator_id}"
    names = savepoint.create_tables()
    assert {"`accounts`.`keyed_state`", f"`{by_hash}`.`rates`", "`orders_per_minute`.`window_state`"} <= set(names)
    assert spark.sql("SELECT count(*) FROM accounts.keyed_state").first()[0] == 200
    assert spark.sql(f"SELECT count(*) FROM {by_hash}.rates").first()[0] == 5
    assert spark.sql("SELECT count(*) FROM orders_per_minute.window_state").first()[0] == 24
    savepoint.drop_tables()


@pytest.mark.usefixtures("clean")
def test_sql_alone_makes_and_drops_a_database(spark: Any, shop: Path) -> None:
    if spark.version < "4.2":
        pytest.skip("SQL scripts with FOR loops")
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW ddl USING savepoint OPTIONS (path '{shop}', table 'statements')")
    run = """BEGIN FOR row AS SELECT statement FROM ddl WHERE action = '{}' ORDER BY position
             DO EXECUTE IMMEDIATE row.statement; END FOR; END"""
    spark.sql(run.format("create"))
    assert spark.sql("SELECT count(*) FROM accounts.keyed_state").first()[0] == 200
    spark.sql(run.format("drop"))
    spark.catalog.dropTempView("ddl")


def test_table_functions(spark: Any, shop: Path) -> None:
    assert "savepoint_states" in register(spark)
    states = spark.sql(f"SELECT state, options['uid'] FROM savepoint_states('{shop}') WHERE ttl").collect()
    assert [tuple(row) for row in states] == [("coupon", "accounts")]
    assert spark.sql(f"SELECT * FROM savepoint_metadata('{shop}')").count() == 7
    paths = f"SELECT m.operator_uid FROM VALUES ('{shop}') AS t(path), LATERAL savepoint_metadata(t.path) m"
    assert spark.sql(paths).count() == 7


def test_table_functions_of_state(spark: Any, shop: Path, corpus: Path) -> None:
    assert {"savepoint_state", "savepoint_changes"} <= set(register(spark))

    def read(path: Path, **options: Any) -> Any:
        return spark.read.format("savepoint").options(**options).load(str(path))

    found = spark.sql(f"SELECT * FROM savepoint_state('{shop}', 'accounts')")
    expected = read(shop, uid="accounts")
    assert found.schema.names == expected.schema.names
    assert [field.dataType for field in found.schema] == [field.dataType for field in expected.schema]
    assert sorted(map(str, found.collect())) == sorted(map(str, expected.collect()))
    timers = f"SELECT count(*) FROM savepoint_state('{shop}', 'accounts', `table` => 'timers', keys => '[1042, 1043]')"
    wanted = read(shop, uid="accounts", table="timers", keys="[1042, 1043]").count()
    assert spark.sql(timers).first()[0] == wanted
    assert spark.sql(f"SELECT * FROM savepoint_state('{shop}', NULL)").count() == read(shop).count()
    folder = corpus / "history" / "1.20.5-rocksdb-incr-rescaled" / "checkpoints"
    changes = spark.sql(f"SELECT * FROM savepoint_changes('{folder}', 'names', 3, 5)")
    same = read(folder, uid="names", readChangeFeed=True, startingVersion=3, endingVersion=5)
    assert sorted(map(str, changes.collect())) == sorted(map(str, same.collect()))
    net = f"SELECT * FROM savepoint_changes('{folder}', 'log', 0, state => 'log', deduplicationMode => 'netChanges')"
    assert {row["_change_type"] for row in spark.sql(net).collect()} == {"insert"}
    newest = f"SELECT count(*) FROM savepoint_state('{folder}', 'names', versionAsOf => 'latest')"
    assert spark.sql(newest).first()[0] == read(folder, uid="names", versionAsOf=8).count()
    for call, problem in (
        (f"savepoint_state('{shop}', 'acounts')", "did you mean 'accounts'"),
        (f"savepoint_changes('{folder}', 'names', 99)", "has checkpoint id 99"),
        (f"VALUES ('{shop}') AS t(path), LATERAL savepoint_state(t.path, 'accounts')", "is not constant"),
    ):
        with pytest.raises(AnalysisException, match=problem):
            spark.sql(f"SELECT * FROM {call}").collect()


@pytest.mark.usefixtures("clean")
def test_a_folder_as_databases(spark: Any, corpus: Path, tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints"
    shutil.copytree(corpus / "history" / "2.3.0-hashmap" / "checkpoints", folder)
    numbers = sorted(int(path.name.removeprefix("chk-")) for path in folder.rglob("chk-*"))
    last = numbers[-1]
    totals = {
        number: pyspark_savepoint.open(folder, version_as_of=number).keyed_state("accounts").to_arrow()
        for number in numbers[-2:]
    }
    away = shutil.move(next(folder.rglob(f"chk-{last}")), tmp_path / "away")
    names = pyspark_savepoint.create_tables(spark, folder, last=2, prefix="job")
    assert {name.partition(".")[0] for name in names} == {
        f"`job_chk_{last - 2}`", f"`job_chk_{last - 1}`", "`job_latest`",
    }  # fmt: skip
    assert f"`job_chk_{last - 1}`.`accounts_keyed_state`" in names
    assert "`job_latest`.`states`" in names
    count = "SELECT count(*), sum(total) FROM {}.accounts_keyed_state".format

    def rows(number: int) -> tuple[int, int]:
        return totals[number].num_rows, sum(total or 0 for total in totals[number]["total"].to_pylist())

    assert tuple(spark.sql(count("job_latest")).first()) == rows(last - 1)
    shutil.move(away, next(folder.rglob(f"chk-{last - 1}")).parent / f"chk-{last}")
    # The views of the newest snapshot look it up in each query, the others stay with theirs.
    assert tuple(spark.sql(count("job_latest")).first()) == rows(last)
    assert tuple(spark.sql(count(f"job_chk_{last - 1}")).first()) == rows(last - 1)
    described = {row[0]: row[1] for row in spark.sql("DESCRIBE EXTENDED job_latest.accounts_keyed_state").collect()}
    assert described["Comment"] == f"made by pyspark_savepoint from the newest snapshot in {folder}"
    spark.sql("CREATE SCHEMA latest COMMENT 'mine'")
    with pytest.raises(StateExistsError, match=r"latest \(mine\)"):
        pyspark_savepoint.create_tables(spark, folder)
    spark.sql("DROP SCHEMA latest")
    pyspark_savepoint.create_tables(spark, folder, last=1, prefix="job")
    assert set(pyspark_savepoint.drop_tables(spark, folder)) == {f"job_chk_{last}", "job_latest"}
    with pytest.raises(OptionError, match="may contain letters"):
        pyspark_savepoint.create_tables(spark, folder, prefix="a-b")


def state(uid: str | None, table: str, name: str, **more: Any) -> dict[str, Any]:
    row = {"operator_uid": uid, "operator_uid_hash": f"{hash(uid):x}", "operator_name": None}
    return {
        **row,
        "table": table,
        "state": name,
        "options": {"uid": uid, "state": name},
        "namespace_type": None,
        **more,
    }


def test_names_that_sql_cannot_hold() -> None:
    rows = [
        state("a-b", "keyed_state", "x"),
        state("a_b", "keyed_state", "x"),
        state("A_B", "operator_state", "KEYED_STATE"),
        state("A_B", "operator_state", "r é"),
        state("7", "window_state", "w", namespace_type="TIME_WINDOW"),
        state("7", "window_state", "v", namespace_type="GLOBAL_WINDOW"),
        state("savepoint", "timers", "t"),
    ]
    named = [(table.namespace, table.name) for table in name_tables(rows) if table.operator]
    assert named == [
        ("a_b", "keyed_state"),
        ("a_b_2", "keyed_state"),
        ("A_B_3", "KEYED_STATE_2"),
        ("A_B_3", "r__"),
        ("_7", "window_state_w"),
        ("_7", "window_state_v"),
        ("savepoint_2", "timers"),
    ]
    assert literal("a'b\\c${d}") == "'a\\'b\\\\c\\u0024{d}'"


# -- display ---------------------------------------------------------------------------------------------------------


class Tags(HTMLParser):
    """Checks that tags close in order, and collects text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag != "wbr":  # where a type may be broken; it has no end
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def parsed(text: str) -> Tags:
    tags = Tags()
    tags.feed(text)
    assert tags.open == []
    return tags


def test_a_savepoint_shows_itself(savepoint: Savepoint) -> None:
    lines = str(savepoint).splitlines()
    assert re.fullmatch(r"Savepoint .*: 7 operators, 6\d\.?\d* KiB, checkpoint 1", repr(savepoint))
    assert lines[0] == repr(savepoint)
    assert any(line.split()[0] == "accounts" for line in lines[1:])
    shown = savepoint._repr_html_()
    text = parsed(shown).text
    assert {"accounts", "coupon", "VALUE, TTL", "1.42 KiB", "MAP<STRING,", " LONG>", "map<string,", "bigint>"} <= set(
        text
    )
    assert len(shown) < 20_000


def test_sources_show_where_they_go_on(spark: Any, corpus: Path) -> None:
    found = find_snapshots(str(corpus / "connectors" / "2.3.0-kafka-v5.0.0"))[0].path
    kafka = Savepoint.load(spark, found)
    assert "orders 1: 120" in "".join(parsed(kafka._repr_html_()).text)
    changed = kafka.sources.with_offsets("source", {("orders", 1): 130})
    assert "orders 1: 130" in "".join(parsed(changed._repr_html_()).text)


def test_hostile_names_are_escaped_and_bounded(spark: Any, savepoint: Savepoint) -> None:
    evil = "<script>alert('x')</script>" + "&" * 300
    changed = savepoint.change_operator_identifier("accounts", evil)
    shown = changed._repr_html_()
    assert "<script>" not in shown
    assert html.escape("<script>alert('x')") in shown
    parsed(shown)
    assert "(not written yet)" in repr(changed)
    plan = savepoint.plan
    many = replace(plan, operators=Operators([*plan.operators] * 20))
    assert "90 more operators" in text_tree(many, "/x")
    assert f"{7 * 20 - MAX_OPERATORS} more operators" in "".join(parsed(html_tree(many, None, {})).text)


def test_types_given_as_in_flink_are_compared(spark: Any, savepoint: Savepoint) -> None:
    union, rates = ("warehouse-export", "exported_until"), ("currency-converter", "rates")
    kind = "TUPLE<STRING, LONG>"
    assert savepoint.read_union_state(*union, kind).collect() == savepoint.read_union_state(*union).collect()
    assert (
        savepoint.read_broadcast_state(*rates, "STRING", "DOUBLE").count() == savepoint.broadcast_state(*rates).count()
    )
    with pytest.raises(OptionError, match="another type than is given for its value") as caught:
        savepoint.read_list_state(*union, "TUPLE<STRING, INT>")
    assert caught.value.facts["found"] == kind
    with pytest.raises(OptionError, match="another type than is given for its key"):
        savepoint.read_broadcast_state(*rates, "LONG")


def test_public_names_are_functions_not_modules() -> None:
    assert callable(diff)
    assert callable(history)
    assert callable(register)


def test_what_cannot_be_told_apart_is_noted_and_hides_no_other(spark: Any, corpus: Path, tmp_path: Path) -> None:
    (path,) = (corpus / "lab" / "1.20.5-hashmap-native").rglob("_metadata")
    whole = Savepoint.load(spark, str(path.parent))
    wanted = {OperatorIdentifier.for_uid(uid).operator_id.hex for uid in ("kv-kryo", "kv-long")}
    small = whole
    for operator in whole.plan.operators:
        if operator.identifier.operator_id.hex not in wanted:
            small = small.remove_operator(operator.identifier)
    small = small.write(str(tmp_path / "small"))
    rows = small.diff(small).collect()
    assert {row["operator_uid_hash"] for row in rows} == wanted
    (noted,) = [row for row in rows if row["note"]]
    assert noted["operator_uid_hash"] == OperatorIdentifier.for_uid("kv-kryo").operator_id.hex
    assert "only the job's own serializer can delimit" in noted["note"]
    assert (noted["table"], noted["state"], noted["before"]) == ("keyed_state", None, None)
    others = [row for row in rows if not row["note"]]
    assert len(others) > 3
    assert all(row["before"] == row["after"] > 0 for row in others)
