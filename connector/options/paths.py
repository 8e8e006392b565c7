"""Absolute paths for all processes of a session.

The data source is planned by a process that the driver's JVM starts, in the JVM's working directory. Paths of Spark's
own sources are relative to it, too. From there on a path is absolute. The user's Python may have changed its working
directory since (``%cd``), and tasks have others. So ``Savepoint`` makes its paths absolute as the JVM would. On Connect
the data source is planned in a temporary folder of the session, and rejects relative paths
(``option_fields.absolute_path``). Those of ``Savepoint`` are relative to the working directory of the user's Python.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any

from pyspark_savepoint.formats.errors import OptionError, type_name
from pyspark_savepoint.formats.filesystems.filesystem import absolute
from pyspark_savepoint.formats.filesystems.storage_options import OPTION, StoragePath
from pyspark_savepoint.formats.json_text import parse_json

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TYPES_FROM = "typesFrom"


def located(spark: SparkSession, path: str | PathLike[str]) -> str:
    """Return the absolute form of a user's path."""
    return absolute(path_text(path), _working_directory(spark))


def path_text(path: object) -> str:
    """Return a path as text, or raise OptionError if it is not a path."""
    text = os.fspath(path) if isinstance(path, str | PathLike) else None
    if not isinstance(text, str):
        raise OptionError(
            "a path must be a string or a pathlib.Path", found=type_name(path), remedy="name a folder or a URI"
        )
    return text


def snapshot_path(path: object) -> str:
    """Return the path of a snapshot as text, or raise OptionError if it is empty: no path means none."""
    text = path_text(path)
    if not text.strip():
        raise OptionError("a path must not be empty", found=repr(text), remedy="name a folder or a URI")
    return text


def reached(path: str, options: Mapping[str, str]) -> str:
    """Return a path with its storage options."""
    return StoragePath.of(path, options.get(OPTION))


def located_types(located: Callable[[str], str], options: Mapping[str, str]) -> dict[str, str]:
    """Return the options, with absolute paths in ``typesFrom``, as a function makes them."""
    given = options.get(TYPES_FROM, "")
    try:
        listed = parse_json(given) if given.lstrip().startswith("[") else [given]
    except ValueError:
        return dict(options)  # the error is raised when options are parsed
    paths = []
    for text in map(str, listed):
        path, mark, operator = text.partition("#")
        paths.append(located(path) + mark + operator)
    return {**options, TYPES_FROM: paths[0] if len(paths) == 1 else json.dumps(paths)} if given else dict(options)


def _working_directory(spark: SparkSession) -> str | None:
    """Return the working directory of the driver's JVM. None on Connect."""
    if not hasattr(spark, "_jsparkSession"):
        return None
    jvm: Any = spark.sparkContext._jvm  # the JVM has no public name
    return str(jvm.java.lang.System.getProperty("user.dir"))
