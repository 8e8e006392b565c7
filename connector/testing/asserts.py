"""Asserts about states, schemas and restores of savepoints. Each fails with what differs, one line each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, Unpack

from pyspark_savepoint.formats.errors import OptionError, did_you_mean
from pyspark_savepoint.formats.redaction import printable, redact

if TYPE_CHECKING:
    import pyarrow as pa

    from pyspark_savepoint.api.local_savepoint import LocalSavepoint
    from pyspark_savepoint.options.keywords import TableOptions
    from pyspark_savepoint.statebackends.jobs.restore.job_reader import Job
    from pyspark_savepoint.statebackends.jobs.restore.restore_verdicts import RestoreCheck

    SavepointLike = LocalSavepoint | str | PathLike[str]

MAX_LINES = 20
P = ParamSpec("P")


def _checked_arguments(assertion: Callable[P, None]) -> Callable[P, None]:
    """Let an assertion refuse wrong flags and misspelt arguments as verbs do, in words of Python."""

    @wraps(assertion)
    def called(*args: P.args, **arguments: P.kwargs) -> None:
        __tracebackhide__ = True
        from pyspark_savepoint.text.doors import in_words, of_open
        from pyspark_savepoint.text.helpful_names import own_arguments

        with in_words(of_open):
            own_arguments(assertion)(*args, **arguments)

    return called


@_checked_arguments
def assert_state(
    savepoint: SavepointLike,
    uid: str,
    state: str,
    expected: Mapping[Any, Any],
    *,
    exact: bool = False,
    **options: Unpack[TableOptions],
) -> None:
    """Assert the values of keys of a keyed state.

    Args:
        savepoint: The savepoint, or its path.
        uid: The operator.
        state: The state.
        expected: The value by key, None for a key that has none. Composite keys are tuples. Values are those of
            ``to_arrow().to_pylist()``, maps as dictionaries.
        exact: Whether there are no other keys.
        **options: Options of a read.

    Raises:
        AssertionError: If a value differs. It lists the keys.
        SavepointError: If there is no such operator or state, or the expected values are no mapping.

    Example::

        assert_state("/savepoints/golden", "accounts", "total", {1042: 68520, 7: None})

    """
    __tracebackhide__ = True
    if not isinstance(expected, Mapping):
        raise OptionError(
            "argument 'expected' must be a mapping of keys to values",
            found=type(expected).__name__,
            remedy="a dictionary, such as {1042: 297}",
        )
    from pyspark_savepoint.plan.operator_plan import expect_name

    expect_name(state, _uid(uid))
    if not exact:
        options["keys"] = [list(key) if isinstance(key, tuple) else key for key in expected]
    table = _opened(savepoint).keyed_state(uid, state=[state], **options)
    column = next(name for name in table.schema.names if name != "key")
    expected = {_typed(key, table.schema.field("key").type): value for key, value in expected.items()}
    rows = table.select("key", column).to_arrow().to_pylist()
    actual = {_hashable(row["key"]): _plain(row[column]) for row in rows if row[column] is not None}
    wanted = {key: value for key, value in expected.items() if value is not None}
    lines = [
        f"key {key!r}: expected {wanted.get(key)!r}, found {actual.get(key)!r}"
        for key in {**wanted, **actual}
        if (key in expected or exact) and wanted.get(key) != actual.get(key)
    ]
    _fail(f"state {state!r} of {uid!r} differs", lines)


@_checked_arguments
def assert_schema(savepoint: SavepointLike, file: str | PathLike[str]) -> None:
    """Assert that a savepoint has the operators, states and types of a file.

    Args:
        savepoint: The savepoint, or its path.
        file: What ``pyspark-savepoint schema SAVEPOINT --file FILE`` has written.

    Raises:
        AssertionError: If they differ. The message lists what is new, gone, or has another type.
        OptionError: If there is no such file, or it is not a schema.

    Example::

        assert_schema("/savepoints/golden", "golden/schema.json")

    """
    __tracebackhide__ = True
    from pyspark_savepoint.api.schemas import differences, read_schema, schema_of
    from pyspark_savepoint.options.paths import path_text

    opened = _opened(savepoint)
    lines = differences(read_schema(Path(path_text(file))), schema_of(opened))
    _fail(
        f"the schema of {opened.path} is not that of {file}",
        lines,
        f"to accept the new schema: pyspark-savepoint schema {opened.path} --file {file}",
    )


@_checked_arguments
def assert_restores(
    savepoint: SavepointLike,
    job: Job | LocalSavepoint,
    *,
    flink_version: str | None = None,
    state_backend: str | None = None,
    allow_non_restored_state: bool = False,
    ids_only: bool = False,
) -> None:
    """Assert that Flink would restore a savepoint, with all types of the job known.

    Args:
        savepoint: The savepoint, or its path.
        job: The job, in any form that ``Savepoint.job`` takes, or a savepoint that it has taken.
        flink_version: The release of Flink that runs the job.
        state_backend: The job's state backend.
        allow_non_restored_state: Accept state that no operator of the job restores.
        ids_only: Accept operators whose types the job does not describe.

    Raises:
        AssertionError: If the restore fails, reads state wrongly, or is unknown.

    Example::

        assert_restores("/savepoints/golden", job, flink_version="2.3")

    """
    __tracebackhide__ = True
    from pyspark_savepoint.statebackends.jobs.restore.restore_verdicts import Verdict

    check = _check(savepoint, job, flink_version, state_backend, allow_non_restored_state)
    rows: list[dict[str, Any]] = check.to_arrow().to_pylist()
    lines = [
        f"{_label(row)}: {row['verdict']}, " + "; ".join(row["reasons"])
        for row in rows
        if row["verdict"] in (Verdict.FAILS, Verdict.IS_MISREAD, Verdict.UNKNOWN)
    ]
    if not ids_only:
        lines += [f"{label}: the description of the job has no types for it" for label in check.undescribed]
    _fail("Flink does not restore the savepoint", lines)


@_checked_arguments
def assert_verdict(
    savepoint: SavepointLike,
    job: Job | LocalSavepoint,
    uid: str,
    verdict: str,
    *,
    flink_version: str | None = None,
    state_backend: str | None = None,
    allow_non_restored_state: bool = False,
) -> None:
    """Assert the verdict about one operator.

    Args:
        savepoint: The savepoint, or its path.
        job: The job, as in :func:`assert_restores`.
        uid: The operator, of the savepoint or of the job.
        verdict: Such as ``restores``, ``migrates``, ``fails``.
        flink_version: The release of Flink that runs the job.
        state_backend: The job's state backend.
        allow_non_restored_state: Accept state that no operator of the job restores.

    Raises:
        AssertionError: If the verdict is another, or there is none.
        OptionError: If ``verdict`` is not a verdict.

    Example::

        assert_verdict("/savepoints/golden", job, "accounts", "migrates", flink_version="2.3")

    """
    __tracebackhide__ = True
    from pyspark_savepoint.statebackends.jobs.restore.restore_verdicts import Verdict

    _uid(uid)
    verdicts = [str(one) for one in Verdict]
    if verdict not in verdicts:
        raise OptionError(
            "argument 'verdict' is not a verdict",
            expected="one of those that check_restore gives",
            found=repr(verdict),
            remedy=did_you_mean(str(verdict), verdicts),
        )
    check = _check(savepoint, job, flink_version, state_backend, allow_non_restored_state)
    rows: list[dict[str, Any]] = check.to_arrow().to_pylist()
    names = ("operator_uid", "operator_uid_hash", "job_operator")
    matches = [row for row in rows if uid in [row[name] for name in names] or repr(uid) == row["job_operator"]]
    if not matches:
        _fail(f"there is no verdict about {uid!r}", [f"{_label(row)}: {row['verdict']}" for row in rows] or ["none"])
    row = matches[0]
    lines = [*row["reasons"], *(f"{state['state']}: {state['verdict']}, {state['reason']}" for state in row["states"])]
    if row["verdict"] != verdict:
        _fail(f"the verdict about {uid!r} is {row['verdict']!r}, expected {verdict!r}", lines or ["no reason"])


def _uid(uid: object) -> str:
    """Return the uid of an operator; raise OptionError unless it is text."""
    if not isinstance(uid, str):
        raise OptionError("argument 'uid' names an operator", expected="a text", found=repr(uid))
    return uid


def _opened(savepoint: SavepointLike) -> LocalSavepoint:
    from pyspark_savepoint.api.local_savepoint import LocalSavepoint, open_savepoint

    return savepoint if isinstance(savepoint, LocalSavepoint) else open_savepoint(savepoint)


def _check(
    savepoint: SavepointLike,
    job: Job | LocalSavepoint,
    flink_version: str | None,
    state_backend: str | None,
    allow: bool,
) -> RestoreCheck:
    from pyspark_savepoint.api.jobs import restore_check

    return restore_check(
        _opened(savepoint).job(job),
        flink_version=flink_version,
        state_backend=state_backend,
        allow_non_restored_state=allow,
    )


def _label(row: Mapping[str, Any]) -> str:
    return str(row["operator_uid"] or row["job_operator"] or row["operator_uid_hash"])


def _hashable(key: Any) -> Any:
    """Return a row's key in a hashable form."""
    if isinstance(key, dict):
        return tuple(_hashable(part) for part in key.values())
    return tuple(map(_hashable, key)) if isinstance(key, list) else key


def _typed(key: Any, kind: pa.DataType) -> Any:
    """Return an expected key as rows have it, or raise OptionError if it is of another type than the keys."""
    import pyarrow as pa

    try:
        return _hashable(pa.array([_nested(key, kind)], kind)[0].as_py())
    except (pa.ArrowInvalid, pa.ArrowTypeError, ValueError) as error:
        raise OptionError(
            f"key {key!r:.200} is of another type than the keys of the state",
            expected=str(kind),
            found=f"{type(key).__name__}: {error}",
            remedy="give keys as to_arrow().to_pylist() shows them, composite keys as tuples of all their fields",
        ) from None


def _nested(key: Any, kind: pa.DataType) -> Any:
    """Return a key with tuples of fields as dictionaries, or raise ValueError for another number of fields."""
    import pyarrow as pa

    if not pa.types.is_struct(kind) or not isinstance(key, tuple):
        return key
    return {field.name: _nested(part, field.type) for field, part in zip(kind, key, strict=True)}


def _plain(value: Any) -> Any:
    """Return a value with maps, which Arrow gives as lists of pairs, as dictionaries."""
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list):
        if value and all(isinstance(part, tuple) for part in value):
            return {_hashable(key): _plain(part) for key, part in value}
        return [_plain(part) for part in value]
    return value


def _fail(what: str, lines: list[str], *remedy: str) -> None:
    """Raise AssertionError if there are lines."""
    __tracebackhide__ = True
    if lines:
        more = [f"and {len(lines) - MAX_LINES} more"] if len(lines) > MAX_LINES else []
        told = [f"{what}:", *(f"  {line}" for line in [*lines[:MAX_LINES], *more]), *remedy]
        raise AssertionError("\n".join(printable(redact(line), line=True) for line in told))
