"""Options mean the same on every command that has them, what writes has a dry run, and former names are answered."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

from pyspark_savepoint.command_line.commands import COMMANDS
from pyspark_savepoint.command_line.declarations import Argument, Command, Declared, option, positional
from pyspark_savepoint.command_line.parsing import FORMER
from tests.connector.command_line.conftest import Run

#: What is declared once. Of ``--where`` and ``--flink`` commands say more than others, in the same words.
ONE_MEANING = ["--keys", "--keys-file", "--dry-run", "--portable", "--checkpoint-id", "--as-of", "--allow-outside"]
IN_THE_SAME_WORDS = {"--where": "condition is true", "--flink": "Flink that must restore it"}
#: Commands that write what is not a savepoint: a file, which ``--force`` or the name of the file decides about.
OF_FILES = {"export", "schema", "report", "metrics", "warm-up"}


def of_commands(name: str) -> dict[str, Argument]:
    """An argument of each command that has it."""
    return {one.name: known for one in COMMANDS for known in one.all_arguments if name in known.names}


@pytest.mark.parametrize(
    ("declared", "values", "names", "settings"),
    [
        (positional("a"), "str", ("one_two",), {}),
        (positional("a", metavar="x"), "str | None", ("one_two",), {"metavar": "x", "nargs": "?"}),
        (positional("a"), "list[str]", ("one_two",), {"nargs": "+"}),
        (positional("a"), "int", ("one_two",), {"type": int}),
        (option("a"), "bool", ("--one-two",), {"action": "store_true"}),
        (option("a"), "str | None", ("--one-two",), {}),
        (option("a"), "str", ("--one-two",), {"required": True}),
        (option("a", default="b"), "str", ("--one-two",), {"default": "b"}),
        (option("a", default=5), "int", ("--one-two",), {"type": int, "default": 5}),
        (option("a"), "list[str] | None", ("--one-two",), {"nargs": "+"}),
        (option("a", short="-o"), "list[str]", ("-o", "--one-two"), {"action": "append", "default": []}),
        (option("a"), "list[list[str]]", ("--one-two",), {"nargs": "+", "action": "append", "default": []}),
    ],
)
def test_the_type_of_a_field_is_that_of_its_values(
    declared: Declared, values: str, names: tuple[str, ...], settings: dict[str, Any]
) -> None:
    assert declared.bound("one_two", values) == Argument(names, {"help": "a", **settings})


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_functions_take_the_arguments_of_their_command(command: Command) -> None:
    module, _, name = command.runs.partition(".")
    function = getattr(importlib.import_module(f"pyspark_savepoint.command_line.{module}"), name)
    assert function.__annotations__ == {"arguments": command.takes.__name__, "output": "Output", "return": "int"}


@pytest.mark.parametrize("name", ONE_MEANING)
def test_options_have_one_meaning(name: str) -> None:
    having = of_commands(name)
    assert len(having) > 2
    assert {command: known for command, known in having.items() if known != next(iter(having.values()))} == {}


@pytest.mark.parametrize("name", IN_THE_SAME_WORDS)
def test_options_have_the_same_words(name: str) -> None:
    having = of_commands(name)
    assert len(having) > 3
    assert [command for command, known in having.items() if IN_THE_SAME_WORDS[name] not in known.settings["help"]] == []


def test_what_opens_no_snapshot_has_no_options_of_one() -> None:
    every = {one.name for one in COMMANDS}
    assert every - of_commands("--storage-option").keys() == {"help", "completion"}
    assert every - of_commands("--allow-outside").keys() == {
        "help", "completion", "create", "vacuum", "relocate", "retained",
    }  # fmt: skip
    assert every - of_commands("--json").keys() == {"completion"}
    assert every - of_commands("--quiet").keys() == {"help", "completion"}


@pytest.mark.parametrize("given", [["--storage-option", "region=eu-west-1"], ["--allow-outside"]])
def test_options_of_a_snapshot_need_its_path(run: Run, given: list[str]) -> None:
    done = run("warm-up", *given)
    assert (done.code, "need the path of a snapshot" in done.err) == (2, True)
    done = run("help", "largest", *given)
    assert (done.code, "unrecognized arguments" in done.err) == (2, True)


def test_o_is_an_option_and_to_a_folder() -> None:
    assert {(known.names, known.settings["metavar"]) for known in of_commands("-o").values()} == {
        (("-o", "--option"), "NAME=VALUE")
    }
    assert all("FOLDER" in known.settings["metavar"] for known in of_commands("--to").values())


def test_what_writes_a_savepoint_has_a_dry_run() -> None:
    writing = {
        one.name for one in COMMANDS if {"target", "--to"} & {name for known in one.arguments for name in known.names}
    }
    assert writing - OF_FILES == of_commands("--dry-run").keys() - {"vacuum"}


@pytest.mark.parametrize("former", FORMER)
def test_former_options_are_answered_with_the_new_ones(run: Run, shop: Path, former: str) -> None:
    *command, name = former.split()
    (new,) = command or [next(one for one in of_commands(FORMER[former]) if one not in ("schema", "export", "warm-up"))]
    needed = {"set-offsets": ["new"], "remove-keys": ["new", "accounts"], "erase": ["new"]}
    done = run(new, shop, *needed.get(new, ()), name, "x")
    assert done.code == 2
    assert f"did you mean '{FORMER[former]}'?" in done.err


@pytest.mark.parametrize("words", ["cp", "cp --portable", "pin", "migrate --flink 2.3"])
def test_a_dry_run_of_a_copy_writes_nothing(run: Run, shop: Path, tmp_path: Path, words: str) -> None:
    command, *more = words.split()
    given = [command, shop, tmp_path / "new", *more]
    dry = run(*given, "--dry-run")
    assert (dry.code, dry.err) == (0, "")
    assert "nothing was written: " in dry.out.splitlines()[-1]
    record = run(*given, "--dry-run", "--json").records[-1]
    assert (record["dry_run"], record["path"]) == (True, str(tmp_path / "new"))
    assert list(tmp_path.iterdir()) == []
    done = run(*given, "--json")
    assert (done.code, done.records[-1]["operators"]) == (0, record["operators"])
    assert "a savepoint exists at this path already" in run(*given, "--dry-run").err


def test_a_dry_run_of_other_prefixes(run: Run, shop: Path, tmp_path: Path) -> None:
    words = ["relocate", shop, "file:/nowhere", "s3://bucket/x", tmp_path / "new"]
    refused = run(*words, "--dry-run")
    assert (refused.code, run(*words).err) == (2, refused.err)
    assert list(tmp_path.iterdir()) == []
