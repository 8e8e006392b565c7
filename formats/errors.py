"""Everything that this package raises.

One root, :class:`SavepointError`; every leaf also derives from the builtin that a caller would expect. Errors
carry facts (file, offset, operator, state, what was expected, what to do) and print them one to a line, without secrets
and in at most :data:`MAX_TEXT` bytes. They cross process borders, so they pickle with all their facts.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Any, Self

from pyspark_savepoint.formats.redaction import elide, printable, redact

#: Bytes of an error's text, and of each of its parts.
MAX_TEXT = 2048
#: What to do where bytes are not what the format says, and where a checksum says that they are not those written.
UNREADABLE = (
    "the bytes are cut off, not those that were written, or of a form that is not read: take the file from its origin "
    "again, or a canonical savepoint of the job"
)
DAMAGED = "the file is damaged: take it from its origin again"

FACTS = ("path", "offset", "operator", "state", "function", "key", "expected", "found", "remedy", "traceback")
#: Names that a snapshot may choose: a line more would look like a fact.
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
    """Root of all errors of this package: a message and the facts that locate the problem."""

    def __init__(self, message: str, **facts: object) -> None:
        unknown = facts.keys() - set(FACTS)
        if unknown:
            raise TypeError(f"unknown facts {sorted(unknown)}; known are {FACTS}")
        self.message: str = _clean(message)
        self.facts: dict[str, Any] = {name: _clean(value) for name, value in facts.items() if value is not None}
        super().__init__(self.message)

    def with_facts(self, **facts: object) -> Self:
        """The error with more facts; those that it has already stay, for they were nearer to the problem."""
        for name, value in facts.items():
            if value is not None:
                self.facts.setdefault(name, _clean(value))
        return self

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
            return text.replace("\n", "\\n")
        if name == "remedy" and "state" in self.facts:
            # A remedy that names an option for the state is written where the state is not known yet.
            return text.replace("<state>", str(self.facts["state"]).partition(".")[0])
        return text

    def __repr__(self) -> str:
        self._clean_again()
        return super().__repr__()

    def _clean_again(self) -> None:
        """Before it is shown: the environment may hold other secrets than when the error was made."""
        self.message = _clean(self.message, look=True)
        self.facts = {name: _clean(value) for name, value in self.facts.items()}
        self.args = (self.message,)

    def __reduce__(self) -> tuple[Any, ...]:
        self._clean_again()
        return _rebuild, (type(self), self.message, self.facts)


def _rebuild(kind: type[SavepointError], message: str, facts: dict[str, Any]) -> SavepointError:
    return kind(message, **facts)


class CorruptStateError(SavepointError, ValueError):
    """Bytes are not what the format says: cut off, damaged, hostile, or of a form that is not read."""


class UnsupportedVersionError(SavepointError, NotImplementedError):
    """A version of a format that is not read (too old, or newer than this release)."""


class UnsupportedStateError(SavepointError, NotImplementedError):
    """A kind of state that is recognised, but cannot be read by what was asked."""


class UndecodableStateError(SavepointError, TypeError):
    """State whose serializer is user code, where BINARY cannot stand in for it or was declined."""


class ValueRangeError(SavepointError, OverflowError):
    """A value that the column's Spark type cannot hold exactly."""


class DuplicateKeyError(SavepointError, ValueError):
    """One key has more than one row, where state has room for one."""


class SpillError(SavepointError, OSError):
    """Sorted rows that do not fit into memory cannot be kept on local disk: it is full, or not writable."""


class OptionError(SavepointError, ValueError):
    """An option, a combination of options, or a user's schema that cannot be."""


class TypeNotationError(OptionError):
    """A text that is no type; the message points at the place."""


class OperatorNotFoundError(SavepointError, KeyError):
    """No operator of that uid, hash or name."""


class StateNotFoundError(SavepointError, KeyError):
    """The operator has no state or table of that name."""


class SnapshotNotFoundError(SavepointError, FileNotFoundError):
    """There is no snapshot at the path."""


class StateFileNotFoundError(SavepointError, FileNotFoundError):
    """A file that the snapshot refers to is missing."""


class StorageError(SavepointError, OSError):
    """A file system or object store that cannot be reached, or answers with errors."""


class FileReplacedError(StorageError):
    """A file was replaced while it was read: what was read is neither the old one nor the new."""


class AccessDeniedError(StorageError, PermissionError):
    """A file system or object store that does not let this process read."""


class UnsafePathError(SavepointError, PermissionError):
    """A handle points outside the snapshot, and nobody allowed that."""


class OutputError(SavepointError, OSError):
    """A file cannot be written: the disk is full, or the user may not."""


class StoreBusyError(OutputError):
    """A store answered that it cannot write now."""


class UncertainOutcomeError(OutputError):
    """A store did not answer whether it published what was written: it may be there, now or soon."""


class StateExistsError(SavepointError, FileExistsError):
    """What is to be added is there already."""


class ConcurrentWriteError(SavepointError, FileExistsError):
    """Another writer was faster, or the snapshot changed while this one worked."""


class UserFunctionError(SavepointError, RuntimeError):
    """A user's function raised, or cannot be sent to the tasks."""


def _clean(value: Any, look: bool = False) -> Any:
    """A part of an error, fit to be shown; what is no text and has no secret stays what it is."""
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
    """Something that went well, but for what the user should know: files that stayed, a store without conditions."""


def nearest(wanted: str, known: Iterable[str]) -> list[str]:
    """At most three names like the wanted one, best first: by case, by part, then by edit distance."""
    names = list(dict.fromkeys(known))
    folded = wanted.casefold()
    same = [name for name in names if name.casefold() == folded]
    part = [name for name in names if folded in name.casefold() or name.casefold() in folded]
    close = difflib.get_close_matches(wanted, names, n=3, cutoff=0.5)
    return list(dict.fromkeys(same + close + part))[:3]


def did_you_mean(wanted: str, known: Iterable[str]) -> str:
    """A sentence with the nearest names, or with some of those that there are.

    >>> did_you_mean("uidd", ["uid", "state"])
    "did you mean 'uid'?"
    >>> did_you_mean("x", [])
    'there is none'
    """
    names = list(dict.fromkeys(known))
    close = nearest(wanted, names)
    if close:
        return "did you mean " + " or ".join(repr(name) for name in close) + "?"
    if not names:
        return "there is none"
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return "there are " + ", ".join(repr(name) for name in names[:10]) + more
