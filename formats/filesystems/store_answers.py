"""What object stores answer: bytes of a version, and errors, as the client describes them."""

from __future__ import annotations

import re
from typing import Any

from pyspark_savepoint.formats.errors import StorageError

STATUS = re.compile(r"status code: (\d{3})")
#: Status codes of stores without conditional writes.
NO_CONDITIONS = frozenset({"405", "501"})
#: Status codes of a proxy or timeout, after which the store may still complete the request.
IN_BETWEEN = frozenset({"408", "502", "504"})
BUSY = frozenset({"429", "500", "503"})
#: Answers to what was asked for: not modified, another version, no such range.
UNCHANGED, CHANGED, NO_RANGE = ANSWERS = ("304", "412", "416")
#: The answer of a store that has no ranges: the whole file.
NO_RANGES = "200"
#: What a store says of credentials that have expired or were replaced; answers to HEAD have no text.
REFUSED = re.compile(
    r"status code: 401|ExpiredToken|InvalidAccessKeyId|InvalidToken|TokenRefreshRequired|RequestExpired"
    r"|AuthenticationFailed"
    r"|Error performing HEAD .*status code: 40[03]|Unauthenticated|lacked valid authentication",
    re.DOTALL,
)
#: The client's words for requests without an answer, and for a place that is not reached at all.
UNANSWERED = re.compile(
    r"HTTP error: |error sending request|kind: (?:Connect|Timeout|Interrupted|Request|Decode|Unknown)"
)
#: A provider of credentials has none now (``credentials.LaterError``).
NO_KEYS_NOW = re.compile(r"credential provider: LaterError: ")
UNREACHED = re.compile(r"kind: Connect|Connect,\s*TimedOut|LaterError: .* does not answer")
#: Where requests to other hosts than the store's are sent, which redirects would send credentials to: no one is there.
NOWHERE = "127.0.0.1:0"
HOPELESS = re.compile(rf"{re.escape(NOWHERE)},|certificate|InvalidContentType|builder error|invalid URL", re.IGNORECASE)
#: Innermost causes in the client's description of an error, which are appended to its first line.
CAUSE = re.compile(
    r'"(dns error)"|kind: (ConnectionRefused|ConnectionReset|TimedOut)|(InvalidContentType|UnknownIssuer)'
    r'|(?:Body|Connect),\s*(TimedOut)|(invalid peer certificate[^"\n]*)'
)
#: The first pause and the longest, in seconds; each is random between half of it and all.
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 10.0


class RefusedError(Exception):
    """The store's answer to a condition that does not hold, or to a range that is not there: its status."""


class Answer:
    """What one GET brings: bytes from ``start`` on, and what is known of the whole object."""

    def __init__(self, response: Any) -> None:
        meta = response.meta
        self.size = int(meta["size"])
        self.version = tuple((name, meta[name]) for name in ("e_tag", "version") if meta.get(name))
        self.e_tag: str | None = meta.get("e_tag")
        self.modified = meta["last_modified"].timestamp()
        self.start, self.stop = response.range
        self.data = memoryview(response.bytes())

    def expect(self, byte_range: Any, uri: str) -> None:
        """Raise StorageError unless the bytes are those of the range that was asked for, and as many.

        A store, or a proxy before it, may answer with fewer bytes than its headers say.
        """
        start, stop = (
            (0, self.size) if byte_range is None else byte_range if isinstance(byte_range, tuple) else (None, self.size)
        )
        if start is None:
            start = max(0, self.size - byte_range["suffix"])
        stop = min(stop, self.size)
        if (self.start, self.stop, len(self.data)) != (start, stop, stop - start):
            raise StorageError(
                "the store answered with other bytes than were asked for",
                path=uri,
                expected=f"{stop - start} bytes from {start} on",
                found=f"{len(self.data)} bytes, which it calls {self.start} to {self.stop}",
                remedy="look at the proxy or gateway before the store",
            )


def errors() -> tuple[type[Exception], ...]:
    """Return the exceptions that the client raises."""
    from obstore.exceptions import BaseError

    return BaseError, OSError, ValueError


def described(error: Exception) -> str:
    """Return the first line of a client's error, and the innermost causes of its description."""
    text, _, debug = str(error).partition("\n\nDebug source")
    causes = dict.fromkeys(next(filter(None, found)) for found in CAUSE.findall(debug))
    return f"{text} ({', '.join(causes)})" if causes else text


def is_passing(error: Exception) -> bool:
    """Return whether the same request may succeed later: the store was busy, or did not answer."""
    text = str(error)
    if NO_KEYS_NOW.search(text):
        return True
    status = STATUS.search(text)
    if status is not None:
        return status[1] in BUSY or status[1] in IN_BETWEEN
    return UNANSWERED.search(text) is not None and HOPELESS.search(text) is None
