"""Verbs that look something up in all operators of a savepoint."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pyarrow as pa

from pyspark_savepoint.engines.face import Face, R, T
from pyspark_savepoint.formats.errors import OptionError, type_name


class Lookups(Face[R, T]):
    """Keys, wherever they have state."""

    def find_keys(self, keys: Collection[Any]) -> T:
        """Return where keys have state: one row per state, window and timer of each, in all operators.

        An operator is looked into if the type of its keys can hold a key: 1 is not "1". This process reads the state,
        with Spark too.

        Args:
            keys: The keys, as tables show them. Composite ones as lists or mappings of their fields.

        Returns:
            The operator, ``table``, ``state`` (of timers their service), and ``key``, ``window`` and ``value`` as JSON.
            ``note`` says why a table cannot be read.

        Raises:
            OptionError: If no operator can have any of the keys, or there are none.

        Example::

            sp.find_keys([1042, "user-1042"])

        """
        if isinstance(keys, str | bytes) or not isinstance(keys, Collection) or not keys:
            raise OptionError("keys are a list of at least one", found=type_name(keys), remedy="find_keys([1042])")
        from pyspark_savepoint.erasure.found_keys import SCHEMA, rows_of_keys

        rows = list(rows_of_keys(self.plan, self.options, self._read_path(), list(keys)))
        result: T = self._engine.shown(pa.Table.from_pylist(rows, SCHEMA))
        return result
