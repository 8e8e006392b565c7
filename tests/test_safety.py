"""Nothing in a snapshot is ever run, unpickled, imported or opened by its name: shown in the source and by hooks."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.thorough("what a change of the source must keep")

ROOT = Path(__file__).parents[1]
FOLDERS = {"connector": "pyspark_savepoint", "formats": "formats", "statebackends": "statebackends"}

#: Modules that run, load or unpickle things.
FORBIDDEN_MODULES = {
    "builtins", "cffi", "cloudpickle", "code", "codeop", "copyreg", "ctypes", "dill", "imp", "joblib", "marshal",
    "multiprocessing", "pickle", "pickletools", "pkgutil", "pty", "runpy", "shelve", "socket", "subprocess", "urllib",
    "yaml", "zipimport",
}  # fmt: skip
#: The user's own functions and serializers, and plans of reads and writes, are pickled for Spark's tasks. The work of
#: a migration and its results are pickled for processes that this one starts. Nothing of a snapshot ever is.
PICKLES_FUNCTIONS = {
    "connector/engines/migrating.py": {"cloudpickle"},
    "connector/engines/function_pickles.py": {"cloudpickle"},
    "connector/options/pickled_serializers.py": {"cloudpickle", "pickle"},
    "connector/engines/spark/session_plans.py": {"cloudpickle"},
}
#: Where another Python of this package is started, to compile kernels or to migrate: its script is a constant but for
#: folders, the kernels' and those of ``sys.path``.
STARTS_PYTHON = {
    "connector/command_line/warming.py": {"subprocess"},
    "connector/engines/migrating.py": {"subprocess"},
}
#: A stream that failed is kept from being destroyed, which would tell a secret: a count of references, and no more.
COUNTS_REFERENCES = "formats/filesystems/arrow_store.py"
#: Where credentials are asked for, of the machine or the container that this process runs on.
ASKS_FOR_CREDENTIALS = {"formats/filesystems/credentials.py": {"socket", "urllib"}}
FORBIDDEN_CALLS = {"__import__", "breakpoint", "compile", "eval", "exec", "globals", "input", "locals", "vars"}
FORBIDDEN_ATTRIBUTES = {
    "execv", "execve", "fork", "popen", "posix_spawn", "startfile", "system",
    "__globals__", "__builtins__", "__subclasses__", "load_module", "exec_module", "find_class",
}  # fmt: skip
#: Where a kernel's own function is run by Python, or compiled: with the names of its module, from which it is made.
RUNS_KERNELS = ("formats/kernels/interpretation.py", "formats/kernels/compiling.py")
#: Where machine code is called: of files that nobody else can have written. A function that calls it is made of the
#: numbers and kinds of its arguments, as ``dataclasses`` makes functions.
CALLS_MACHINE_CODE = "formats/kernels/object_code.py"
#: Where a module is imported by a name that is not written in the import: the names are constants of the module.
IMPORTS_BY_NAME = {
    "connector/options/public_names.py": 1,
    "connector/command_line/main.py": 1,  # the function that a command's entry names
    "formats/serializers/registry.py": 1,
    "formats/connectors/registry.py": 1,  # those of its own two folders, as they are installed
    "formats/kernels/all_kernels.py": 1,  # the modules of kernels, which a file of the package lists
}
#: Where an attribute's name is a variable: each takes it from literals of its own callers.
ATTRIBUTES_BY_NAME = {
    "formats/arrow_compute.py": 1,  # functions that our modules name
    "formats/connectors/registry.py": 1,  # the methods of edits, which their class lists
    "formats/kernels/all_kernels.py": 1,  # the kernels that a file of the package lists
    "connector/options/public_names.py": 1,  # the public names
    "connector/command_line/main.py": 1,  # the function that a command's entry names
    "connector/erasure/files.py": 2,  # the kinds of state of a subtask
    "connector/text/helpful_names.py": 1,  # the verbs of a face
    "formats/serializers/kryo/objects/value_tables.py": 1,  # the numbers of kernels
    "statebackends/merging/entry_chunk.py": 1,  # the parts of an entry
    "statebackends/types/class_names.py": 1,  # the declared fields of a serializer
    "connector/options/options.py": 2,  # fields of options that are those of a request
    "formats/keyed/keyed_block.py": 2,  # the parts of an entry
    "formats/keyed/heap_stream.py": 1,  # starts or stops
    "formats/snapshot/needed_files.py": 1,  # the kinds of state of a subtask
    "formats/snapshot/savepoint.py": 1,  # the fields of a handle
    "formats/redaction.py": 1,  # the fields of a data class that hold paths
    "formats/rocksdb/entries.py": 1,  # the parts of an entry
    "formats/rocksdb/keyed_stream.py": 1,  # the parts of an entry
    "formats/plug_ins.py": 3,  # the methods of a serializer
    "formats/serializers/sql/internal.py": 1,  # fields of a logical type
    "formats/serializers/basic/primitives.py": 1,  # the kernel of a width
    "statebackends/types/serializer_parts.py": 1,  # the fields of a serializer's dataclass
    "statebackends/types/unify.py": 3,  # the same
    "statebackends/surveys/losses.py": 2,  # the kinds of state of a subtask
    "statebackends/processing/runtime/user_code.py": 1,  # methods of a user's function that its base declares
    "statebackends/writing/planning/planned_write.py": 1,  # the fields of rows that are those of a write
}
#: Where plug-ins are loaded: entry points of installed packages, by the names that those packages registered.
PLUG_INS = {
    "formats/connectors/registry.py",
    "formats/serializers/kryo/objects/plugged_classes.py",
    "formats/serializers/registry.py",
}
#: Where it is only asked for whether there are any.
ASKED_FOR = {"connector/options/options.py"}
ENTRY_POINTS = "formats/plug_ins.py"
#: Where all errors are caught: to print them and end with an exit code, to raise a plainer one, or the same, on, and to
#: send them to the process, or to the thread, that raises them.
EVERY_ERROR = {
    "connector/command_line/main.py",
    "connector/engines/migrating.py",
    "connector/options/worker_python.py",
    "formats/io/one_verb.py",
}


def modules() -> list[str]:
    """All modules of the package, as paths below the repository."""
    return sorted(str(path.relative_to(ROOT)) for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))


def walk(module: str) -> Iterator[ast.AST]:
    return ast.walk(ast.parse((ROOT / module).read_text(), module))


def imported(module: str) -> Iterator[str]:
    """The full names of all that a module imports."""
    for node in walk(module):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: a relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def calls(module: str, *names: str) -> list[ast.Call]:
    """Calls of functions of these names, however they are reached."""
    found = []
    for node in walk(module):
        if isinstance(node, ast.Call):
            function = node.func
            name = function.id if isinstance(function, ast.Name) else getattr(function, "attr", None)
            if name in names:
                found.append(node)
    return found


def ctypes_of(module: str) -> set[str]:
    """Return all that a module takes from ctypes: it is imported as itself, and only attributes of it are named."""
    names = [node for node in walk(module) if isinstance(node, ast.Name) and node.id == "ctypes"]
    found = {ast.unparse(node) for node in walk(module) if isinstance(node, ast.Attribute)}
    assert [name for name in imported(module) if name.startswith("ctypes")] == ["ctypes"]
    assert len(names) == 2
    return {name for name in found if name.startswith("ctypes.")}


def test_the_package_was_found() -> None:
    assert {"formats/errors.py", "statebackends/open_table.py"} < set(modules())


@pytest.mark.parametrize("module", modules())
def test_nothing_is_run_or_unpickled(module: str) -> None:
    roots = {name.split(".")[0] for name in imported(module)}
    if module == COUNTS_REFERENCES:
        assert ctypes_of(module) == {"ctypes.pythonapi", "ctypes.py_object", "ctypes.pythonapi.Py_IncRef"}
        roots.remove("ctypes")
    if module == CALLS_MACHINE_CODE:
        roots.remove("ctypes")
    allowed = (PICKLES_FUNCTIONS, STARTS_PYTHON, ASKS_FOR_CREDENTIALS)
    assert roots & FORBIDDEN_MODULES == set().union(*(known.get(module, set()) for known in allowed))
    for node in walk(module):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            # Also where it is only handed on: a name for eval. A field may have such a name.
            made = node.id == "exec" and module == CALLS_MACHINE_CODE
            assert node.id not in FORBIDDEN_CALLS or made, f"{module}:{node.lineno}"
        if isinstance(node, ast.Attribute):
            allowed = node.attr == "__globals__" and module in RUNS_KERNELS
            assert node.attr not in FORBIDDEN_ATTRIBUTES or allowed, f"{module}:{node.lineno}"


@pytest.mark.parametrize("module", modules())
def test_no_error_is_swallowed(module: str) -> None:
    for node in walk(module):
        if isinstance(node, ast.ExceptHandler) and module not in EVERY_ERROR:
            caught = ast.unparse(node.type) if node.type is not None else "everything"
            assert not {"everything", "Exception", "BaseException"} & set(caught.strip("()").split(", ")), module
    for call in calls(module, "suppress"):
        assert not {"Exception", "BaseException"} & {ast.unparse(argument) for argument in call.args}


def test_modules_are_imported_by_constant_names_only() -> None:
    found = Counter({module: len(calls(module, "import_module")) for module in modules()})
    assert {module: count for module, count in found.items() if count} == IMPORTS_BY_NAME


def test_attributes_have_names_that_stand_in_the_source() -> None:
    found = Counter(
        module
        for module in modules()
        for call in calls(module, "getattr", "setattr", "delattr", "methodcaller", "attrgetter")
        if not all(isinstance(argument, ast.Constant) for argument in call.args[1:2])
    )
    assert found == ATTRIBUTES_BY_NAME


def test_plug_ins_come_from_installed_packages_only() -> None:
    assert {module for module in modules() if calls(module, "entry_points")} == {ENTRY_POINTS}
    assert {module for module in modules() if calls(module, "plugged_in")} == PLUG_INS | ASKED_FOR
    assert {module for module in modules() if any("importlib.metadata" in name for name in imported(module))} <= {
        *(ENTRY_POINTS, *PLUG_INS),
        "connector/__init__.py",
        CALLS_MACHINE_CODE,  # the versions of what made it
    }


@pytest.mark.parametrize("module", modules())
def test_layers_of_what_runs_code(module: str) -> None:
    roots = {name.split(".")[0] for name in imported(module)}
    if not module.startswith("formats/kernels/"):
        assert not roots & {"numba", "llvmlite"}
    if not module.startswith("connector/"):
        assert not roots & {"pyspark", "py4j"}


def test_reading_opens_nothing_but_the_snapshot(corpus: Path) -> None:
    """With everything loaded, a second read of snapshots imports, unpickles, compiles and runs nothing.

    What audit hooks report is more than the source shows: it includes the libraries that this package calls.
    """
    names = ("2.3.0-hashmap-canonical-compressed", "1.20.5-hashmap-native", "2.2.1-hashmap-canonical-sql")
    snapshots = [path.parent for name in names for path in (corpus / "lab" / name).rglob("_metadata")]
    snapshots.append(ROOT / "tests" / "oracle" / "savepoints" / "shop" / "savepoint")
    command = [sys.executable, str(ROOT / "tests" / "audited_read.py"), *map(str, snapshots)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    seen = json.loads(done.stdout)
    assert seen["rows"] > 1000
    # Listing a folder, opening a file and what belongs to it, calling kernels with addresses of numbers: nothing else.
    assert set(seen["events"]) <= {"open", "os.scandir", "os.listdir", "builtins.id", "ctypes.addressof"}
    allowed = tuple(str(snapshot.resolve()) for snapshot in snapshots)
    assert all(path.startswith(allowed) for path in seen["opened"]), seen["opened"]
    assert len(seen["opened"]) > len(snapshots)


def test_archives_are_unpacked_in_one_place() -> None:
    """``TarFile.extractall`` has filters from Python 3.11.4 on, and Debian 12 has 3.11.2."""
    root = Path(__file__).parents[1]
    unpacking = [
        path.relative_to(root).as_posix()
        for folder in ("connector", "formats", "statebackends", "tests")
        for path in (root / folder).rglob("*.py")
        if re.search(r"\.(extract|extractall|unpack_archive)\(", path.read_text("utf-8"))
    ]
    assert unpacking == ["connector/command_line/warming.py"]
