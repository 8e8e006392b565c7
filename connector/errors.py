"""The exceptions of this package, each derived from :class:`SavepointError` and from the built-in exception that fits.

``except StateNotFoundError`` and ``except KeyError``, for example, both catch that an operator has no such state.
Errors in Spark's own processes (planning of a read, tasks, commits) are raised as ``pyspark.errors.PySparkException``,
with the text of the error.
"""

from __future__ import annotations

from pyspark_savepoint.formats.errors import (
    AccessDeniedError,
    ConcurrentWriteError,
    CorruptStateError,
    DuplicateKeyError,
    FileReplacedError,
    OperatorNotFoundError,
    OptionError,
    OutputError,
    SavepointError,
    SnapshotGoneError,
    SnapshotNotFoundError,
    SpillError,
    StateExistsError,
    StateFileNotFoundError,
    StateNotFoundError,
    StorageError,
    StoreBusyError,
    TypeNotationError,
    UncertainOutcomeError,
    UndecodableStateError,
    UnsafePathError,
    UnsupportedStateError,
    UnsupportedVersionError,
    UserFunctionError,
    ValueRangeError,
    WorkerPythonError,
)

__all__ = [
    "AccessDeniedError",
    "ConcurrentWriteError",
    "CorruptStateError",
    "DuplicateKeyError",
    "FileReplacedError",
    "OperatorNotFoundError",
    "OptionError",
    "OutputError",
    "SavepointError",
    "SnapshotGoneError",
    "SnapshotNotFoundError",
    "SpillError",
    "StateExistsError",
    "StateFileNotFoundError",
    "StateNotFoundError",
    "StorageError",
    "StoreBusyError",
    "TypeNotationError",
    "UncertainOutcomeError",
    "UndecodableStateError",
    "UnsafePathError",
    "UnsupportedStateError",
    "UnsupportedVersionError",
    "UserFunctionError",
    "ValueRangeError",
    "WorkerPythonError",
]
