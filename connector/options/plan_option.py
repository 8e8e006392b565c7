"""Option ``plan``: requests of the fluent API to the data source beyond the options of users, as JSON.

    read   {"version": 1, "entries": {"states": [[name, is a timer] or null, ...], "keys": ..., ...}}
           {"version": 1, "compared": {"sides": [options of a read or null, the same], "states": [name, ...] or null}}
    write  {"version": 1, "write": {field of WriteRequest: value, ...}}; fields at their defaults are left out

``header`` is the base64 text of a stream's header as in a state file, ``fragment`` is ``token/name``, ``bases`` are the
options of reads of entries. It is data alone: nothing in it is executed, and a value of another type than its field's
is refused.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields, replace
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from pyspark_savepoint.formats.data_view import DataOutputView
from pyspark_savepoint.formats.errors import SavepointError
from pyspark_savepoint.formats.io.byte_source import InlineByteSource
from pyspark_savepoint.formats.keyed.meta_info import KeyedBackendHeader, OperatorBackendHeader, read_header
from pyspark_savepoint.formats.serializers.base import ClassDescriptions
from pyspark_savepoint.formats.serializers.registry import GivenSerializers
from pyspark_savepoint.statebackends.model.request import EntriesRequest
from pyspark_savepoint.statebackends.model.table_options import InvalidOptionValueError
from pyspark_savepoint.statebackends.writing.planning.write_request import ELEMENTS, WriteRequest, WriteSpec

VERSION = 1
FRAGMENT = re.compile(r"[a-z0-9]+/[a-z0-9]+")
#: Fields of a write that have another form in JSON, and fields that other options have.
HEADER, BASES, ELSEWHERE = "header", "bases", ("path", "overwrite", "drop", "retention", "serializers")


Texts = Mapping[str, str]
Header = KeyedBackendHeader | OperatorBackendHeader


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """What a read reads instead of a table: entries, or the differences of two sides."""

    entries: EntriesRequest | None = None
    compared: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class PlannedWrite:
    """A write without its path, which another option has, and the options of reads that it merges."""

    request: WriteRequest
    bases: tuple[Texts, ...] = ()

    def request_with(self, serializers: GivenSerializers | None) -> WriteRequest:
        """Return the request with the user's serializers, which read the header too."""
        request = replace(self.request, serializers=serializers)
        if serializers is None or request.header is None:
            return request
        from pyspark_savepoint.formats.serializers.kryo.described.job_classes import JobClasses

        view = DataOutputView()
        request.header.write(view)
        classes = JobClasses.of(serializers=serializers)
        return replace(request, header=_header(view.getvalue(), request.table, classes))


def read_plan(entries: EntriesRequest) -> str:
    """Return the option of a read of entries."""
    return json.dumps({"version": VERSION, "entries": asdict(entries)})


def comparison_plan(sides: Sequence[Texts | None], states: Sequence[str] | None) -> str:
    """Return the option of a read of differences."""
    return json.dumps({"version": VERSION, "compared": {"sides": sides, "states": states}})


def parse_read_plan(text: str) -> ReadPlan:
    """Parse the result of :func:`read_plan` or :func:`comparison_plan`."""
    try:
        if "compared" in _content(text, "entries", "compared"):
            given = _content(text, "compared")["compared"]
            sides = _converted(tuple[Texts | None, Texts | None], given["sides"])
            return ReadPlan(compared={"sides": sides, "states": _converted(tuple[str, ...] | None, given["states"])})
        given, hints = _content(text, "entries")["entries"], get_type_hints(EntriesRequest)
        return ReadPlan(EntriesRequest(**{name: _converted(hints[name], value) for name, value in given.items()}))
    except InvalidOptionValueError:
        raise
    except (ValueError, TypeError, KeyError, RecursionError):
        raise _refused() from None


def write_plan(spec: WriteSpec, fragment: str, header: Header | None, bases: Sequence[Texts] = ()) -> str:
    """Return the option of a write: rows as ``spec`` describes, to a fragment.

    ``header`` is that of entries or elements, ``bases`` the options that read others, which are merged with them.
    """
    values = asdict(spec)
    known = {option.name: option for option in fields(WriteSpec)}
    defaults = {
        name: option.default_factory() if option.default_factory is not MISSING else option.default
        for name, option in known.items()
    }
    given: dict[str, Any] = {
        name: value for name, value in values.items() if name not in ELSEWHERE and value != defaults[name]
    }
    given["fragment"] = fragment
    if header is not None:
        view = DataOutputView()
        header.write(view)
        given[HEADER] = base64.b64encode(view.getvalue()).decode("ascii")
    if bases:
        given[BASES] = [dict(base) for base in bases]
    return json.dumps({"version": VERSION, "write": given})


def parse_write_plan(text: str) -> PlannedWrite:
    """Parse the result of :func:`write_plan`."""
    try:
        given = dict(_content(text, "write")["write"])
        header = given.pop(HEADER, None)
        bases = _converted(tuple[Texts, ...], given.pop(BASES, []))
        hints = get_type_hints(WriteRequest)
        if any(name in ELSEWHERE for name in given):
            raise _refused()
        request = WriteRequest("", **{name: _converted(hints[name], value) for name, value in given.items()})
        if request.fragment is None or not FRAGMENT.fullmatch(request.fragment):
            raise _refused()
        if header is not None:
            request = replace(request, header=_header(_decoded(header), request.table))
        return PlannedWrite(request, bases)
    except InvalidOptionValueError:
        raise
    except (ValueError, TypeError, KeyError, RecursionError, SavepointError):
        raise _refused() from None


def _content(text: str, *kinds: str) -> dict[str, dict[str, Any]]:
    """Return the one of some kinds of plans that a text is, by kind."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        raise _refused() from None
    if not isinstance(content, dict) or "version" not in content:
        raise _refused()
    version = content.pop("version")
    if len(content) != 1 or not all(kind in kinds and isinstance(value, dict) for kind, value in content.items()):
        raise _refused()
    if type(version) is not int or version != VERSION:
        raise InvalidOptionValueError(
            f"version {VERSION}: driver and executors must have the same version of pyspark-savepoint"
        )
    return content


def _refused() -> InvalidOptionValueError:
    return InvalidOptionValueError("a plan from methods of Savepoint: users do not set this option")


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise _refused() from None


def _header(data: bytes, table: str, classes: ClassDescriptions | None = None) -> Header:
    """Return a header from its bytes; snapshots of serializers in it may be of the user's own classes."""
    source = InlineByteSource("option 'plan'", data, classes)
    if table == ELEMENTS:
        return read_header(OperatorBackendHeader, source, len(data))
    return read_header(KeyedBackendHeader, source, len(data))


def _converted(hint: Any, value: Any) -> Any:
    """Return a value of JSON as one of a field's type; raise ValueError for any other."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is UnionType:
        for part in arguments:
            try:
                return _converted(part, value)
            except ValueError:
                continue
        raise ValueError
    if origin is tuple and isinstance(value, list):
        kinds = [arguments[0]] * len(value) if arguments[-1] is Ellipsis else arguments
        return tuple(_converted(kind, part) for kind, part in zip(kinds, value, strict=True))
    if origin is Mapping and isinstance(value, dict):
        return {name: _converted(arguments[1], part) for name, part in value.items()}
    if hint is NoneType and value is None:
        return None
    if hint in (str, int, bool) and type(value) is hint:
        return value
    raise ValueError
