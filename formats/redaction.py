"""Redaction of text for display: without secrets, and of bounded length.

Clients of object stores repeat their input in errors: a signed URL, a header, a key. All text that leaves this package
passes :func:`redact` first. It removes the secrets found in the environment, plain and URL-encoded, and all text that
has the form of a secret, wherever it comes from.
"""

from __future__ import annotations

import functools
import json
import os
import re
import stat
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

Kind = TypeVar("Kind", bound=type[Any])

SHOWN_INSTEAD = "***"
#: Maximum size of displayed text, in bytes.
MAX_DISPLAYED = 2048
#: Unicode's categories Cc (except tabs and line ends), Cf, Zl, Zp and Cs: control and format characters, among them
#: those that change the direction of text or have no width; separators of lines; lone surrogates. Also U+FFFE and
#: U+FFFF, which XML does not allow. As ranges: asking ``unicodedata`` about every character takes 0.2 s. Between two
#: emoji the joiner U+200D makes one of them, and is left.
_UNPRINTABLE = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b\u200c\u200e\u200f\u2028-\u202e"
    "\u2060-\u2064\u2066-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb\ufffe\uffff\U000110bd\U000110cd\U00013430-\U0001343f"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0001\U000e0020-\U000e007f"
)
_EMOJI = "\u2600-\u27bf\ufe0f\U0001f300-\U0001faff"
_JOINERS = f"(?<![{_EMOJI}])\u200d|\u200d(?![{_EMOJI}])"
UNPRINTABLE = re.compile(f"[{_UNPRINTABLE}]|{_JOINERS}")
UNPRINTABLE_IN_LINE = re.compile(f"[{_UNPRINTABLE}\t\n]|{_JOINERS}")
#: Shorter values are not treated as secrets: a value such as "test" occurs in too many texts.
MIN_SECRET = 6
#: The middle of a longer text is removed before the search.
MAX_SEARCHED = 1 << 13
MAX_KEY_FILE = 1 << 16

SECRET_VARIABLES = (
    "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_CONTAINER_AUTHORIZATION_TOKEN",
    "AZURE_STORAGE_KEY", "AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_CONNECTION_STRING", "AZURE_CLIENT_SECRET",
    "AZURE_CLIENT_CERTIFICATE_PASSWORD", "AZURE_PASSWORD",
)  # fmt: skip
GOOGLE_KEY_FILE = "GOOGLE_APPLICATION_CREDENTIALS"
UNRESERVED = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
PROXIES = ("ALL_PROXY", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "http_proxy", "https_proxy")

#: Fields that have a path of their object's file system.
PATHS = ("directory", "path", "root")
#: Names of parameters and fields whose values are secrets. Repetitions are bounded, which bounds the search time.
_NAME = (
    r"(?:\b|(?<=%26)|(?<=%3F)|(?<=%2526))(?:x-(?:amz|goog)-(?:signature|security-token|credential)|awsaccesskeyid|signature|sig|"
    r"[\w.\-]{0,32}(?:secret|password|passwd|access_?token|refresh_?token|session_?token|security_?token|"
    r"access[._]?key|account_?key|storage_?key|private_?key|sharedaccesssignature|credentials?)[\w.\-]{0,32})"
)
_FORMS = re.compile(
    "|".join(
        (
            rf"(?P<name>{_NAME}(?:=|%3D|%253D))[^\s&\"'<>;]+",
            rf"(?P<field>\"{_NAME}\"\s{{0,9}}:\s{{0,9}}\")(?:[^\"\\]|\\.)*",
            r"(?P<tag><(?:AWSAccessKeyId|AuthenticationErrorDetail)>)[^<]*",
            r"(?P<header>\bauthorization\W{1,4})[^\n]+",
            r"(?P<scheme>\b(?:bearer|sharedkey|aws4-hmac-sha256 credential=)\s{0,2})[\w.\-+/=:~]{8,}",
            r"(?P<block>-----BEGIN [A-Z ]{0,32}PRIVATE KEY-----).*?(?:-----END|\Z)",
            r"(?P<key>\b(?=(?:AKIA|ASIA)))[A-Z0-9]{16,128}\b",
            # user:password@, and for schemes without a user, user@; in abfss:// that part is the container. Normalized
            # paths have one slash.
            r"(?P<url>:/{1,2})[^/\s@:]{0,256}:(?!\d{1,5}/)[^\s@]{1,512}@",
            r"(?P<user>\b(?:s3[anp]?|gs|gcs|https?):/{1,2})[^/\s@]{1,512}@",
            # A bucket has no port, so this is the start of a secret that contains a slash.
            r"(?P<bucket>\b(?:s3[anp]?|gs|gcs):/{1,2})[^/\s@:]{1,256}:[^\s\"']{1,512}",
        )
    ),
    re.IGNORECASE | re.DOTALL,
)
#: If a text contains none of these, none of the forms above can match.
SIGNS = ("=", "%3d", '"', "<a", "authorization", "bearer", "sharedkey", "-----begin", "akia", "asia", "@", ":/")


class _EnvironmentSecrets:
    """Pattern for the secrets found in the environment at the last check."""

    pattern: re.Pattern[str] | None = None


def redact(text: str, look: bool = True) -> str:
    """Return the text without secrets; ``look=False`` reuses the secrets found in the environment at the last check.

    Most errors of this package are raised while the content of a file is being detected, and are never shown; creating
    them must be cheap.
    """
    if look:
        _EnvironmentSecrets.pattern = _secrets_pattern(
            tuple(map(os.environ.get, (*SECRET_VARIABLES, *PROXIES))), _key_file()
        )
    if len(text) > MAX_SEARCHED:
        text = text[: MAX_SEARCHED // 2] + "..." + text[-MAX_SEARCHED // 2 :]
    if _EnvironmentSecrets.pattern is not None:
        text = _EnvironmentSecrets.pattern.sub(SHOWN_INSTEAD, text)
    folded = text.casefold()
    return _FORMS.sub(_redacted_match, text) if any(sign in folded for sign in SIGNS) else text


def shown(text: str, limit: int = MAX_DISPLAYED, *, line: bool = False) -> str:
    """Return a text for display: without secrets and terminal commands, in at most ``limit`` bytes.

    ``line=True`` also escapes tabs and line breaks, with which a name could forge another line.
    """
    return elide(printable(redact(text), line=line), limit)


def redacted(kind: Kind) -> Kind:
    """Class decorator: the class's ``repr`` shows no secret of its paths; every data class with a path has it.

    A path is shown with its scheme and bucket if the object has its file system: a secret with a slash in it is
    recognised only as a whole.
    """
    plain: Callable[[object], str] = kind.__dict__["__repr__"]

    def show(self: object) -> str:
        text = plain(self)
        filesystem: Any = getattr(self, "filesystem", None)
        for name in PATHS if filesystem is not None else ():
            path = getattr(self, name, None)
            if isinstance(path, str):
                text = text.replace(repr(path), repr(filesystem.uri(path)))
        return shown(text)

    setattr(kind, "__repr__", show)  # noqa: B010 (the type of an assignment would be that of a method)
    return kind


def printable(text: str, *, line: bool = False) -> str:
    r"""Escape characters that are not shown as themselves: every text that leaves this package passes this function.

    Terminals and logs interpret them as commands, change the direction of text because of them, or show nothing; lone
    surrogates cannot be encoded.

    Args:
        text: Any text, such as a name from a snapshot.
        line: Whether tabs and line breaks are escaped, too.

    Returns:
        The text, in which these characters are escapes of Python.

    >>> printable("a\x1b[2Jb\u200e\ud800\n"), printable("a\nb", line=True)
    ('a\\x1b[2Jb\\u200e\\ud800\n', 'a\\nb')
    >>> printable("\U0001f469\u200d\U0001f680 a\u200db") == "\U0001f469\u200d\U0001f680 a\\u200db"
    True

    """
    return (UNPRINTABLE_IN_LINE if line else UNPRINTABLE).sub(lambda match: ascii(match[0])[1:-1], text)


def elide(text: str, limit: int) -> str:
    """Shorten the text to at most ``limit`` bytes of UTF-8 by removing its middle.

    >>> elide("/checkpoints/" + "x" * 100 + "/_metadata", 40)
    '/checkpoints/x[94 bytes]xxxxx/_metadata'
    """
    encoded = text.encode("utf-8", "backslashreplace")
    if len(encoded) <= limit:
        return text
    mark = f"[{len(encoded)} bytes]"
    room = max(limit - len(mark), 0)
    head, tail = encoded[: room // 2], encoded[len(encoded) - (room - room // 2) :]
    gap = f"[{len(encoded) - len(head) - len(tail)} bytes]"
    return head.decode("utf-8", "ignore") + gap + tail.decode("utf-8", "ignore")


def _redacted_match(match: re.Match[str]) -> str:
    kept = match[match.lastgroup] if match.lastgroup else ""
    return kept + SHOWN_INSTEAD + ("@" if match.lastgroup in ("url", "user") else "")


@functools.lru_cache(maxsize=4)
def _secrets_pattern(values: tuple[str | None, ...], key_file: tuple[str, int] | None) -> re.Pattern[str] | None:
    """Return a pattern for the secrets of this process in all their encodings; None if it has none."""
    named = values[: len(SECRET_VARIABLES)]
    secrets = {part for value in filter(None, named) for part in _parts_of(value)}
    for proxy in filter(None, values[len(named) :]):
        for user in re.findall(r"(?://|^)([^/@]+)@", proxy):
            secrets |= {user, user.partition(":")[2]}
    secrets |= set(_secrets_of_key_file(key_file[0])) if key_file else set()
    forms = {form for secret in secrets for form in _forms_of(secret) if len(secret) >= MIN_SECRET}
    if not forms:
        return None
    return re.compile("|".join(re.escape(form) for form in sorted(forms, key=len, reverse=True)))


def _parts_of(value: str) -> Iterator[str]:
    """Yield the value of a variable, and the secret ones among its named parts."""
    yield value.strip().removeprefix("?")
    for name, part in re.findall(r"(?:^|[?&;])([^=&;]{1,64})=([^&;]+)", value):
        if name.lower() in ("sig", "accountkey", "sharedaccesssignature"):
            yield part
            yield re.sub("%([0-9A-Fa-f]{2})", lambda match: chr(int(match[1], 16)), part)


def _forms_of(secret: str) -> Iterator[str]:
    yield secret
    for form in ("%{:02X}", "%{:02x}"):
        encoded = "".join(
            chr(byte) if byte in UNRESERVED else form.format(byte) for byte in secret.encode("utf-8", "surrogateescape")
        )
        yield encoded
        yield encoded.replace("%2F", "/").replace("%2f", "/")
    yield json.dumps(secret)[1:-1]


def _key_file() -> tuple[str, int] | None:
    """Return the path of Google's credentials file and its modification time."""
    path = os.environ.get(GOOGLE_KEY_FILE)
    if not path:
        return None
    try:
        return path, os.stat(path).st_mtime_ns
    except (OSError, ValueError):
        return path, 0


def _secrets_of_key_file(path: str) -> Iterator[str]:
    """Yield the secrets in the file, or in ``path`` itself if it holds the credentials instead of their path."""
    text = path
    if not path.lstrip().startswith("{"):
        try:
            # A named pipe must not block, and only a regular file has keys.
            with open(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
                data = file.read(MAX_KEY_FILE) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else b""
            text = data.decode("utf-8", "replace")
        except (OSError, ValueError):
            return
    for value in re.findall(rf"\"{_NAME}\"\s{{0,9}}:\s{{0,9}}\"((?:[^\"\\]|\\.)*)\"", text, re.IGNORECASE):
        yield value
        yield value.replace("\\n", "\n")
        yield from (line for line in re.split(r"\\n|\n", value) if len(line) >= 16)
