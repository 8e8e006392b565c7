"""Timers of all operators at once are those of each, with keys and namespaces as JSON."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

import pyspark_savepoint
from pyspark_savepoint.command_line.main import main
from pyspark_savepoint.formats.errors import OptionError

SHOP = Path(__file__).parents[2] / "oracle" / "savepoints" / "shop" / "savepoint"


def test_they_are_those_of_each_operator(capsys: pytest.CaptureFixture[str]) -> None:
    sp = pyspark_savepoint.open(SHOP)
    rows = sp.timers().to_arrow().to_pylist()
    assert Counter(row["operator_uid"] for row in rows) == {
        uid: sp.timers(uid).to_arrow().num_rows for uid in ("accounts", "orders-per-minute")
    }
    assert {row["service"] for row in rows} == {"user-timers", "window-timers"}
    accounts = sorted((json.loads(row["key"]), row["timestamp"]) for row in rows if row["operator_uid"] == "accounts")
    assert accounts == sorted((row["key"], row["timestamp"]) for row in sp.timers("accounts").rows())
    windows = [json.loads(row["namespace"]) for row in rows if row["operator_uid"] == "orders-per-minute"]
    assert all(window["start"] < window["end"] for window in windows)
    assert main(["show", str(SHOP), "--table", "timers", "--limit", "0", "--json"]) == 0
    shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["operator"], row["key"], row["timestamp"]) for row in shown] == [
        (row["operator_uid"], row["key"], row["timestamp"]) for row in rows
    ]


def test_options_need_an_operator() -> None:
    with pytest.raises(OptionError, match="timers of all operators take no options"):
        pyspark_savepoint.open(SHOP).timers(keys=[1042])
    for option in ("--where", "--columns"):
        assert main(["show", str(SHOP), "--table", "timers", option, "key"]) == 2
