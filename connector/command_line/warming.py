"""Command warm-up: reads every table of a snapshot once, so that compiled kernels are in the cache.

Without a path, it does so with small savepoints in a temporary folder: one of usual types, which it writes, and those
of ``samples.tar.xz``, which Flink 2.2.1 wrote. One job has a native savepoint of RocksDB, a native one of the hashmap
state backend, and a canonical one (``python -m tests.oracle.flink generate 2.2.1 shop OUT --backend rocksdb --format
native``, and so on); these are compared and edited, too. Others are of SQL queries (``tests/oracle/sql_plans.py``).

numba compiles in one thread of a process at a time. Therefore a second process does the same in reverse order: each
takes from the cache what the other has compiled, and they meet in the middle.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import subprocess
import sys
import tarfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from functools import partial
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa

from pyspark_savepoint.api.local_savepoint import LocalSavepoint, create_savepoint, open_savepoint
from pyspark_savepoint.command_line.commands import WarmUp
from pyspark_savepoint.command_line.output import Output
from pyspark_savepoint.command_line.parsing import UsageError
from pyspark_savepoint.command_line.read_options import read_options
from pyspark_savepoint.formats.errors import OptionError, SavepointError, SavepointWarning
from pyspark_savepoint.formats.io.local_files import cpus, local_directory
from pyspark_savepoint.formats.kernels import code_folders
from pyspark_savepoint.formats.kernels.all_kernels import kernel_named, listed
from pyspark_savepoint.statebackends.requests.applicability import SURVEYED

DONE = 0
SAMPLES = Path(__file__).with_name("samples.tar.xz")
#: The samples of one job, and its operator with keyed state.
SAMPLES_OF_A_JOB, OPERATOR = ("canonical", "hashmap", "rocksdb"), "accounts"
NOON = dt.datetime(2026, 1, 2, 12, tzinfo=dt.UTC)


def warm_up(arguments: WarmUp, output: Output) -> int:
    """Read every table of a snapshot; with ``--file``, pack what that has compiled."""
    if arguments.path is None and read_options(arguments):
        raise UsageError("--storage-option and --allow-outside need the path of a snapshot")
    if arguments.file is not None:
        return _packed(arguments, arguments.file, output)
    if arguments.cpu is not None:
        raise OptionError("--cpu needs --file: this machine's code is for its own processor", found=arguments.cpu)
    from pyspark_savepoint.formats.kernels._jit import has_cache
    from pyspark_savepoint.formats.kernels.interpretation import always_compile, notice

    if not has_cache():
        raise OptionError(
            "compiled code cannot be cached: no cache folder is writable",
            found=os.environ.get("NUMBA_CACHE_DIR"),
            remedy="set NUMBA_CACHE_DIR to a folder that this user can write",
        )
    always_compile()
    is_silent = output.as_json or arguments.quiet
    notice.text = None if is_silent else "savepoint: compiling, which takes up to a minute"
    start = time.monotonic()
    if arguments.path is not None:
        read = read_all(open_savepoint(arguments.path, **read_options(arguments)))
    else:
        with TemporaryDirectory(dir=local_directory()) as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore", SavepointWarning)
            here, other = (Path(folder, name) for name in ("here", "other"))
            with second_process(f"compile_backwards({str(other)!r})"):
                read = use_samples(here)
    seconds = time.monotonic() - start
    output.say(f"{read} tables read in {seconds:.1f} s: the code that they need is compiled and cached")
    output.record({"tables": read, "seconds": round(seconds, 3)})
    return DONE


def _packed(arguments: WarmUp, file: str, output: Output) -> int:
    count = pack_compiled_code(file, arguments.path, cpu=arguments.cpu, options=read_options(arguments))
    output.say(f"{count} kernels packed: set {code_folders.VARIABLE} to {file}, or to where it is unpacked")
    output.record({"kernels": count, "file": file})
    return DONE


def pack_compiled_code(
    to: str | os.PathLike[str],
    path: str | os.PathLike[str] | None = None,
    *,
    cpu: str | None = None,
    options: dict[str, Any] | None = None,
) -> int:
    """Compile kernels for any processor of this family, and pack them for machines that live as long as a job.

    Machines need the same Python, numba, llvmlite and version of this package. Where they find it says the environment
    variable ``PYSPARK_SAVEPOINT_CODE``: the zip file, or the folder to which it was unpacked, such as that of Spark's
    ``--archives``. It is used only if nobody else can have written it: it belongs to the user of the process or to
    root, and others may write neither to it nor to a folder above it.

    Args:
        to: The zip file; an existing one is replaced.
        path: A snapshot like those that will be read, for a smaller file. By default, all kernels are packed.
        cpu: The least that the processors can do: ``x86-64``, ``x86-64-v2``, ``x86-64-v3``, ``x86-64-v4``, or
            ``generic`` of ARM. By default ``x86-64-v3``, which are those of Intel from 2013 on and of AMD from 2015 on.
        options: Options of the snapshot, as the command line's.

    Returns:
        The number of kernels, each for types of its arguments.

    Raises:
        OptionError: If this family has no processor of that name, or this one cannot run its code.
        SavepointError: If a snapshot cannot be read, or a kernel does not compile.

    Example::

        from pyspark_savepoint.command_line.warming import pack_compiled_code

        pack_compiled_code("code.zip")

    """
    names = code_folders.baselines()
    if cpu is None:
        cpu = next((name for name in ("x86-64-v3", *names) if name in names and not code_folders.lacking(name)), "")
    if cpu not in names:
        raise OptionError("this family of processors has no such baseline", found=cpu, expected=" or ".join(names))
    missing = code_folders.lacking(cpu)
    if missing:
        raise OptionError(f"this processor cannot run code for {cpu}: it has no {', '.join(missing)}", found=cpu)
    with TemporaryDirectory(dir=local_directory()) as folder:
        environment = {name: text for name, text in os.environ.items() if name != code_folders.VARIABLE}
        environment |= {"NUMBA_CPU_NAME": cpu, "NUMBA_CPU_FEATURES": "", "NUMBA_CACHE_DIR": folder}
        request = {
            "to": str(to),
            "folder": folder,
            "path": None if path is None else str(path),
            "options": options or {},
        }
        script = f"import json, sys; from {__name__} import compile_and_pack; compile_and_pack(**json.load(sys.stdin))"
        process = subprocess.run(  # noqa: S603  (this Python, and a script of this module)
            [sys.executable, "-P", "-c", script],
            env=environment, input=json.dumps(request), capture_output=True, text=True, check=False,
        )  # fmt: skip
    if process.returncode:
        last = (process.stderr.strip().splitlines() or ["nothing"])[-1]
        raise SavepointError(
            "compiled code could not be packed",
            found=last.removeprefix(f"{SavepointError.__module__}.SavepointError: "),
        )
    return int(process.stdout)


def compile_and_pack(to: str, folder: str, path: str | None, options: dict[str, Any]) -> None:
    """Compile what a snapshot needs, or all kernels, into a folder; pack it and print the number of kernels."""
    if path is None:
        with second_process("compile_listed(backwards=True)"):
            compile_listed()
    else:
        from pyspark_savepoint.formats.kernels.interpretation import always_compile

        always_compile()
        read_all(open_savepoint(path, **options))
    temporary = f"{to}.{os.getpid()}"
    try:
        count = code_folders.write_pack(Path(folder), temporary)
        os.replace(temporary, to)
    except OSError as error:
        raise SavepointError(f"{to} cannot be written: {error.strerror}") from None
    print(count)


def read_all(savepoint: LocalSavepoint) -> int:
    """Read every table of every operator; return how many. State that cannot be read compiles nothing."""
    tables = {tuple(sorted(row["options"])) for row in savepoint.states().rows()}
    read = 0
    for options in [*map(dict, tables), *({"table": name} for name in SURVEYED)]:
        try:
            name = options.pop("table", None)
            for _ in savepoint.table(name, **options).batches():
                pass
        except SavepointError:
            continue
        read += 1
    return read


@contextmanager
def second_process(call: str) -> Iterator[None]:
    """Have another process compile the same backwards, where this one may use more than one core.

    It ends with the block, and has a group of its own, so that Ctrl-C does not reach it. If it fails, this process
    compiles everything itself.
    """
    if cpus() < 2:
        yield
        return
    script = f"from {__name__} import {call.partition('(')[0]}; {call}"
    process = subprocess.Popen(  # noqa: S603  (this Python, and a script of this module)
        [sys.executable, "-P", "-c", script],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield
    finally:
        process.kill()
        process.wait()


def compile_backwards(folder: str) -> None:
    """Use the samples in reverse order."""
    from pyspark_savepoint.formats.kernels.interpretation import always_compile

    always_compile()
    for step in reversed(steps(Path(folder))):
        step()


def compile_listed(backwards: bool = False) -> None:
    """Compile all kernels, or take them from the cache."""
    every = listed()
    for name, signature in reversed(every) if backwards else every:
        kernel_named(name).compile_for(signature)


def use_samples(folder: Path) -> int:
    """Read every table of small savepoints, compare them and edit them; return how many tables were read."""
    return sum(step() for step in steps(folder))


def steps(folder: Path) -> list[Callable[[], int]]:
    """Unpack the samples, and return all that is done with them; each step returns how many tables it has read."""
    unpack(SAMPLES, folder)
    samples = [f"{folder}/{name}" for name in SAMPLES_OF_A_JOB]
    return [
        *(partial(compare, before, after) for before, after in pairwise(samples)),
        *(partial(edit, sample) for sample in samples),
        partial(write_and_read, f"{folder}/written"),
        use_entry_memory,
        *(partial(read_at, str(path)) for path in sorted(folder.iterdir())),
    ]


def unpack(archive: Path, folder: Path) -> None:
    """Unpack an archive; also with Python 3.11.2 of Debian 12, as extraction has filters from 3.11.4 on."""
    # Not a comparison of versions: Debian may add them to its own.
    safely: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
    with tarfile.open(archive) as tar:
        tar.extractall(folder, **safely)  # noqa: S202 (archives of this project)


def read_at(path: str) -> int:
    """Read every table of the savepoint at a path; return how many."""
    return read_all(open_savepoint(path))


def compare(before: str, after: str) -> int:
    """Compare two samples."""
    open_savepoint(before).diff(after).to_arrow()
    return 0


def edit(sample: str) -> int:
    """Edit a sample, and read the result."""
    remove_key(sample, f"{sample}-edited")
    return read_at(f"{sample}-edited")


def write_and_read(path: str) -> int:
    """Write a savepoint, and read it."""
    write_sample(path)
    return read_at(path)


def remove_key(path: str, target: str) -> None:
    """Write the sample without a key of its operator."""
    savepoint = open_savepoint(path)
    key = next(iter(savepoint.keyed_state(OPERATOR).rows()))["key"]
    savepoint.remove_keys(OPERATOR, [key]).write(target)


def use_entry_memory() -> int:
    """Use the entries in memory of the state backend ``rocksdb``, before a database without entries."""
    from pyspark_savepoint.statebackends.processing.backends.rocksdb_memory import BufferedDatabase, EntryMemory

    memory = EntryMemory(BufferedDatabase({}, list), size=1000)
    memory.write_all([b"key"], [b"value"])
    memory.read_all([b"key"])
    memory.read(b"key")
    list(memory.entries(b""))
    return 0


def write_sample(folder: str) -> None:
    """Write a savepoint with usual types, by the code that tasks of Spark run."""
    numbers = range(100)
    values = pa.table(
        {
            "count": pa.array(numbers, pa.int32()),
            "total": pa.array(numbers, pa.int64()),
            "share": pa.array([number / 7 for number in numbers]),
            "name": pa.array([f"name {number}" if number % 3 else None for number in numbers]),
            "active": pa.array([number % 2 == 0 for number in numbers]),
            "price": pa.array([Decimal(number).scaleb(-2) for number in numbers], pa.decimal128(10, 2)),
            "day": pa.array([NOON.date()] * len(numbers)),
            "time": pa.array([NOON] * len(numbers), pa.timestamp("us", tz="UTC")),
            "recent": pa.array([[number, number + 1] for number in numbers], pa.list_(pa.int64())),
            "spent": pa.array([[("EUR", number)] for number in numbers], pa.map_(pa.string(), pa.int64())),
            "profile": pa.array([{"city": "Berlin", "visits": number} for number in numbers]),
        }
    )
    keys = {"of-longs": pa.array(numbers, pa.int64()), "of-strings": pa.array([f"key {number}" for number in numbers])}
    savepoint = create_savepoint()
    for uid, key in keys.items():
        savepoint = savepoint.with_operator(uid, values.append_column("key", key), key="key")
    savepoint.write(folder)
