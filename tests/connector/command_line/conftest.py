"""The command line as a function."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pyspark_savepoint.command_line.main import main
from pyspark_savepoint.formats.serializers.registry import OpaqueSerializer
from tests.fuzz.shapes import keyed_subtask, made, operator, snapshot, state

#: Two lines, of which the second could be taken for one of this package; ESC and BEL; every way to turn text.
EVIL = "x\x1b[2J\x07\u200e\u200f\u061c\u202e\u2066\u2028\u2029\ufeff\u00ad\x85\x7f\U000e0041<b>'\n  to do: run it"


@dataclass(frozen=True)
class Ran:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def records(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


Run = Callable[..., Ran]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def command(*arguments: object) -> Ran:
        code = main([str(argument) for argument in arguments])
        return Ran(code, *capsys.readouterr())

    return command


@pytest.fixture(scope="session")
def shop() -> Path:
    return Path(__file__).parents[2] / "oracle" / "savepoints" / "shop" / "savepoint"


@pytest.fixture(scope="session")
def evil() -> Iterator[str]:
    """A snapshot whose uid, name, states and class are hostile."""
    own = OpaqueSerializer(f"com.shop.{EVIL}", 1, b"payload")
    states = [state(EVIL, "VALUE", "LONG"), state(EVIL.upper(), "VALUE", own), state("key", "VALUE", "LONG")]
    whole = snapshot(operator(keyed_subtask(states, (1, 2)), EVIL, name=EVIL + "!"))
    with made(whole) as (path, _):
        yield path
