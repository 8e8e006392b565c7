"""Options from Spark: one dictionary of strings with keys in lower case. One error for all problems.

An option is a field of a frozen dataclass, declared by ``model.table_options.option``: the option's name is the field's
in camel case.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, fields
from functools import cache
from typing import Any

from pyspark_savepoint.formats.errors import OptionError, nearest
from pyspark_savepoint.formats.filesystems.filesystem import absolute
from pyspark_savepoint.formats.filesystems.storage_options import StorageOptions
from pyspark_savepoint.formats.json_text import parse_json
from pyspark_savepoint.formats.redaction import elide
from pyspark_savepoint.statebackends.requests.table_options import InvalidOptionValueError, text, typed

MAX_SECONDS = 10 * 365 * 86_400

NO_PATH = """no path is given: load() and save() need the path of a savepoint or checkpoint.
  Spark keeps no options of CREATE TABLE and saveAsTable: write by save(path), and read by load(path), a temporary view,
  or the table WITH (path = '...', uid = '...')"""

#: Environment variable that is set if Python works in a folder of the session, as on Spark Connect; its default.
OF_SESSION, EVERYBODYS = "SPARK_JOB_ARTIFACT_UUID", "default"

STORAGE_OPTIONS_DOC = (
    'settings of the object store as JSON, such as `{"endpoint": "http://host:9000"}`. Their names are below'
)
SERIALIZERS_DOC = (
    "serializers of the job's own, as an argument of the Python API: `serializers=[MoneySerializer(...)]`. They are "
    "code, so they cannot be given as text, for instance in SQL"
)

#: Maximum length of an invalid value in an error.
MAX_VALUE = 300


# -- kinds of values ----------------------------------------------------------------------------------------


@typed("Path")
def absolute_path(value: str) -> str:
    """Parse a path and make it absolute, since tasks have other working directories."""
    path = absolute(text(value))
    if path != value and not value.startswith(("/", "~")) and os.environ.get(OF_SESSION, EVERYBODYS) != EVERYBODYS:
        raise InvalidOptionValueError(
            "an absolute path or a URI: on Spark Connect a relative path is in a folder of the session on the server, "
            "which is deleted with the session"
        )
    return path


@typed("Path | Sequence[Path]")
def class_paths(value: str) -> tuple[str, ...]:
    """Parse paths separated by commas, or a JSON list of paths."""
    try:
        paths = parse_json(value) if value.lstrip().startswith("[") else value.split(",")
    except (ValueError, RecursionError):
        paths = [None]
    if not all(isinstance(path, str) and path.strip() for path in paths):
        raise InvalidOptionValueError("paths of jars and folders, separated by commas or as a JSON list")
    return tuple(absolute_path(path.strip()) for path in paths)


@typed("Mapping[str, object] | str")
def storage(value: str) -> str:
    """Parse storage options, as JSON."""
    StorageOptions.parse(value)
    return value


def seconds(value: str) -> int:
    """Parse a duration in the notation of Spark and Flink.

    >>> seconds("2h"), seconds("90"), seconds("0")
    (7200, 90, 0)
    """
    match = re.fullmatch(r"\s*([0-9]{1,9})\s*(s|m|min|h|d|)\s*", value.casefold())
    duration = int(match[1]) * {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400}[match[2]] if match else -1
    if not 0 <= duration <= MAX_SECONDS:
        raise InvalidOptionValueError("a time such as 90s, 30m, 2h or 1d")
    return duration


# -- fields -------------------------------------------------------------------------------------------------


@cache
def named(options: type) -> tuple[tuple[str, Field[Any]], ...]:
    """Return every option with its name in Spark, the field's in camel case. Those without default come first."""
    declared = [field for field in fields(options) if field.metadata]
    every = sorted(declared, key=lambda field: not is_required(field))
    words = [(option.name.split("_"), option) for option in every]
    return tuple((head + "".join(part.capitalize() for part in rest), option) for (head, *rest), option in words)


def is_required(option: Field[Any]) -> bool:
    """Return whether an option has no default."""
    return option.default is MISSING and option.default_factory is MISSING


def table_of(options: type) -> str:
    """Return all public options as a Markdown table, for the README."""
    rows = ["| option | default | meaning |", "| --- | --- | --- |"]
    rows += [
        f"| `{name}` | {option.metadata['default']} | {option.metadata['doc']} |"
        for name, option in named(options)
        if option.metadata["doc"]
    ]
    return "\n".join(rows)


# -- from Spark ---------------------------------------------------------------------------------------------


def collect(
    options: type,
    source: Mapping[str, str],
    conflicts: Callable[[Mapping[str, Any]], list[str]],
    complete: bool = True,
) -> dict[str, Any]:
    """Return the values of the given options, or raise one OptionError for all problems.

    ``complete``: required options must be there.
    """
    spelt = {key.lower(): key for key in source}
    texts = _without_catalog({key.lower(): value for key, value in source.items()})
    problems = list(_take_paths(texts))
    known = {name.lower(): (name, option) for name, option in named(options)}
    problems += [_unknown(spelt.get(key, key), options) for key in texts if key not in known]
    values: dict[str, Any] = {}
    for key, (name, option) in known.items():
        if key not in texts:
            continue
        try:
            values[option.name] = option.metadata["parse"](texts[key])
        except OptionError as error:
            problems.append("; ".join([error.message, *(str(fact) for fact in error.facts.values())]))
        except InvalidOptionValueError as refused:
            problems.append(f"option '{name}' is {elide(repr(texts[key]), MAX_VALUE)}, expected {refused}")
    # What an option that is refused anyway would need is no problem of its own.
    refused_names = [f"'{name}'" for key, (name, field) in known.items() if key in texts and field.name not in values]
    problems += [problem for problem in conflicts(values) if not any(name in problem for name in refused_names)]
    missing = [name for name, field in named(options) if is_required(field) and name.lower() not in texts]
    if complete and missing and "paths" not in spelt:
        problems.append(NO_PATH)
    if problems:
        raise _error(problems)
    return values


def given_names(options: type, values: Mapping[str, Any]) -> list[str]:
    """Return the names in Spark of the given options."""
    return [name for name, option in named(options) if option.name in values]


def listed(names: list[str]) -> str:
    """Join names for a sentence."""
    return " and ".join(f"'{name}'" for name in names)


def _without_catalog(texts: dict[str, str]) -> dict[str, str]:
    """Remove the catalog's properties, which CREATE TABLE adds along with each option as ``option.NAME``."""
    if "provider" not in texts:
        return texts
    return {key: value for key, value in texts.items() if key == "path" or f"option.{key}" in texts}


def _take_paths(texts: dict[str, str]) -> Iterator[str]:
    """Replace option ``paths``, the JSON list of ``load([a, b])``, by ``path``. Yield an error for several."""
    if "paths" not in texts:
        return
    written = texts.pop("paths")
    try:
        paths = parse_json(written)
    except (ValueError, RecursionError):
        paths = None
    if isinstance(paths, list) and len(paths) == 1 and isinstance(paths[0], str) and "path" not in texts:
        texts["path"] = paths[0]
        return
    yield f"load() takes one path, not {written}: load each snapshot by itself, and union the tables"


def _unknown(key: str, options: type) -> str:
    """Return a sentence that suggests names in the caller's spelling: of Spark's options, or of keyword arguments.

    A keyword argument whose name is right never comes here, so a right name in snake case is one of Spark's options.
    """
    elsewhere: Mapping[str, str] = getattr(options, "ELSEWHERE", {})
    if key.casefold() in elsewhere:
        return f"there is no option '{key}': {elsewhere[key.casefold()]}"
    documented = [(name, option.name) for name, option in named(options) if option.metadata["doc"]]
    keyword = "_" in key.strip("_") and key not in {snake for _, snake in documented}
    known = [snake if keyword else name for name, snake in documented]
    close = [name for name in nearest(key, known) if len(name) > 3 or len(key) <= 5]
    if not close:
        return f"there is no option '{key}'; options are {', '.join(known)}"
    return f"there is no option '{key}', did you mean {' or '.join(repr(name) for name in close)}?"


def _error(problems: list[str]) -> OptionError:
    if len(problems) == 1:
        return OptionError(problems[0])
    return OptionError(
        "\n".join([f"{len(problems)} things are wrong with the options:", *(f"  {p}" for p in problems)])
    )
