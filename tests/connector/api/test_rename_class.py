"""Classes of the job get other names: serializer snapshots change, values stay byte for byte."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyspark_savepoint
from pyspark_savepoint import LocalSavepoint
from pyspark_savepoint.errors import OperatorNotFoundError, OptionError, UnsupportedStateError
from pyspark_savepoint.formats.errors import SavepointError
from pyspark_savepoint.formats.serializers.avro.serializer import AvroSerializer
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.notation.notation import parse_type
from pyspark_savepoint.plan.keyed_edits import with_states
from pyspark_savepoint.statebackends.types.class_names import ClassRename, names_in
from tests.connector.api.test_update_state import ORACLE, entries_of
from tests.connector.command_line.conftest import Run
from tests.connector.command_line.conftest import run as run
from tests.data import unpacked

#: Operators of data set `lab` whose values name classes that are not registered.
NAMED_IN_VALUES: set[str | None] = {"kv-tuple"}


def serializers_of(savepoint: LocalSavepoint) -> list[TypeSerializer]:
    """All serializers of all states and keys."""
    found = []
    for operator in savepoint.plan.operators:
        plan = with_states(operator)
        found += [one for state in plan.states or () for one in state.meta.serializers.values()]
        found += [plan.key_serializer] if plan.key_serializer is not None else []
    return found


def classes_of(savepoint: LocalSavepoint) -> set[str]:
    return {name for one in serializers_of(savepoint) for name in names_in(one)}


def test_classes_inside_of_another_go_with_it(shop: Path, tmp_path: Path) -> None:
    base = pyspark_savepoint.open(shop)
    new = base.rename_class("oracle.Shop", "com.shop.Market").write(tmp_path / "new")
    own = {name for name in classes_of(new) if not name.startswith("org.apache")}
    assert own == {"com.shop.Market$Profile", "com.shop.Market$Tier", "com.shop.Market$Order"}
    assert not [row for row in base.diff(new).rows() if row["added"] or row["removed"] or row["changed"]]
    assert entries_of(new, "accounts") == entries_of(base, "accounts")
    back = new.rename_class("com.shop.Market", "oracle.Shop").write(tmp_path / "back")
    assert serializers_of(back) == serializers_of(base)
    profile = base.rename_class("oracle.Shop$Profile", "a.P").rename_class("oracle.Shop$Tier", "a.T")
    own = {name for name in classes_of(profile.write(tmp_path / "two")) if not name.startswith("org.apache")}
    assert own == {"a.P", "a.T", "oracle.Shop$Order"}


@pytest.mark.parametrize("case", ["2.2.1-rocksdb-native", "2.2.1-hashmap-canonical"])
def test_all_classes_of_a_job(case: str, tmp_path: Path) -> None:
    """Real Flink's POJOs, Kryo types and keys of them: names change and come back, entries are the same."""
    (found,) = (unpacked() / "lab" / case).rglob("_metadata")
    base = pyspark_savepoint.open(found.parent)
    outer = sorted({name.split("$")[0] for name in classes_of(base) if name.startswith("flinklab.")})
    assert outer
    refused = set()
    for number, operator in enumerate(base.plan.operators):
        uid = operator.identifier
        alone = base._planned(base.plan.without(*(one for one in base.plan.operators if one is not operator)))
        for name in outer:
            if not any(one.split("$")[0] == name for one in classes_of(alone)):
                continue
            changed = alone.rename_class(name, f"moved.{name}")
            if uid.uid in NAMED_IN_VALUES:
                with pytest.raises(UnsupportedStateError, match=r"a value names the class(.|\n)*state: shape"):
                    changed.write(tmp_path / f"{number}-{name}")
                refused.add(uid.uid)
                continue
            written = changed.write(tmp_path / f"{number}-{name}")
            again = with_states(written.rename_class(f"moved.{name}", name).plan.operators[0])
            before = with_states(operator)
            assert [one.meta for one in again.states or ()] == [one.meta for one in before.states or ()]
            if before.key_serializer is not None:
                assert entries_of(written, uid) == entries_of(base, uid)
    assert refused == NAMED_IN_VALUES


def test_serializers_of_the_job(tmp_path: Path) -> None:
    base = pyspark_savepoint.open(ORACLE / "own-serializer" / "2.3.0")
    new = base.rename_class("oracle.Prices", "com.shop.Prices").write(tmp_path / "new")
    assert "com.shop.Prices$MoneySerializerSnapshot" in classes_of(new)
    assert not any(name.startswith("oracle.") for name in classes_of(new))


SUBCLASSES = "POJO<a.Base>(id LONG) SUBCLASSES(a.Sub POJO<a.Sub>(id LONG, n INT))"
REGISTERED = SUBCLASSES.replace("SUBCLASSES", "REGISTERED")


@pytest.mark.parametrize("kind", [SUBCLASSES, REGISTERED])
def test_values_of_subclasses(kind: str, tmp_path: Path) -> None:
    """Their names are in the values, unless they are registered."""
    values = [{"id": 1, "n": None, "__class": "a.Base"}, {"id": 2, "n": 3, "__class": "a.Sub"}]
    fields = pa.struct([("id", pa.int64()), ("n", pa.int32()), ("__class", pa.string())])
    rows = pa.table({"key": [1, 2], "v": pa.array(values, fields)})
    base = pyspark_savepoint.create().with_operator("op", rows, types={"v": kind}).write(tmp_path / "base")
    moved = base.rename_class("a.Base", "b.Base").write(tmp_path / "moved")
    assert {row["v"]["__class"] for row in moved.keyed_state("op").rows()} == {"b.Base", "a.Sub"}
    if kind == REGISTERED:
        new = base.rename_class("a.Sub", "b.Sub").write(tmp_path / "new")
        assert {row["v"]["__class"] for row in new.keyed_state("op").rows()} == {"a.Base", "b.Sub"}
        return
    with pytest.raises(UnsupportedStateError, match=r"names the class 'a\.Sub' itself(.|\n)*state: v\n  key: 2"):
        base.rename_class("a.Sub", "b.Sub").write(tmp_path / "new")
    only = base.remove_keys("op", [2]).write(tmp_path / "without")
    assert only.rename_class("a.Sub", "b.Sub").write(tmp_path / "new").keyed_state("op").to_arrow().num_rows == 1


def test_declaring_classes_of_fields() -> None:
    old = parse_type("POJO<a.Base>(id LONG)")
    new = ClassRename("a.Base", "b.Base").serializer(old)
    assert new == parse_type("POJO<b.Base>(id LONG)")
    assert ClassRename("a.Bas", "b.Bas").serializer(old) is old


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        ("OBJECT_ARRAY<POJO<a.B>(n INT)>", "a.B", "c.D"),
        ("MAP<ENUM<a.B>(X), LIST<ENUM<a.B>(X)>>", "a.B", "c.D"),
        ("TUPLE<POJO<a.B>(n INT), LONG>", "a.B", "c.D"),
    ],
)
def test_names_inside_of_other_types(text: str, old: str, new: str) -> None:
    assert ClassRename(old, new).serializer(parse_type(text)).flink_type == text.replace(old, new)


def test_schemas_of_avro() -> None:
    """Types that inherit the namespace of the renamed one keep their names."""
    line = {"type": "record", "name": "Line", "fields": [{"name": "n", "type": "int"}]}
    schema = {
        "type": "record",
        "name": "Order",
        "namespace": "com.shop",
        "fields": [
            {"name": "line", "type": line},
            {"name": "others", "type": {"type": "array", "items": "Line"}},
            {"name": "next", "type": ["null", "com.shop.Line"]},
        ],
    }
    old = AvroSerializer.of(json.dumps(schema), "com.shop.Order")
    new: Any = ClassRename("com.shop.Order", "com.store.Purchase").serializer(old)
    assert (new.runtime_class, new.name) == ("com.store.Purchase", "com.store.Purchase")
    parsed = json.loads(new.schema)
    assert parsed["name"] == "com.store.Purchase"
    assert parsed["fields"][0]["type"]["name"] == "com.shop.Line"
    assert parsed["fields"][1]["type"]["items"] == "com.shop.Line"
    assert parsed["fields"][2]["type"] == ["null", "com.shop.Line"]
    assert new.part.names == old.part.names


@pytest.mark.parametrize(
    ("edit", "error", "text"),
    [
        (lambda sp: sp.rename_class("oracle.Shop$Tear", "a.B"), OptionError, r"did you mean 'oracle\.Shop\$Tier'"),
        (lambda sp: sp.rename_class("oracle.Shop", "a b"), OptionError, "by its name in Java"),
        (lambda sp: sp.rename_class(1, "a.B"), OptionError, "by its name in Java"),
        (lambda sp: sp.rename_class("a.B", "a.B"), OptionError, "is the old one"),
        (lambda sp: sp.rename_class("oracle.Shop", "a.B", operators=["acounts"]), OperatorNotFoundError, "accounts"),
        (
            lambda sp: sp.rename_class("oracle.Shop", "a.B", operators=["orders-per-minute"]),
            OptionError,
            "no serializer",
        ),
        (
            lambda sp: sp.rekey("accounts", types={"key": "STRING"}).rename_class("oracle.Shop", "a.B"),
            OptionError,
            "not written yet",
        ),
    ],
)
def test_what_is_refused(edit: Any, error: type[SavepointError], text: str, shop: Path) -> None:
    with pytest.raises(error, match=text):
        edit(pyspark_savepoint.open(shop))


def test_the_command(run: Run, shop: Path, tmp_path: Path) -> None:
    done = run("rename-class", shop, tmp_path / "new", "oracle.Shop$Tier=com.Tier", "oracle.Shop=com.Shop", "--json")
    assert (done.code, done.err) == (0, "")
    assert [(row["operator"], row["state"]) for row in done.records[:-1]] == [
        ("accounts", "profile"),
        ("warehouse-export", "pending_orders"),
    ]
    assert "ENUM<com.Tier>" in done.records[0]["type"]
    done = run("rename-class", shop, tmp_path / "none", "oracle.Shop")
    assert (done.code, "CLASS=NEW" in done.err) == (2, True)
