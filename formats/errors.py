"""The exceptions of this package.

All derive from :class:`SavepointError`, and each also from the built-in exception that callers would expect. An error
has facts (file, offset, operator, state, expected, found, remedy) and prints one per line, without secrets and in at
most :data:`MAX_TEXT` bytes. Errors are pickled with all their facts, as they are raised in other processes.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Any, Self

from pyspark_savepoint.formats.redaction import elide, printable, redact, shown

#: Largest size in bytes of the text of an error, and of each of its parts.
MAX_TEXT = 2048
#: Remedies: of bytes that do not match the format, of files that are not there, and of bytes that do not match their
#: checksum.
UNREADABLE = (
    "the file is incomplete, changed since it was written, or of a form that is not supported: copy it from its "
    "origin again, or take a canonical savepoint of the job"
)
MISSING = (
    "copy the file there again, from a backup or from where the snapshot came from; if its job deleted it (a job keeps "
    "only its newest checkpoints), take a savepoint or a newer checkpoint"
)
DAMAGED = "copy the file from its origin again: it is damaged"

FACTS = ("path", "offset", "operator", "state", "function", "key", "expected", "found", "remedy", "traceback")
#: Facts with names from the snapshot: printed on one line, since a line break could forge another fact.
ONE_LINE = frozenset({"path", "operator", "state", "function", "key"})
LABELS = {
    "path": "file",
    "offset": "at byte",
    "operator": "operator",
    "state": "state",
    "function": "function",
    "key": "key",
    "expected": "expected",
    "found": "found",
    "remedy": "to do",
    "traceback": "traceback",
}


class SavepointError(Exception):
    """Base class of all errors of this package: a message, and facts that locate the problem.

    Args:
        message: The problem, in one sentence.
        **facts: Any of :data:`FACTS`, such as ``path``, ``operator``, ``expected``, ``found``, ``remedy``. None is
        ignored.

    Raises:
        TypeError: If the name of a fact is unknown.

    Example::

        try:
            savepoint.keyed_state("acounts")
        except SavepointError as error:
            print(error.message, error.facts.get("remedy"))

    """

    def __init__(self, message: str, **facts: object) -> None:
        unknown = facts.keys() - set(FACTS)
        if unknown:
            raise TypeError(f"unknown facts {sorted(unknown)}; known are {FACTS}")
        self.message: str = _clean(message)
        self.facts: dict[str, Any] = {name: _clean(value) for name, value in facts.items() if value is not None}
        super().__init__(self.message)

    def with_facts(self, **facts: object) -> Self:
        """Add facts and return the error. Existing facts are kept, as they come from closer to the problem.

        Args:
            **facts: Any of :data:`FACTS`. None is ignored.

        Returns:
            The same error.

        """
        for name, value in facts.items():
            if value is not None:
                self.facts.setdefault(name, _clean(value))
        return self

    @property
    def help(self) -> str:
        """The command that prints what the page of errors says about this class, with an example."""
        public = next(kind for kind in type(self).__mro__ if kind.__module__ == __name__)
        return f"pyspark-savepoint help {public.__name__}"

    def __str__(self) -> str:
        self._clean_again()
        names = [name for name in FACTS if name in self.facts]
        parts = fitted([self.message, *map(self._fact, names)], MAX_TEXT - sum(len(LABELS[name]) + 5 for name in names))
        return "\n".join(
            [parts[0], *(f"  {LABELS[name]}: {part}" for name, part in zip(names, parts[1:], strict=True))]
        )

    def _fact(self, name: str) -> str:
        text = str(self.facts[name])
        if name in ONE_LINE:
            return printable(text, line=True)
        if name == "remedy" and "state" in self.facts:
            # The remedy was written before the state was known.
            return text.replace("<state>", str(self.facts["state"]).partition(".")[0])
        return text

    def __repr__(self) -> str:
        self._clean_again()
        return super().__repr__()

    def _clean_again(self) -> None:
        """Redact secrets again before the error is shown: the environment may contain new ones by then."""
        self.message = _clean(self.message, look=True)
        self.facts = {name: _clean(value) for name, value in self.facts.items()}
        self.args = (self.message,)

    def __reduce__(self) -> tuple[Any, ...]:
        self._clean_again()
        return _rebuild, (type(self), self.message, self.facts)


def _rebuild(kind: type[SavepointError], message: str, facts: dict[str, Any]) -> SavepointError:
    return kind(message, **facts)


class CorruptStateError(SavepointError, ValueError):
    """Bytes do not match the format: truncated, damaged, forged, or of an unknown form."""


# Spark takes a NotImplementedError of a reader for one without partitions, and reads no rows: neither is one.
class UnsupportedVersionError(SavepointError):
    """The version of a format is not supported: too old, or newer than this release."""


class UnsupportedStateError(SavepointError):
    """The kind of state is known, but the requested operation does not support it."""


class UndecodableStateError(SavepointError, TypeError):
    """State has a serializer of the job's own code, and BINARY was refused or is not possible."""

    #: Numbers of the states of the same file that can be read, because they come before this one; None if others can be
    #: read, too.
    readable: frozenset[int] | None = None


class ValueRangeError(SavepointError, OverflowError):
    """A value cannot be represented exactly in the column's Spark type."""


class DuplicateKeyError(SavepointError, ValueError):
    """A key has several rows, but the state holds one value per key."""


class SpillError(SavepointError, OSError):
    """Sorted rows that exceed memory cannot be written to local disk: it is full, or not writable."""


class OptionError(SavepointError, ValueError):
    """An option, a combination of options, an argument, or a user's schema is invalid."""


class TypeNotationError(OptionError):
    """A text is not a type in Flink's notation. The message points at the position."""


class OperatorNotFoundError(SavepointError, KeyError):
    """The snapshot has no operator of this uid, uid hash or name."""


class StateNotFoundError(SavepointError, KeyError):
    """The operator has no state or table of this name."""


class SnapshotNotFoundError(SavepointError, FileNotFoundError):
    """There is no snapshot at the path."""


class SnapshotGoneError(SnapshotNotFoundError):
    """A snapshot was deleted while it was read: a job keeps only its newest checkpoints."""


class StateFileNotFoundError(SavepointError, FileNotFoundError):
    """A file that the snapshot refers to is missing."""


class StorageError(SavepointError, OSError):
    """A file system or object store cannot be reached, or answers with an error."""


class FileReplacedError(StorageError):
    """A file was replaced while it was read, so that the bytes read belong to neither version."""


class AccessDeniedError(StorageError, PermissionError):
    """A file system or object store denies this process read access."""


class UnsafePathError(SavepointError, PermissionError):
    """A handle points to a file outside the snapshot, and option ``allowOutside`` is not set."""


class OutputError(SavepointError, OSError):
    """A file cannot be written: the disk is full, or permissions are missing."""


class StoreBusyError(OutputError):
    """An object store answered that it cannot write now."""


class UncertainOutcomeError(OutputError):
    """An object store did not answer whether it published a file: the file may exist, now or later."""


class StateExistsError(SavepointError, FileExistsError):
    """The operator, state, table or savepoint to add exists already."""


class ConcurrentWriteError(SavepointError, FileExistsError):
    """Another writer published first, or the snapshot changed during the operation."""


class WorkerPythonError(SavepointError, ImportError):
    """The Python that Spark starts does not have this package, or is of another version."""


class UserFunctionError(SavepointError, RuntimeError):
    """A user function or serializer plug-in raised an exception, or a function cannot be sent to the tasks."""


def _clean(value: Any, look: bool = False) -> Any:
    """Return a part of an error without secrets and in bounded length. Numbers and clean values stay unchanged."""
    if isinstance(value, int | float):
        return value
    text = str(value)
    clean = elide(printable(redact(text, look)), MAX_TEXT)
    return value if clean == text else clean


def fitted(parts: Sequence[str], limit: int) -> list[str]:
    """Return texts that have at most ``limit`` bytes together: the longest lose their middle.

    >>> fitted(["short", "x" * 100], 50)
    ['short', 'xxxxxxxxxxxxxxxxx[66 bytes]xxxxxxxxxxxxxxxxx']
    """
    sizes = sorted(len(part.encode("utf-8", "backslashreplace")) for part in parts)
    level = limit
    for position, size in enumerate(sizes):
        level = limit // (len(sizes) - position)
        if size > level:
            break
        limit -= size
        level = size
    return [elide(part, level) for part in parts]


class SavepointWarning(UserWarning):
    """A successful operation has a consequence that the user should know, such as files that remain.

    Args:
        message: The consequence. It is shown without secrets and terminal commands, as errors are.

    """

    def __init__(self, message: object = "") -> None:
        super().__init__(shown(str(message)))


def type_name(value: object) -> str:
    """Return the type of a user's value, with the library if it is another one: several have a DataFrame.

    >>> type_name(1), type_name(difflib.SequenceMatcher())
    ('int', 'difflib.SequenceMatcher')
    """
    kind = type(value)
    library = kind.__module__.partition(".")[0]
    return kind.__qualname__ if library in ("builtins", "pyspark_savepoint") else f"{library}.{kind.__qualname__}"


#: Characters of the longest name whose edit distance is computed: the work is their square.
LONGEST_COMPARED = 200


def nearest(text: str, choices: Iterable[str]) -> list[str]:
    """Return at most three similar names, best first: equal except for case, contained, then by edit distance.

    Names of more than 200 characters are similar only by case, or if one contains the other.

    >>> nearest("totl", ["total", "profile"]), nearest("Total" + "x" * 300, ["totaly", "TOTAL"])
    (['total'], ['TOTAL'])
    """
    names = list(dict.fromkeys(choices))
    folded = text.casefold()
    same = [name for name in names if name.casefold() == folded]
    part = [name for name in names if folded in name.casefold() or name.casefold() in folded]
    short = [name for name in names if len(name) <= LONGEST_COMPARED] if len(text) <= LONGEST_COMPARED else []
    close = difflib.get_close_matches(text, short, n=3, cutoff=0.5)
    return list(dict.fromkeys(same + close + part))[:3]


def did_you_mean(text: str, choices: Iterable[str]) -> str:
    """Return a sentence with the nearest names, or else with some of the known names.

    >>> did_you_mean("uidd", ["uid", "state"])
    "did you mean 'uid'?"
    >>> did_you_mean("x", [])
    'there is none'
    """
    names = list(dict.fromkeys(choices))
    close = nearest(text, names)
    if close:
        return "did you mean " + " or ".join(repr(name) for name in close) + "?"
    if not names:
        return "there is none"
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return "there are " + ", ".join(repr(name) for name in names[:10]) + more
