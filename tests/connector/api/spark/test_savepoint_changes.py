"""The fluent ``Savepoint``: what is changed is changed, and everything else is byte for byte what it was."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from pyspark_savepoint import OperatorIdentifier, Savepoint
from pyspark_savepoint.formats.columns import DecodeOptions
from pyspark_savepoint.formats.errors import (
    OperatorNotFoundError,
    OptionError,
    SavepointError,
    StateExistsError,
    StateNotFoundError,
    UndecodableStateError,
    UnsupportedStateError,
)
from pyspark_savepoint.formats.metadata import OperatorState
from pyspark_savepoint.formats.metadata.key_groups import key_group_for_hash, range_for_operator_index
from pyspark_savepoint.formats.snapshot.relocation import streams_of
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.plan.keyed_edits import merged_rows
from pyspark_savepoint.statebackends.requests.request import EntriesRequest, TableRequest
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator
from pyspark_savepoint.statebackends.tables.entries_table import EntriesTable
from pyspark_savepoint.statebackends.writing.planning.edited_header import KeyedStates
from pyspark_savepoint.write import operator_writer

pytestmark = pytest.mark.spark

Entries = dict[tuple[str, int, bytes], bytes]


def digests(folder: Path) -> dict[str, str]:
    """Hashes of all files below a folder."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def operator_of(snapshot: Snapshot, uid: str) -> OperatorState:
    """An operator by its uid."""
    return snapshot.operator(uid=uid)


def entries(path: Path | str, uid: str, max_parallelism: int | None = None) -> dict[str, Entries]:
    """All keyed state of an operator as canonical bytes, by state."""
    snapshot = Snapshot.open(str(path))
    operator = operator_of(snapshot, uid)
    states = KeyedStates.of(OpenOperator(snapshot, operator))
    names = list(states.metas)
    wanted = EntriesRequest(tuple(names), max_parallelism=max_parallelism, raw_timers=states.raw_timers)
    request = TableRequest(str(path), entries=wanted, decode=DecodeOptions(timestamps="raw"))
    found: dict[str, Entries] = {name: {} for name, _ in names}
    for part in EntriesTable(OpenOperator(snapshot, operator), request).partitions(1):
        for batch in part.batches():
            for row in batch.to_pylist():
                name = names[row["state"]][0]
                found[name][name, row["key_group"], row["key"]] = row["value"]
    return found


@pytest.fixture
def base(spark: SparkSession, shop: Path) -> Iterator[Savepoint]:
    """The savepoint that ships with the project, which nothing changes."""
    before = digests(shop)
    yield Savepoint.load(spark, str(shop))
    assert digests(shop) == before


@pytest.fixture
def accounts(base: Savepoint) -> DataFrame:
    """The keyed state of an operator."""
    return base.keyed_state("accounts")


def same(one: DataFrame, other: DataFrame) -> bool:
    """Whether two tables have the same rows; maps are compared as text."""
    texts = [[F.col(f"`{name}`").cast("string") for name in frame.columns] for frame in (one, other)]
    return sorted(one.select(texts[0]).collect()) == sorted(other.select(texts[1]).collect())


# -- tables -------------------------------------------------------------------------------------------------


def test_tables_are_those_of_the_data_source(base: Savepoint, spark: SparkSession, shop: Path) -> None:
    def read(**options: str) -> DataFrame:
        return spark.read.format("savepoint").options(**options).load(str(shop))

    assert base.states().columns == read().columns
    assert base.metadata().schema == read(table="metadata").schema
    assert base.keyed_state("accounts").schema == read(uid="accounts").schema
    hashed = OperatorIdentifier.for_uid("accounts").operator_id.hex
    assert base.timers(hashed).schema == base.timers(OperatorIdentifier.for_uid("accounts")).schema
    assert base.window_state("orders-per-minute").columns == ["key", "window", "window-contents"]
    assert base.list_state("warehouse-export", "pending_orders").columns == ["value"]
    assert base.union_state("warehouse-export", "exported_until").count() == 2
    assert base.broadcast_state("currency-converter", "rates").columns == ["key", "value"]
    found = base.keyed_state("accounts", keys=[1042], state=["total"], include_key_group=True)
    assert found.columns == ["key", "total", "key_group", "subtask"]


# -- said at once -------------------------------------------------------------------------------------------

REFUSED: list[tuple[Callable[[Savepoint], object], type[Exception], str]] = [
    (lambda sp: sp.keyed_state("acounts"), OperatorNotFoundError, "did you mean 'accounts'"),
    (lambda sp: sp.remove_operator("00" * 16), OperatorNotFoundError, "uid hash 0000"),
    (
        lambda sp: sp.change_operator_identifier("accounts", "rates-source").write("/nowhere"),
        StateExistsError,
        "two operators would have the same id",
    ),
    (lambda sp: sp.change_operator_identifier("accounts", ""), OptionError, "not be empty"),
    (lambda sp: sp.merge(sp), StateExistsError, "has this operator already"),
    (lambda sp: sp.with_operator("accounts"), StateExistsError, "remove_operator removes it first"),
    (lambda sp: sp.remove_state("accounts", "totl"), StateNotFoundError, "did you mean 'total'"),
    (lambda sp: sp.rename_state("accounts", "total", "coupon"), StateExistsError, "'coupon' already"),
    (lambda sp: sp.remove_keys("orders-source", sp.spark.range(1)), StateNotFoundError, "no keyed state"),
    (
        lambda sp: sp.remove_keys("accounts", sp.spark.range(1).selectExpr("id a", "id b")),
        OptionError,
        "columns of the key",
    ),
    (
        lambda sp: sp.with_state("accounts", "total", sp.keyed_state("accounts")),
        OptionError,
        "does not belong to state",
    ),
    (lambda sp: sp.with_state("accounts", "x", sp.spark.range(1).toDF("key")), OptionError, "can be state"),
    (
        lambda sp: sp.with_state("accounts", "total", sp.spark.sql("SELECT 1L key, 'a' total")),
        OptionError,
        "cannot be written as LONG",
    ),
    (
        lambda sp: sp.with_list_state("warehouse-export", "pending_orders", sp.spark.range(1)),
        StateExistsError,
        "with_state replaces all of it",
    ),
    (lambda sp: sp.with_timers("acounts", sp.spark.range(1)), OperatorNotFoundError, "did you mean 'accounts'"),
    (lambda sp: sp.with_max_parallelism(1), OptionError, "less than the parallelism"),
    (lambda sp: sp.with_max_parallelism(1 << 20), OptionError, "32768"),
    (lambda sp: sp.relocate("s3://a/", "s3://b/"), OptionError, "no file of the savepoint is recorded"),
    (lambda sp: sp.remove_operator("accounts").states(), OptionError, "not written yet"),
    (lambda sp: sp.with_operator("new", sp.spark.range(1), key="nothing"), OptionError, "'nothing'"),
    (lambda sp: sp.with_operator("new", sp.spark.range(1).toDF("key"), key="key"), OptionError, "column for a state"),
    (
        lambda sp: sp.with_state("accounts", "new", sp.spark.sql("SELECT 1L key, 2 a"), max_parallelism=7),
        OptionError,
        "with_max_parallelism",
    ),
    (
        lambda sp: sp.with_operator("new", sp.spark.sql("SELECT 1 key, 2 a"), table="timers"),
        OptionError,
        "the method and its arguments",
    ),
    (lambda sp: sp.write("/nowhere", files="move"), OptionError, "'copy' or 'reference'"),
    (lambda sp: sp.write("/nowhere", flink_version="0.9"), OptionError, "flink_version"),
]


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_what_cannot_be_is_refused_before_anything_runs(base: Savepoint, number: int) -> None:
    call, kind, message = REFUSED[number]
    with pytest.raises(kind) as raised:
        call(base)
    assert message in str(raised.value)


# -- operators ----------------------------------------------------------------------------------------------


def test_swap_uid(base: Savepoint, tmp_path: Path) -> None:
    """Flink: ``SavepointWriterUidModificationITCase#testSwapUid``: all changes apply together."""
    a, b = "accounts", "orders-per-minute"
    half = base.change_operator_identifier(a, b)
    # b still means the operator that has this uid in the base, until that gets another uid.
    swapped = half.rename_state(b, "window-contents", "contents").change_operator_identifier(b, a)
    written = swapped.write(str(tmp_path / "swapped"))
    assert same(written.keyed_state(b), base.keyed_state(a))
    assert written.window_state(a).columns == ["key", "window", "contents"]
    back = written.change_operator_identifier(b, a).change_operator_identifier(a, b)
    found = {uid: plan.base.operator.operator_id for uid in (a, b) if (plan := back.plan.operator(uid)).base}
    assert found == {a: OperatorIdentifier.for_uid(b).operator_id, b: OperatorIdentifier.for_uid(a).operator_id}


def test_operators_leave_and_are_renamed_while_files_stay_what_they_are(
    base: Savepoint, shop: Path, tmp_path: Path
) -> None:
    new = base.remove_operator("warehouse-export").change_operator_identifier("accounts", "customers")
    written = new.write(str(tmp_path / "new"))
    copied = set(digests(tmp_path / "new").values())
    assert len(copied - set(digests(shop).values())) == 1  # _metadata alone
    assert "warehouse-export" not in {row.operator_uid for row in written.metadata().collect()}
    assert same(written.keyed_state("customers"), base.keyed_state("accounts"))

    again = written.change_operator_identifier("customers", "accounts").merge(
        Savepoint.create(base.spark).with_operator("warehouse-export", base)
    )
    again.write(str(tmp_path / "again"))
    snapshot, original = Snapshot.open(str(tmp_path / "again")), Snapshot.open(str(shop))
    assert {o.operator_id: o.uid for o in snapshot.operators} == {o.operator_id: o.uid for o in original.operators}
    assert set(digests(tmp_path / "again").values()) >= set(digests(shop).values()) - {digests(shop)["_metadata"]}
    for operator in original.operators:
        moved = snapshot.operator(uid_hash=operator.operator_id.hex)
        assert moved.coordinator_state == operator.coordinator_state
        assert (moved.max_parallelism, moved.parallelism, moved.name) == (
            operator.max_parallelism,
            operator.parallelism,
            operator.name,
        )


def test_files_can_be_referred_to_where_they_are(base: Savepoint, tmp_path: Path) -> None:
    written = base.remove_state("accounts", "coupon").write(str(tmp_path / "new"), files="reference")
    assert same(written.keyed_state("accounts"), base.keyed_state("accounts").drop("coupon"))
    assert same(written.window_state("orders-per-minute"), base.window_state("orders-per-minute"))
    assert len(list((tmp_path / "new").iterdir())) == 3  # two subtasks' files of the operator that was edited


def test_a_path_that_has_a_savepoint_is_refused(base: Savepoint, shop: Path, tmp_path: Path) -> None:
    with pytest.raises(StateExistsError, match="at this path already"):
        base.write(str(shop))
    base.write(str(tmp_path / "new"))
    before = digests(tmp_path)
    with pytest.raises(StateExistsError, match="write to a new path"):
        base.write(str(tmp_path / "new"))
    assert digests(tmp_path) == before


def test_the_version_is_that_of_the_base_or_of_the_oldest_flink(base: Savepoint, tmp_path: Path) -> None:
    base.write(str(tmp_path / "same"))
    base.write(str(tmp_path / "old"), flink_version="1.18")
    same_version, old = Snapshot.open(str(tmp_path / "same")).metadata, Snapshot.open(str(tmp_path / "old")).metadata
    assert same_version.version == base.plan.bases[0].version
    assert same_version.properties == base.plan.bases[0].properties
    assert old.version == 4


# -- states -------------------------------------------------------------------------------------------------


def test_one_state_is_replaced_and_one_added_beside_all_others(
    base: Savepoint, accounts: DataFrame, shop: Path, tmp_path: Path
) -> None:
    doubled = accounts.where("key % 2 = 0").selectExpr("key", "total * 2 AS twice")
    visits = accounts.selectExpr("key", "map('shop', key) AS visits")
    written = base.with_state("accounts", "total", doubled, replace=True).with_state("accounts", "visits", visits)
    written = written.write(str(tmp_path / "new"))
    before, after = entries(shop, "accounts"), entries(tmp_path / "new", "accounts")
    assert list(after) == [*before, "visits"]
    assert {name: after[name] for name in before if name != "total"} == {
        name: before[name] for name in before if name != "total"
    }
    expected = {
        place: (2 * int.from_bytes(value, "big")).to_bytes(8, "big")
        for place, value in before["total"].items()
        if int.from_bytes(place[2][:8], "big") % 2 == 0
    }
    assert after["total"] == expected
    row = written.keyed_state("accounts", keys=[1042]).select("total", "visits").first()
    assert row is not None
    assert row.visits == {"shop": 1042}


@pytest.mark.thorough("a state is replaced, added, renamed, removed")
def test_rows_that_are_moved_as_they_are_become_the_same_bytes_as_encoded_rows(
    base: Savepoint, accounts: DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lists = accounts.selectExpr("key", "transform(recent_amounts, a -> a + key) AS recent_amounts")
    changed = base.with_state("accounts", "recent_amounts", lists).rename_state("accounts", "recent_amounts", "recent")
    plan = changed.plan.operator("accounts")
    rows = merged_rows(plan)
    assert rows is not None
    assert set(rows.rows.schema.names) == {"key", "recent_amounts"}
    assert merged_rows(replace(plan, deletions=((1, lists),))) is None
    changed.write(str(tmp_path / "columns"))
    with monkeypatch.context() as patch:
        patch.setattr(operator_writer, "merged_rows", lambda plan: None)
        changed.write(str(tmp_path / "entries"))
    found = entries(tmp_path / "columns", "accounts")
    assert found == entries(tmp_path / "entries", "accounts")
    assert len(found["recent"]) == accounts.where("recent_amounts IS NOT NULL").count()


def test_states_leave_and_are_renamed_and_keys_are_deleted(
    base: Savepoint, accounts: DataFrame, shop: Path, tmp_path: Path
) -> None:
    new = base.remove_state("accounts", "coupon").rename_state("accounts", "total", "sum")
    new = new.rename_state("accounts", "user-timers", "my-timers")
    new = new.remove_keys("accounts", accounts.where("key < 1010").select("key"))
    # What comes later stays.
    new = new.with_state("accounts", "later", accounts.where("key < 1005").selectExpr("key", "1 AS later"))
    written = new.write(str(tmp_path / "new"))
    before, after = entries(shop, "accounts"), entries(tmp_path / "new", "accounts")

    def kept(name: str) -> dict[tuple[int, bytes], bytes]:
        start = 8 if name.startswith("_timer_state/") else 0
        places = before[name].items()
        return {p[1:]: v for p, v in places if int.from_bytes(p[2][start : start + 8], "big") >= 1010}

    renamed = {"total": "sum", **{n: n.replace("user-", "my-") for n in before if n.startswith("_timer_state/")}}
    assert set(after) == {renamed.get(name, name) for name in before} - {"coupon"} | {"later"}
    for name in before.keys() - {"coupon"}:
        assert {place[1:]: value for place, value in after[renamed.get(name, name)].items()} == kept(name)
    assert len(after["later"]) == 4
    assert {row.service for row in written.timers("accounts").collect()} == {"my-timers"}
    assert same(written.window_state("orders-per-minute"), base.window_state("orders-per-minute"))


@pytest.mark.parametrize("files", ["copy", "reference"])
def test_renamed_states_get_new_headers_and_all_other_bytes_stay(
    spark: SparkSession, corpus: Path, tmp_path: Path, files: str
) -> None:
    case = corpus / "lab" / "2.2.1-rocksdb-canonical-maxp1000"
    path = next(case.rglob("_metadata")).parent
    uid = "kv-long"
    names = list(entries(path, uid))
    sp = Savepoint.load(spark, str(path))
    # Two names are exchanged, a third becomes longer than all headers are.
    new = sp.rename_state(uid, names[0], "x").rename_state(uid, names[1], names[0]).rename_state(uid, "x", names[1])
    new = new.rename_state(uid, names[2], "n" * 5000)
    new.write(str(tmp_path / "new"), files=files)
    renamed = {names[0]: names[1], names[1]: names[0], names[2]: "n" * 5000}
    before, after = entries(path, uid), entries(tmp_path / "new", uid)

    def shown(state: Entries) -> dict[tuple[int, bytes], bytes]:
        return {place[1:]: value for place, value in state.items()}

    assert {name: shown(state) for name, state in after.items()} == {
        renamed.get(name, name): shown(state) for name, state in before.items()
    }
    # Entries are not read: they are where they were, behind headers of another length.
    for old, written in zip(*(opened(folder, uid).keyed.sources for folder in (path, tmp_path / "new")), strict=True):
        with old.location.open() as a, written.location.open() as b:
            sizes = a.size - old.header().size
            assert a.read(old.header().size, sizes) == b.read(written.header().size, sizes)
            assert b.size == written.header().size + sizes


def opened(path: Path, uid: str) -> OpenOperator:
    snapshot = Snapshot.open(str(path))
    return OpenOperator(snapshot, operator_of(snapshot, uid))


def test_without_any_state_an_operator_stays_an_operator(base: Savepoint, tmp_path: Path) -> None:
    new = base
    for name in ("window-contents", "window-timers"):
        new = new.remove_state("orders-per-minute", name)
    new.write(str(tmp_path / "new"))
    operator = Snapshot.open(str(tmp_path / "new")).operator(uid="orders-per-minute")
    assert operator.state_size == 0
    assert operator.parallelism == 2


def test_window_state_is_replaced_by_window(base: Savepoint, tmp_path: Path) -> None:
    windows = base.window_state("orders-per-minute")
    first = windows.first()
    assert first is not None
    some = windows.where(F.col("key") == first.key).withColumn(
        "window-contents", F.struct(F.lit(1).alias("f0"), F.lit(2).alias("f1"))
    )
    written = base.with_state("orders-per-minute", "window-contents", some, replace=True).write(str(tmp_path / "new"))
    found = written.window_state("orders-per-minute")
    assert 0 < found.count() == some.count() < windows.count()
    assert {(row["window-contents"].f0, row["window-contents"].f1) for row in found.collect()} == {(1, 2)}
    assert same(written.timers("orders-per-minute"), base.timers("orders-per-minute"))


def test_operator_states_are_replaced_added_removed_and_renamed(base: Savepoint, tmp_path: Path) -> None:
    rates = base.broadcast_state("currency-converter", "rates")
    until = base.union_state("warehouse-export", "exported_until")
    new = base.with_state("currency-converter", "rates", rates.withColumn("value", F.col("value") * 2))
    new = new.with_broadcast_state("currency-converter", "old-rates", rates)
    new = new.remove_state("warehouse-export", "pending_orders").rename_state("warehouse-export", "exported_until", "u")
    new = new.with_list_state("warehouse-export", "numbers", base.spark.range(5))
    written = new.write(str(tmp_path / "new"))
    assert same(written.broadcast_state("currency-converter", "old-rates"), rates)
    doubled = written.broadcast_state("currency-converter", "rates").withColumn("value", F.col("value") / 2)
    assert same(doubled, rates)
    assert same(written.union_state("warehouse-export", "u"), until)
    assert same(written.list_state("warehouse-export", "numbers"), base.spark.range(5))
    listed = {row.state for row in written.states().where("operator_uid = 'warehouse-export'").collect()}
    assert listed == {"u", "numbers"}


# -- other bases --------------------------------------------------------------------------------------------

POJO_KEYS = "kv-pojo"


def lab_case(corpus: Path, case: str) -> Path:
    """A snapshot of data set `lab`."""
    (found,) = (corpus / "lab" / case).rglob("_metadata")
    return found.parent


def test_every_key_group_is_made_anew(spark: SparkSession, corpus: Path, tmp_path: Path) -> None:
    """Real Flink wrote the same state at max parallelism 1000."""
    base = lab_case(corpus, "2.2.1-rocksdb-native")
    before = digests(base)
    savepoint = Savepoint.load(spark, str(base))
    with pytest.raises(UndecodableStateError, match="key_hashes"):
        savepoint.with_max_parallelism(1000)
    for operator in list(savepoint.plan.operators):
        if operator.identifier.uid not in ("kv-long", "window-session", "op-list"):
            savepoint = savepoint.remove_operator(operator.identifier)
    savepoint.with_max_parallelism(1000).write(str(tmp_path / "new"))
    assert digests(base) == before
    real = lab_case(corpus, "2.2.1-rocksdb-canonical-maxp1000")
    for uid in ("kv-long", "window-session"):
        found, expected = entries(tmp_path / "new", uid), entries(real, uid)
        assert found.keys() == expected.keys()
        for name in found:
            keys, wanted = ({place[1:] for place in one[name]} for one in (found, expected))
            assert keys == wanted
        operator = Snapshot.open(str(tmp_path / "new")).operator(uid=uid)
        assert operator.max_parallelism == 1000
        ranges = {i: subtask.managed_keyed_state for i, subtask in operator.subtasks.items()}
        assert {i: handle.key_group_range for i, handle in ranges.items() if handle is not None} == {
            i: range_for_operator_index(1000, operator.parallelism, i) for i in range(operator.parallelism)
        }


@pytest.mark.thorough("a state is replaced, added, renamed, removed")
def test_hash_codes_that_are_given_place_keys_that_only_the_job_can_hash(
    spark: SparkSession, corpus: Path, tmp_path: Path
) -> None:
    savepoint = Savepoint.load(spark, str(lab_case(corpus, "2.2.1-hashmap-canonical")))
    for operator in list(savepoint.plan.operators):
        if operator.identifier.uid != POJO_KEYS:
            savepoint = savepoint.remove_operator(operator.identifier)
    keys = Savepoint.load(spark, str(lab_case(corpus, "2.2.1-hashmap-canonical")))
    hashes = keys.keyed_state(POJO_KEYS).selectExpr("key", "key.b AS hash_code")
    written = savepoint.with_max_parallelism(512, key_hashes={POJO_KEYS: hashes}).write(str(tmp_path / "new"))
    found = written.keyed_state(POJO_KEYS, include_key_group=True).collect()
    assert [row.key_group for row in found] == [key_group_for_hash(row.key.b, 512) for row in found]
    assert len(found) == keys.keyed_state(POJO_KEYS).count() > 0

    some = savepoint.with_max_parallelism(512, key_hashes={POJO_KEYS: hashes.limit(1)})
    with pytest.raises(PySparkException, match="no hash_code"):
        some.write(str(tmp_path / "incomplete"))
    assert not (tmp_path / "incomplete").exists()


@pytest.mark.parametrize("case", ["1.20.5-hashmap-native", "2.2.1-rocksdb-incr-checkpoint"])
def test_bases_of_other_backends_are_edited_in_the_canonical_format(
    spark: SparkSession, corpus: Path, tmp_path: Path, case: str
) -> None:
    base = lab_case(corpus, case)
    before = digests(corpus / "lab" / case)
    savepoint = Savepoint.load(spark, str(base))
    fixed = savepoint.keyed_state("kv-long").selectExpr("key", "`v-long` + 1 AS fixed").where("fixed IS NOT NULL")
    written = savepoint.with_state("kv-long", "v-long", fixed).write(str(tmp_path / "new"))
    assert digests(corpus / "lab" / case) == before
    kept, found = entries(base, "kv-long"), entries(tmp_path / "new", "kv-long")
    assert {name: found[name] for name in found if name != "v-long"} == {
        name: kept[name] for name in kept if name != "v-long"
    }
    assert same(written.keyed_state("kv-long", state="v-long"), fixed.withColumnRenamed("fixed", "v-long"))
    assert entries(tmp_path / "new", "window-session") == entries(base, "window-session")
    kinds = {
        type(s.managed_keyed_state).__name__
        for s in operator_of(Snapshot.open(written.path or ""), "kv-long").subtasks.values()
    }
    assert kinds == {"KeyGroupsSavepointStateHandle"}


def test_what_cannot_be_told_apart_is_refused_and_leaves_nothing(
    spark: SparkSession, corpus: Path, tmp_path: Path
) -> None:
    savepoint = Savepoint.load(spark, str(lab_case(corpus, "1.20.5-hashmap-native")))
    with pytest.raises(PySparkException, match="only the job's own serializer can delimit"):
        savepoint.remove_state("kv-kryo", "bitset").write(str(tmp_path / "new"))
    assert os.listdir(tmp_path) == []


def test_shared_files_that_were_moved_get_another_prefix(spark: SparkSession, corpus: Path, tmp_path: Path) -> None:
    savepoint = Savepoint.load(spark, str(lab_case(corpus, "2.2.1-rocksdb-incr-checkpoint")), allow_outside=True)
    recorded = next(
        handle.path
        for plan in savepoint.plan.operators
        if plan.base is not None
        for handle in streams_of(plan.base.operator)
        if hasattr(handle, "path")
    )
    old = recorded.rpartition("/shared/")[0]
    moved = savepoint.relocate(old, f"file:{corpus}/elsewhere")
    with pytest.raises(UnsupportedStateError, match="in one write"):
        moved.remove_state("kv-long", "v-long").write(str(tmp_path / "no"))
    assert os.listdir(tmp_path) == []


# -- new ----------------------------------------------------------------------------------------------------


@pytest.mark.thorough("a state is replaced, added, renamed, removed")
def test_a_savepoint_from_tables_of_every_kind(spark: SparkSession, tmp_path: Path) -> None:
    people = spark.range(20).selectExpr("id", "concat('n', id) AS name", "array(id, id) AS seen", "map('a', id) AS m")
    timers = spark.range(20).selectExpr("id", "id * 10 AS timestamp", "'event' AS domain")
    windows = spark.range(5).selectExpr(
        "id", "struct(timestamp_millis(0) AS start, timestamp_millis(1000) AS end) AS window", "id AS sum"
    )
    rates = spark.sql("SELECT 'EUR' AS key, 1.5D AS value")
    new = Savepoint.create(spark, max_parallelism=64).with_operator("people", people, key="id", name="People")
    new = new.with_timers("people", timers, key="id").with_window_state("people", windows, key="id")
    new = new.with_operator("rates").with_broadcast_state("rates", "rates", rates)
    new = new.with_list_state("rates", "list", spark.range(3)).with_union_state("rates", "union", spark.range(2))
    written = new.write(str(tmp_path / "new"), flink_version="2.0")
    assert same(written.keyed_state("people"), people)
    assert same(written.timers("people").select("key", "timestamp", "domain"), timers)
    assert same(written.window_state("people"), windows)
    assert same(written.broadcast_state("rates", "rates"), rates)
    assert same(written.list_state("rates", "list"), spark.range(3))
    assert same(written.union_state("rates", "union"), spark.range(2))
    numbers = {
        row.operator_uid: (row.operator_name, row.operator_max_parallelism) for row in written.metadata().collect()
    }
    assert numbers == {"people": ("People", 64), "rates": (None, 64)}
    assert not [name for name in os.listdir(tmp_path / "new") if name.startswith(".")]


@pytest.mark.thorough  # a failing query for each
def test_what_fails_in_a_task_leaves_nothing(base: Savepoint, accounts: DataFrame, tmp_path: Path) -> None:
    twice = accounts.selectExpr("key", "total").union(accounts.selectExpr("key", "total"))
    with pytest.raises(PySparkException, match="more than one entry"):
        base.with_state("accounts", "total", twice).write(str(tmp_path / "new"))
    (tmp_path / "there").mkdir()
    with pytest.raises(PySparkException, match="more than one entry"):
        base.with_state("accounts", "total", twice).write(str(tmp_path / "there"))
    assert os.listdir(tmp_path) == ["there"]
    assert os.listdir(tmp_path / "there") == []


# -- arguments that are something else ----------------------------------------------------------------------


def test_arguments_are_checked_where_they_are_given(
    spark: SparkSession, base: Savepoint, shop: Path, tmp_path: Path
) -> None:
    def said(action: Callable[[], Any]) -> str:
        with pytest.raises(OptionError) as raised:
            action()
        return str(raised.value)

    rows: Any = [(1, 2)]
    assert "Savepoint.load(spark, path)" in said(lambda: Savepoint(spark, str(shop)))  # type: ignore[arg-type]
    assert "a path must be a string or a pathlib.Path" in said(lambda: Savepoint.load(spark, 7))  # type: ignore[arg-type]
    assert "an operator must be given as its uid" in said(lambda: base.remove_operator(7))  # type: ignore[arg-type]
    assert "state must be given as a DataFrame" in said(lambda: base.with_state("accounts", "total", rows))
    assert "state must be given as a DataFrame" in said(lambda: base.with_timers("accounts", rows))
    assert "merge takes another Savepoint" in said(lambda: base.merge(str(shop)))  # type: ignore[arg-type]
    assert "keys must be a DataFrame of Spark or a list" in said(lambda: base.remove_keys("accounts", "1042"))
    assert "key must be a value of int64" in said(lambda: base.remove_keys("accounts", ["one"]))
    assert "has no operators" in said(lambda: Savepoint.create(spark).write(tmp_path / "empty"))
    assert not (tmp_path / "empty").exists()
    assert "Windows path" in said(lambda: Savepoint.load(spark, "C:\\savepoints\\sp"))
    with pytest.raises(SavepointError):
        Savepoint.load(spark, shop.parent / "expected.json")


def test_paths_are_pathlibs_and_keys_are_lists(spark: SparkSession, shop: Path, tmp_path: Path) -> None:
    before = Savepoint.load(spark, shop)
    after = before.remove_keys("accounts", [1042, 1043]).write(tmp_path / "sp")
    assert after.keyed_state("accounts", keys=[1042, 1043]).count() == 0
    changed = before.diff(tmp_path / "sp", "accounts").where("change = 'removed'").select("key").distinct().collect()
    assert sorted(row.key for row in changed) == [1042, 1043]


def test_a_savepoint_is_no_stream(spark: SparkSession, shop: Path, tmp_path: Path) -> None:
    def run() -> None:
        stream = spark.readStream.format("savepoint").option("uid", "accounts").load(str(shop))
        query = stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "cp")).start()
        query.processAllAvailable()

    with pytest.raises(PySparkException, match="a savepoint is not a stream"):
        run()
