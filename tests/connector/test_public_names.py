"""The public names: the same in documentation, for type checkers and at run time."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Literal, get_args, get_origin, get_type_hints

import pytest

import pyspark_savepoint
from pyspark_savepoint import errors
from pyspark_savepoint.formats import errors as internal
from pyspark_savepoint.options import keywords
from pyspark_savepoint.options.bootstrap_options import ProcessingOptions
from pyspark_savepoint.options.option_fields import named
from pyspark_savepoint.options.option_values import option_text
from pyspark_savepoint.options.options import SavepointReadOptions
from pyspark_savepoint.options.write_options import SavepointWriteOptions
from pyspark_savepoint.statebackends.requests.applicability import STREAM
from tests.shop_edits import EDITS

pytestmark = pytest.mark.slow("type checkers read Spark's stubs")

SCRIPT = Path(__file__).parent / "script_of_a_user.py"
#: Lines with a mistake in an option.
WRONG_OPTIONS = """

def wrong(spark: SparkSession, savepoint: Savepoint, df: DataFrame) -> None:
    savepoint.keyed_state("accounts", stat="total")  # wrong
    savepoint.keyed_state("accounts", parallelism="four")  # wrong
    savepoint.table(table="keyed_sate")  # wrong
    savepoint.with_operator("new", df, key="key", tpyes={"total": "LONG"})  # wrong
    savepoint.with_list_state("new", "elements", df, ttl=True)  # wrong
    history(spark, "/checkpoints", "accounts", flatten="yes")  # wrong
    key_by(df, "key", key_groups="g")  # wrong
"""
STRICT = {
    "mypy": "[mypy]\nstrict = True\ndisallow_any_expr = True\ndisallow_any_explicit = True\nfollow_imports = silent\n",
    "basedpyright": json.dumps({"typeCheckingMode": "strict", "reportAny": "error", "reportExplicitAny": "error"}),
}


def test_names_for_type_checkers_are_those_at_run_time() -> None:
    stub = Path(pyspark_savepoint.__file__).with_suffix(".pyi")
    imports = [node for node in ast.parse(stub.read_text()).body if isinstance(node, ast.ImportFrom)]
    seen = {alias.asname or alias.name: (node.module, alias.name) for node in imports for alias in node.names}
    assert {*pyspark_savepoint.__all__, "open"} == set(seen)
    for name, (module, attribute) in seen.items():
        assert module is not None
        __import__(module)
        assert getattr(pyspark_savepoint, name) is getattr(sys.modules[module], attribute), name


def test_importing_all_names_keeps_pythons_open() -> None:
    names: dict[str, object] = {}
    exec("from pyspark_savepoint import *", names)
    assert "open" not in names
    assert "open_history" in names


@pytest.mark.parametrize(("guess", "there_is"), [("load", "pyspark_savepoint.open(path)"), ("new", "Savepoint.create")])
def test_a_guessed_name_says_what_there_is(guess: str, there_is: str) -> None:
    with pytest.raises(AttributeError, match=re.escape(there_is)):
        getattr(pyspark_savepoint, guess)


def test_every_error_is_public() -> None:
    own = {
        name
        for name, value in vars(internal).items()
        if isinstance(value, type) and value.__module__ == internal.__name__
    }
    assert set(errors.__all__) == {name for name in own if issubclass(getattr(internal, name), internal.SavepointError)}


def checked(checker: str, folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    """Run a strict type checker on a script."""
    (folder / "script.py").write_text(text)
    if checker == "mypy":
        (folder / "mypy.ini").write_text(STRICT[checker])
        options = ["--cache-dir", str(folder / "cache")]
    else:
        # The folder that has the package, where it is not in the environment's own.
        found = {"extraPaths": [str(Path(pyspark_savepoint.__file__).parents[1])], **json.loads(STRICT[checker])}
        (folder / "pyrightconfig.json").write_text(json.dumps(found))
        options = ["--pythonpath", sys.executable]
    command = [sys.executable, "-m", checker, *options, "script.py"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("checker", STRICT)
def test_a_strict_type_checker_finds_no_any_and_wrong_options_only(checker: str, tmp_path: Path) -> None:
    """Every expression of a user's script has a type; a misspelt option or a value of another type is found."""
    text = SCRIPT.read_text() + WRONG_OPTIONS
    run = checked(checker, tmp_path, text)
    found = {int(number) for number in re.findall(r"script\.py:(\d+)", run.stdout)}
    expected = {number for number, line in enumerate(text.splitlines(), 1) if line.endswith("# wrong")}
    assert found == expected, run.stdout + run.stderr


# -- types of options ------------------------------------------------------------------------------------------


def names_of(*options: type) -> set[str]:
    """Return the names of public options: fields that have a description."""
    return {found.name for each in options for _, found in named(each) if found.metadata["doc"]}


def test_keyword_types_have_the_options_that_are_parsed() -> None:
    read, write = names_of(SavepointReadOptions), names_of(SavepointWriteOptions)
    of_streams = {field.name for name, field in named(SavepointReadOptions) if name in STREAM}
    assert set(keywords.ReadOptions.__annotations__) == read - {"path"} - of_streams
    of_the_call = {"path", "uid", "uid_hash", "operator_name", "table"}
    of_data_source = {"drop", "retention", "py_types"}
    assert set(keywords.WriteOptions.__annotations__) == write - of_the_call - of_data_source
    assert set(keywords.BootstrapOptions.__annotations__) == names_of(ProcessingOptions)


@pytest.mark.parametrize(
    ("options", "keyword_type"),
    [
        (SavepointReadOptions, keywords.ReadOptions),
        (SavepointWriteOptions, keywords.WriteOptions),
        (ProcessingOptions, keywords.BootstrapOptions),
    ],
    ids=["read", "write", "functions"],
)
def test_keyword_types_have_the_values_that_are_parsed(options: type, keyword_type: type) -> None:
    hints = get_type_hints(keyword_type)
    for _, found in named(options):
        hint, parse = hints.get(found.name), found.metadata["parse"]
        if hint is None:
            continue
        if get_origin(hint) is Literal:
            choices = [option_text(found.name, value).casefold() for value in get_args(hint)]
            assert all(parse(choice) is not None or choice == "auto" for choice in choices)
            with pytest.raises(ValueError, match=rf"(?i)^{re.escape(' or '.join(choices))}$"):
                parse("no such word")
        elif hint is bool:
            assert (parse("true"), parse("false")) == (True, False), found.name
        elif hint is int:
            assert isinstance(parse("8"), int), found.name
        else:
            assert str in get_args(hint) or hint is str, found.name


def test_every_public_verb_is_called_where_readmes_install_is_tried() -> None:
    """The script has the name of each public method as a text or as a method, and fails if one was not called."""
    tree = ast.parse((Path(__file__).parents[1] / "public_verbs.py").read_text("utf-8"))
    named = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    named |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    named |= EDITS.keys()
    public = {name for name in dir(pyspark_savepoint.Savepoint) if not name.startswith("_")}
    public |= {name for name in (*pyspark_savepoint.__all__, "open") if name[0].islower()}
    assert public - named == set()
