"""What verbs know of the savepoint that has them: its plan, its path and options, and the engine that reads it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NoReturn, Self, TypeVar

import pyarrow as pa

from pyspark_savepoint.formats.errors import OptionError, type_name
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.options.keywords import Names
from pyspark_savepoint.options.operators import OperatorRef, operator_options, with_requested_uid
from pyspark_savepoint.options.option_values import inheriting, to_options
from pyspark_savepoint.options.options import SavepointReadOptions
from pyspark_savepoint.options.paths import snapshot_path
from pyspark_savepoint.plan.engine import Engine
from pyspark_savepoint.plan.operator_plan import OperatorPlan
from pyspark_savepoint.plan.savepoint_plan import SavepointPlan
from pyspark_savepoint.plan.state_inputs import refuse_own
from pyspark_savepoint.text.helpful_names import HelpfulNames, verbs_of

#: Rows that users give, and tables that they get.
R = TypeVar("R")
T = TypeVar("T")
F = TypeVar("F", bound="Face[Any, Any]")


#: Verbs of tables in Spark's catalog.
WITH_SPARK = ("create_tables", "drop_tables")
TABLES_ARE_READ = "tables are read by keyed_state(uid), timers(uid), ... or table(name, uid); states() lists them"
#: What other libraries' names for it are here; LOOK is how rows are looked at.
NAMES_HERE = {
    "save": "write(path)",
    "sql": "create_tables(prefix) of Savepoint.load(spark, path), which makes tables for spark.sql",
    **dict.fromkeys(("operators", "uids", "show"), "states().LOOK, metadata().LOOK"),
}


class Face(HelpfulNames, Generic[R, T]):
    """A savepoint of one engine. Without a path, it is not written yet."""

    #: How a savepoint of this face is opened, for messages.
    _opening: str
    #: How rows of its tables are looked at.
    _looking: str
    #: Families of its verbs, by how they are reached.
    _families: ClassVar[Mapping[str, type]] = {}

    plan: SavepointPlan
    path: str | None
    options: Mapping[str, str]
    _engine: Engine

    if not TYPE_CHECKING:  # type checkers report a name that does not exist

        def __getattr__(self, name: str) -> NoReturn:
            """Raise AttributeError with what to use instead, or the class that has the other methods."""
            verbs = {verb: repr(verb) for verb in dir(type(self)) if verb[0] != "_"}
            verbs |= {
                verb: f"sp.{reached}.{verb}" for reached, family in self._families.items() for verb in verbs_of(family)
            }
            near = [verbs[verb] for verb in get_close_matches(name, verbs, n=1, cutoff=0.75)]
            near = [NAMES_HERE[name]] if name in NAMES_HERE else near
            instead = f"did you mean {near[0]}?" if near else TABLES_ARE_READ
            if name in WITH_SPARK:
                instead = "it needs Spark: Savepoint.load(spark, path)"
            raise AttributeError(
                f"{type(self).__name__!r} object has no attribute {name!r}; {instead.replace('LOOK', self._looking)}",
                name=name,
                obj=self,
            )

        def __getitem__(self, name: object) -> NoReturn:
            raise TypeError(f"a savepoint has no items; {TABLES_ARE_READ}")

    @abstractmethod
    def _planned(self, plan: SavepointPlan) -> Self:
        """Return the savepoint of another plan, which is not written yet."""

    @abstractmethod
    def _at(self, path: str, options: Mapping[str, str]) -> Self:
        """Return the savepoint at an absolute path."""

    def _changed(self, uid: OperatorRef, change: Callable[[OperatorPlan], OperatorPlan]) -> Self:
        """Return the savepoint with one operator changed. Nothing is written yet."""
        operator = self.plan.operator(uid)
        with with_requested_uid(uid):
            return self._planned(self.plan.with_changed(operator, change(operator)))

    def _read_path(self) -> str:
        """Return the path to read from, or raise OptionError if the savepoint is not written yet."""
        if self.path is None:
            raise OptionError(
                "this savepoint is not written yet, so it has no tables or state to read",
                remedy="call write(path), and read the savepoint that it returns",
            )
        return self.path

    def _snapshot(self) -> Snapshot:
        """Read ``_metadata``, or raise OptionError if the savepoint is not written yet."""
        parsed = SavepointReadOptions.parse({**self.options, "path": self._read_path()})
        return Snapshot.open(parsed.located, allow_outside=parsed.allow_outside, checksums=parsed.checksums)

    def _named(self, uid: OperatorRef | None) -> dict[str, str]:
        """Return the option that selects an operator, if one is given."""
        return operator_options(uid)

    def _of(
        self, table: str | None, uid: OperatorRef | None, options: Mapping[str, object], state: Names | None = None
    ) -> T:
        """Return a table of an operator, or of all, with one of its states, some or all."""
        own = {**to_options({"table": table} | ({} if state is None else {"state": state})), **self._named(uid)}
        texts = to_options(options)
        refuse_own(texts, own)
        return self._read({**texts, **own})

    def _read(self, texts: Mapping[str, str], folder: str | None = None) -> T:
        """Return the table that options choose, as users get it; of a folder if one is given."""
        path = self._read_path() if folder is None else folder
        with self._engine.explaining():
            table: T = self._engine.table({**inheriting(self.options, texts), "path": path})
        return table

    def _shown(self, table: pa.Table) -> T:
        """Return a small Arrow table as users get it."""
        result: T = self._engine.shown(table)
        return result

    def _other(self, other: Face[R, T] | str | PathLike[str]) -> Face[R, T]:
        """Return another savepoint. One that is given by its path is opened with the options of this one."""
        if isinstance(other, Face):
            return self._of_same_engine(other)
        return self._at(self._engine.located(snapshot_path(other)), self.options)

    def _of_same_engine(self, other: Face[R, T]) -> Face[R, T]:
        """Return another savepoint, or raise OptionError if another engine has its rows."""
        if type(other._engine) is not type(self._engine):
            raise OptionError(
                "the two savepoints were opened in different ways, with and without Spark",
                found=type_name(other),
                remedy=self._opening,
            )
        return other


# -- What other modules ask of a face, and users do not ---------------------------------------------------------


def engine_of(savepoint: Face[Any, Any]) -> Engine:
    """Return the engine that reads a savepoint."""
    return savepoint._engine


def path_of(savepoint: Face[Any, Any]) -> str:
    """Return the path to read from; raise OptionError if the savepoint is not written yet."""
    return savepoint._read_path()


def snapshot_of(savepoint: Face[Any, Any]) -> Snapshot:
    """Read ``_metadata``; raise OptionError if the savepoint is not written yet."""
    return savepoint._snapshot()


def operator_option(savepoint: Face[Any, Any], uid: OperatorRef | None) -> dict[str, str]:
    """Return the option that selects an operator of a savepoint, if one is given."""
    return savepoint._named(uid)


def table_of(savepoint: Face[Any, T], name: str, uid: OperatorRef | None = None, **options: object) -> T:
    """Return a table of a savepoint, as users get it."""
    return savepoint._of(name, uid, options)


def at_path(savepoint: F, path: str, options: Mapping[str, str]) -> F:
    """Return the savepoint at an absolute path, opened as another one."""
    return savepoint._at(path, options)


def with_plan(savepoint: F, plan: SavepointPlan) -> F:
    """Return the savepoint of another plan, which is not written yet."""
    return savepoint._planned(plan)


def changed(savepoint: F, uid: OperatorRef, change: Callable[[OperatorPlan], OperatorPlan]) -> F:
    """Return the savepoint with one operator changed. Nothing is written yet."""
    return savepoint._changed(uid, change)


def other_of(savepoint: Face[R, T], other: Face[R, T] | str | PathLike[str]) -> Face[R, T]:
    """Return another savepoint. One that is given by its path is opened with the options of this one."""
    return savepoint._other(other)


def of_same_engine(savepoint: Face[R, T], other: Face[R, T]) -> Face[R, T]:
    """Return another savepoint, or raise OptionError if another engine has its rows."""
    return savepoint._of_same_engine(other)


def as_user_table(savepoint: Face[Any, T], table: pa.Table) -> T:
    """Return a small Arrow table as users of the savepoint get tables."""
    return savepoint._shown(table)
