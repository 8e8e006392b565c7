"""Wrong arguments of a savepoint without Spark: one plain error, where they are given."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import pyspark_savepoint
from pyspark_savepoint.api.local_savepoint import LocalSavepoint, create_savepoint, open_savepoint
from pyspark_savepoint.formats.errors import OptionError

SHOP = Path(__file__).parents[2] / "oracle" / "savepoints" / "shop" / "savepoint"


ROW = pa.table({"key": [1], "total": [2]})
VALUES = pa.table({"value": [1]})

WRONG: list[tuple[Callable[[LocalSavepoint], object], str]] = [
    (lambda sp: sp.remove_state("accounts", ["total"]), "a state must be given by its name"),  # type: ignore[arg-type]
    (lambda sp: sp.rename_state("accounts", "total", " "), "the name of a state must not be empty"),
    (lambda sp: sp.with_state("accounts", [5], ROW), "a state must be given by its name"),  # type: ignore[list-item]
    (lambda sp: sp.with_state("accounts", b"total", ROW), "states must be given by their names"),
    (lambda sp: sp.with_state("accounts", " ", ROW), "the name of a state must not be empty"),
    (
        lambda sp: sp.with_list_state("accounts", b"total", pa.table({"value": [1]})),  # type: ignore[arg-type]
        "a state must be given by its name",
    ),
    (lambda sp: sp.diff(sp, "accounts", state=["total"]), "a state must be given by its name"),  # type: ignore[arg-type]
    (lambda sp: sp.write("/nope", portable="no"), "'portable' of write.. is true or false"),  # type: ignore[arg-type]
    (
        lambda sp: sp.sinks.clear_in_flight("accounts", lose_data="no"),  # type: ignore[arg-type]
        "'lose_data' of clear_in_flight.. is true or false",
    ),
    (lambda sp: sp.write("/nope", flink_version=1.20), "a Flink release must be given as text"),  # type: ignore[arg-type]
    (lambda _: open_savepoint(SHOP, uid="accounts"), "it chooses one table"),  # type: ignore[call-arg]
    (lambda _: open_savepoint(SHOP, table="timers"), "it chooses one table"),  # type: ignore[call-arg]
    (lambda sp: sp.with_coordinator_state("orders-source", "x"), "must be given as bytes"),  # type: ignore[arg-type]
    (lambda sp: sp.assign_uids(["a"]), "uids must be given by uid hash"),  # type: ignore[arg-type]
    (lambda sp: sp.job("graph").operator_at("name"), "must be given as its stream graph"),  # type: ignore[arg-type]
    (lambda sp: sp.job(None).check_restore(), "this is not the description of a job"),  # type: ignore[arg-type]
    (
        lambda sp: sp.with_operator("x", pa.table([[1], [1], [2]], names=["id", "n", "n"]), key="id"),
        "several columns have the same name",
    ),
    (
        lambda sp: sp.with_list_state("warehouse-export", "s", pa.table([[1], [1]], names=["value", "value"])),
        "several columns have the same name",
    ),
    (lambda sp: sp.with_operator("x", ROW, retention=0), "'retention' does not apply"),  # type: ignore[call-arg]
    (lambda sp: sp.with_list_state("warehouse-export", "s", VALUES, drop="*"), "'drop' does not"),  # type: ignore[call-arg]
    (lambda sp: sp.with_operator("x", key="id"), "'key' cannot apply"),
    (lambda sp: sp.with_operator("x", compression="snappy"), "'compression' cannot apply"),
    (lambda sp: sp.remove_operator("accounts").with_operator("accounts", sp, name="A"), "'name' cannot apply"),
    (lambda sp: sp.with_state("accounts", "total", ROW, table="timers"), "'table' cannot be given here"),  # type: ignore[call-arg]
    (lambda sp: sp.with_state("accounts", name="total", rows=ROW), "no argument 'name'\n  to do: it is 'state' now"),  # type: ignore[call-arg]
    (lambda sp: sp.with_timers("accounts", df=ROW), "no argument 'df'\n  to do: it is 'rows' now"),  # type: ignore[call-arg]
    (lambda sp: sp.migrate(flink="2.3"), "no argument 'flink'\n  to do: it is 'flink_version' now"),  # type: ignore[call-arg]
    (lambda sp: sp.sources.with_offsets(to="latest"), "no argument 'to'\n  to do: it is 'reset' now"),  # type: ignore[call-arg]
    (lambda sp: sp.remove_state("accounts", nme="x"), "no argument 'nme'"),  # type: ignore[call-arg]
    (lambda sp: sp.with_list_state("accounts", "s", VALUES, max_parallelism=8), "'max_parallelism' differs"),
    (lambda sp: sp.with_list_state("accounts", "s", VALUES, compression="snappy"), "is never compressed"),  # type: ignore[call-arg]
    (lambda _: create_savepoint(max_parallelism="x"), "max parallelism is a whole number"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("call", "message"), WRONG, ids=[message for _, message in WRONG])
def test_wrong_arguments_are_answered_where_they_are_given(
    call: Callable[[LocalSavepoint], object], message: str
) -> None:
    with pytest.raises(OptionError, match=message):
        call(open_savepoint(str(SHOP)))


def test_keys_are_any_collection() -> None:
    assert open_savepoint(str(SHOP)).keyed_state("accounts", keys={1042}).to_arrow().num_rows == 1


def test_misspelt_names_are_answered_with_the_nearest() -> None:
    with pytest.raises(AttributeError, match="did you mean 'Savepoint'"):
        pyspark_savepoint.Savepont  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(AttributeError, match="did you mean 'keyed_state'"):
        open_savepoint(str(SHOP)).keyed_stat  # type: ignore[attr-defined]  # noqa: B018


def test_a_misspelt_argument_is_answered_with_those_of_users() -> None:
    with pytest.raises(OptionError, match="has no argument 'drp'") as caught:
        open_savepoint(SHOP).check_migration("2.3", drp="x")  # type: ignore[call-arg]
    assert "self" not in caught.value.facts["remedy"]
    assert "'kryo_types'" in caught.value.facts["remedy"]
