"""Options of functions over records: sorting, state backend, object reuse."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.formats.metadata.key_groups import UPPER_BOUND_MAX_PARALLELISM
from pyspark_savepoint.options.option_fields import collect, table_of
from pyspark_savepoint.statebackends.processing.api.state import ObjectReuseMode
from pyspark_savepoint.statebackends.processing.operators.state_registry import BACKENDS
from pyspark_savepoint.statebackends.requests.table_options import choice, flag, option, size, whole_number
from pyspark_savepoint.statebackends.writing.planning.write_request import DEFAULT_SORT_MEMORY


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessingOptions:
    sorted: bool = option(
        flag, "records come in the order of their keys, one key at a time; `false`: as they arrive", True, "true"
    )
    presorted: bool = option(
        flag,
        "the DataFrame comes from `key_by` and `sortWithinPartitions` by its one key column (and then the timestamp): "
        "it is neither shuffled nor sorted again; without Spark, rows in that order",
        False,
        "false",
    )
    state_backend: str | None = option(
        choice(*BACKENDS),
        ", ".join(f"`{name}`" for name in BACKENDS),
        shown="`single_key`; `heap` if `sorted` is `false`",
    )
    object_reuse: str = option(
        choice(*(mode.value.casefold() for mode in ObjectReuseMode)),
        ", ".join(f"`{mode.value}`" for mode in ObjectReuseMode),
        "default",
        "`DEFAULT`",
    )
    sort_memory: int = option(
        size,
        "bytes of records that a task holds to sort them; more go to local disk",
        DEFAULT_SORT_MEMORY,
        f"{DEFAULT_SORT_MEMORY >> 20}m",
    )
    parallelism: int | None = option(
        whole_number(1, UPPER_BOUND_MAX_PARALLELISM),
        "number of tasks, and of subtasks",
        shown="that of `key_by`; without Spark 1",
    )
    max_parallelism: int | None = option(
        whole_number(1, UPPER_BOUND_MAX_PARALLELISM),
        "number of key groups of the operator, and so the largest number of subtasks",
        shown="that of the savepoint",
    )

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> Self:
        """Parse options, or raise one OptionError for all problems."""
        return cls(**collect(cls, options, _conflicts))

    @property
    def backend(self) -> str:
        return self.state_backend or ("single_key" if self.sorted else "heap")

    @property
    def reuse(self) -> ObjectReuseMode:
        return ObjectReuseMode(self.object_reuse.upper())


def processing_options_table() -> str:
    """Return all options as a Markdown table, for the README."""
    return table_of(ProcessingOptions)


def _conflicts(values: Mapping[str, Any]) -> list[str]:
    if values.get("sorted", True):
        return []
    problems = []
    if values.get("state_backend") == "single_key":
        problems.append("state backend 'single_key' holds one key at a time, so records must be sorted")
    if values.get("presorted"):
        problems.append("options 'sorted' (false) and 'presorted' contradict each other")
    return problems


#: Flink's options of batch execution (FLIP-140), with the options here and what ``false`` means for them.
OF_FLINK = {
    "execution.sorted-inputs.enabled": ("sorted", "false"),
    "execution.sorted-shuffles.enabled": ("sorted", "false"),
    "execution.batch-state-backend.enabled": ("stateBackend", "heap"),
}


def of_flink(options: Mapping[str, str]) -> dict[str, str]:
    """Replace Flink's options of batch execution by the options here.

    >>> of_flink({"execution.sorted-inputs.enabled": "false", "parallelism": "2"})
    {'sorted': 'false', 'parallelism': '2'}
    >>> of_flink({"execution.sorted-shuffles.enabled": "false", "execution.batch-state-backend.enabled": "false"})
    {'sorted': 'false', 'stateBackend': 'heap'}
    """
    translated = {}
    for name, text in options.items():
        if name not in OF_FLINK:
            translated[name] = text
            continue
        if text.casefold() not in ("true", "false"):
            raise OptionError(f"option {name!r} has a value that is not valid", expected="true or false", found=text)
        option, off = OF_FLINK[name]
        if text.casefold() == "false":
            translated[option] = off
        elif option == "sorted":
            translated[option] = "true"
    return translated


def merged(options: Mapping[str, str], more: Mapping[str, str]) -> dict[str, str]:
    """Merge two sets of options, of which the second takes precedence. Names are case-insensitive."""
    more = of_flink(more)
    names = {name.casefold() for name in more}
    return {**{name: text for name, text in options.items() if name.casefold() not in names}, **more}
