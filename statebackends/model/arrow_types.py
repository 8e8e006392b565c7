"""What public methods return of pyarrow, for type checkers only: pyarrow has no types."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    class ArrowSchema(pa.Schema):  # type: ignore[misc]
        """A ``pyarrow.Schema``."""

        names: list[str]

    class ArrowBatch(pa.RecordBatch):  # type: ignore[misc]
        """A ``pyarrow.RecordBatch``."""

        num_rows: int
        num_columns: int
        nbytes: int
        schema: ArrowSchema

        def to_pydict(self) -> dict[str, list[object]]: ...
        def to_pylist(self) -> list[dict[str, object]]: ...
        def to_pandas(self) -> pd.DataFrame: ...

    class ArrowTable(pa.Table):  # type: ignore[misc]
        """A ``pyarrow.Table``."""

        num_rows: int
        num_columns: int
        nbytes: int
        column_names: list[str]
        schema: ArrowSchema

        def to_batches(self) -> list[ArrowBatch]: ...
        def to_pydict(self) -> dict[str, list[object]]: ...
        def to_pylist(self) -> list[dict[str, object]]: ...
        def to_pandas(self) -> pd.DataFrame: ...
