"""State that is left out of reads because it is damaged: whole handles, key groups, and table files of databases.

A table file that cannot be read hides more than its entries: another file may have older values of the same keys, or
values that it deletes. All entries of its state between its smallest and its largest key are left out, whatever file
they are in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark_savepoint.statebackends.sources.changelog_source import ChangelogSource
from pyspark_savepoint.statebackends.sources.keyed_source import KeyedSource, RocksDBSource

if TYPE_CHECKING:
    from pyspark_savepoint.formats.metadata import OperatorState
    from pyspark_savepoint.statebackends.requests.request import EntriesRequest

AnyKeyedSource = KeyedSource | RocksDBSource | ChangelogSource


@dataclass(frozen=True)
class LostState:
    """Keyed state of one operator that cannot be read.

    ``subtasks`` have a handle that is left out as a whole, ``raw`` one of raw keyed state. ``key_groups`` are left out
    of the others. ``files`` are names of table files, each with the first key group of its database.
    """

    subtasks: tuple[int, ...] = ()
    raw: tuple[int, ...] = ()
    key_groups: tuple[int, ...] = ()
    files: tuple[tuple[int, str], ...] = ()

    @property
    def in_part(self) -> bool:
        """Return whether files stay that have lost state too, so that all keyed state must be written anew."""
        return bool(self.key_groups or self.files)

    def left_of(self, operator: OperatorState) -> OperatorState:
        """Return the operator without the handles that are left out."""
        subtasks = dict(operator.subtasks)
        for index in self.subtasks:
            if index in subtasks:
                subtasks[index] = replace(subtasks[index], managed_keyed_state=None)
        for index in self.raw:
            if index in subtasks:
                subtasks[index] = replace(subtasks[index], raw_keyed_state=None)
        return replace(operator, subtasks=subtasks)

    def without(self, sources: Sequence[AnyKeyedSource]) -> list[AnyKeyedSource]:
        """Return the sources without what is lost in them."""
        return [self._left(source) for source in sources]

    def _left(self, source: AnyKeyedSource) -> AnyKeyedSource:
        mine = frozenset(group for group in self.key_groups if group in source.key_group_range)
        if isinstance(source, RocksDBSource):
            names = frozenset(name for first, name in self.files if first == source.key_group_range.start)
            return replace(source, lost=names) if names else source
        return replace(source, lost=mine) if mine else source

    @classmethod
    def of(cls, request: EntriesRequest | None) -> LostState:
        """Return what a request for entries leaves out."""
        if request is None:
            return NOTHING
        return cls(request.lost_subtasks, request.lost_raw, request.lost_key_groups, request.lost_files)


#: Nothing is lost.
NOTHING = LostState()
