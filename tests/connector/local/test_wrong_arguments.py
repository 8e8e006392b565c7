"""Wrong arguments of a savepoint without Spark: one plain error, where they are given."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import pyspark_savepoint
from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.local.local_savepoint import LocalSavepoint, create_savepoint, open_savepoint

SHOP = Path(__file__).parents[2] / "oracle" / "savepoints" / "shop" / "savepoint"


WRONG: list[tuple[Callable[[LocalSavepoint], object], str]] = [
    (lambda sp: sp.remove_state("accounts", ["total"]), "a state must be given by its name"),  # type: ignore[arg-type]
    (lambda sp: sp.rename_state("accounts", "total", " "), "the name of a state must not be empty"),
    (lambda sp: sp.with_coordinator_state("orders-source", "x"), "must be given as bytes"),  # type: ignore[arg-type]
    (lambda sp: sp.assign_uids(["a"]), "uids must be given by uid hash"),  # type: ignore[arg-type]
    (lambda sp: sp.operator_at("graph", "name"), "must be given as its stream graph"),  # type: ignore[arg-type]
    (lambda sp: sp.check_restore(None), "this is not the description of a job"),  # type: ignore[arg-type]
    (
        lambda sp: sp.with_operator("x", pa.table([[1], [1], [2]], names=["id", "n", "n"]), key="id"),
        "several columns have the same name",
    ),
    (
        lambda sp: sp.with_list_state("warehouse-export", "s", pa.table([[1], [1]], names=["value", "value"])),
        "several columns have the same name",
    ),
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
