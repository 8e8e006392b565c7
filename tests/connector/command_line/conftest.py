"""The command line as a function."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pyspark_savepoint.command_line.main import main


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
