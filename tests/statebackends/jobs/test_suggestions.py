"""Suggestions of the restore check: each names the verb that makes the state fit, and then the job restores it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyspark_savepoint
from pyspark_savepoint import LocalSavepoint
from tests.connector.command_line.conftest import Run
from tests.connector.command_line.conftest import run as run

SHOP = Path(__file__).parents[2] / "oracle" / "savepoints" / "shop" / "savepoint"
PROFILE = (
    "POJO<oracle.Shop$Profile>(birthYear INT, city STRING, name STRING, since INSTANT, "
    "tier ENUM<oracle.Shop$Tier>(BASIC, SILVER, GOLD))"
)
MOVED = PROFILE.replace("oracle.Shop$", "com.shop.")
Edit = Callable[[LocalSavepoint], LocalSavepoint]


def of_accounts(**changes: Any) -> dict[str, Any]:
    """A job whose operator `accounts` differs from that of the savepoint."""
    key = changes.pop("key", "LONG")
    states = {
        "total": "LONG",
        "recent_amounts": {"kind": "LIST", "type": "DOUBLE"},
        "spent_by_currency": {"kind": "MAP", "key": "STRING", "type": "LONG"},
        "coupon": {"type": "STRING", "ttl": True},
        "profile": PROFILE,
    }
    states = {name: state for name, state in (states | changes).items() if state is not None}
    return {"operators": [{"uid": "accounts", "key": key, "states": states}]}


def verdict(savepoint: LocalSavepoint, job: dict[str, Any]) -> dict[str, Any]:
    rows = savepoint.job(job).check_restore(allow_non_restored_state=True).rows()
    return next(row for row in rows if row["operator_uid"] == "accounts")


def both_moved(sp: LocalSavepoint) -> LocalSavepoint:
    return sp.rename_class("oracle.Shop$Profile", "com.shop.Profile").rename_class("oracle.Shop$Tier", "com.shop.Tier")


@pytest.mark.parametrize(
    ("changes", "texts", "verb"),
    [
        (
            {"profile": MOVED},
            [
                "if oracle.Shop$Profile is com.shop.Profile now: rename_class('oracle.Shop$Profile', "
                "'com.shop.Profile')",
                "rename_class('oracle.Shop$Tier', 'com.shop.Tier')",
            ],
            both_moved,
        ),
        (
            {"profile": PROFILE.replace("oracle.Shop$", "com.Market$")},
            ["if oracle.Shop is com.Market now: rename_class('oracle.Shop', 'com.Market')"],
            lambda sp: sp.rename_class("oracle.Shop", "com.Market"),
        ),
        (
            {"profile": PROFILE.replace("oracle.Shop$Profile", "com.Person")},
            ["if oracle.Shop$Profile is com.Person now: rename_class('oracle.Shop$Profile', 'com.Person')"],
            lambda sp: sp.rename_class("oracle.Shop$Profile", "com.Person"),
        ),
        (
            {"key": "STRING"},
            ["if the keys are the same in another type: rekey('accounts', types={'key': 'STRING'})"],
            lambda sp: sp.rekey("accounts", types={"key": "STRING"}),
        ),
        (
            {"total": None, "sum": "LONG"},
            ["if 'sum' is 'total' of the snapshot: rename_state('accounts', 'total', 'sum')"],
            lambda sp: sp.rename_state("accounts", "total", "sum"),
        ),
    ],
)
def test_what_is_suggested_makes_it_fit(changes: dict[str, Any], texts: list[str], verb: Edit, tmp_path: Path) -> None:
    base, job = pyspark_savepoint.open(SHOP), of_accounts(**changes)
    before = verdict(base, job)
    for text in texts:
        assert text in before["remedy"]
    assert "give the job's state another name" not in before["remedy"]
    after = verdict(verb(base).write(tmp_path / "new"), job)
    assert (after["verdict"], after["remedy"]) == ("restores", None)
    assert {state["verdict"] for state in after["states"]} == {"as is"}


def test_fields_that_were_added(tmp_path: Path) -> None:
    """Flink adds those of POJOs itself, and not those of tuples and case classes."""
    rows = pa.table({"key": [1], "v": pa.array([{"f0": 1, "f1": 2}]), "w": [1]})
    base = pyspark_savepoint.create().with_operator("accounts", rows, types={"v": "TUPLE<LONG, LONG>"})
    base = base.write(tmp_path / "base")
    states = {"v": "TUPLE<LONG, LONG, STRING>", "w": "LONG"}
    job = {"operators": [{"uid": "accounts", "key": "LONG", "states": states}]}
    row = verdict(base, job)
    assert row["verdict"] == "fails"
    assert row["remedy"] == (
        "field 'f2' of state v was added: with_state('accounts', 'v', rows, types={'v': 'TUPLE<LONG, LONG, STRING>'}) "
        "writes it with rows of the new type, or remove_state('accounts', 'v') lets it begin empty"
    )
    kind = pa.struct([("f0", pa.int64()), ("f1", pa.int64()), ("f2", pa.string())])
    more = pa.table({"key": [1], "v": pa.array([{"f0": 1, "f1": 2, "f2": "x"}], kind)})
    new = base.with_state("accounts", "v", more, types={"v": states["v"]}).write(tmp_path / "new")
    assert verdict(new, job)["verdict"] == "restores"
    grown = verdict(
        pyspark_savepoint.open(SHOP), of_accounts(profile=PROFILE.replace("birthYear", "age INT, birthYear"))
    )
    assert (grown["verdict"], grown["remedy"]) == ("migrates", None)


@pytest.mark.parametrize(
    "changes",
    [
        {"total": None, "sum": "LONG", "count": "LONG"},
        {"profile": "POJO<com.shop.Profile>(id STRING, name LONG)"},
        {"profile": MOVED.replace("birthYear INT", "birthYear STRING")},
    ],
)
def test_nothing_is_suggested_where_it_would_not_fit_or_two_could_be_meant(changes: dict[str, Any]) -> None:
    row = verdict(pyspark_savepoint.open(SHOP), of_accounts(**changes))
    assert "rename_" not in (row["remedy"] or "")


def test_the_words_of_the_command_line(run: Run, tmp_path: Path) -> None:
    job = tmp_path / "job.json"
    job.write_text(json.dumps(of_accounts(key="STRING", profile=MOVED, total=None, sum="LONG")))
    told = run("check-restore", SHOP, job).out
    assert "pyspark-savepoint rename-class OLD NEW 'oracle.Shop$Profile=com.shop.Profile'" in told
    assert "pyspark-savepoint rekey OLD NEW accounts --type key=STRING" in told
    assert "pyspark-savepoint rename OLD NEW accounts.total=sum" in told
