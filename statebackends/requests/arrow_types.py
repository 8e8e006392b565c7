"""What public methods return of pyarrow, for type checkers only: pyarrow has no types.

An attribute whose class has a base without types is unknown to pyright, since it could be a descriptor. So such
attributes are properties here, and the schema, which is an attribute of tables, has no base.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

    import pandas as pd
    import pyarrow as pa

    class ArrowType(pa.DataType):  # type: ignore[misc]
        """A ``pyarrow.DataType``."""

        id: int

    class ArrowField(pa.Field):  # type: ignore[misc]
        """A ``pyarrow.Field``."""

        name: str
        nullable: bool
        metadata: dict[bytes, bytes] | None

        @property
        def type(self) -> ArrowType: ...

    class ArrowSchema:
        """A ``pyarrow.Schema``."""

        names: list[str]
        types: list[ArrowType]
        metadata: dict[bytes, bytes] | None

        def __iter__(self) -> Iterator[ArrowField]: ...
        def __len__(self) -> int: ...
        def field(self, i: str | int) -> ArrowField: ...
        def get_field_index(self, name: str) -> int: ...

    class ArrowColumn(pa.ChunkedArray):  # type: ignore[misc]
        """A column: a ``pyarrow.ChunkedArray`` of a table, a ``pyarrow.Array`` of a batch."""

        null_count: int
        nbytes: int

        @property
        def type(self) -> ArrowType: ...
        def __len__(self) -> int: ...
        def to_pylist(self) -> list[object]: ...

    class ArrowBatch(pa.RecordBatch):  # type: ignore[misc]
        """A ``pyarrow.RecordBatch``."""

        num_rows: int
        num_columns: int
        nbytes: int
        column_names: list[str]
        schema: ArrowSchema

        def __len__(self) -> int: ...
        def column(self, i: str | int) -> ArrowColumn: ...
        def select(self, columns: list[str]) -> Self: ...
        def slice(self, offset: int = 0, length: int | None = None) -> Self: ...
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

        def __len__(self) -> int: ...
        def column(self, i: str | int) -> ArrowColumn: ...
        def select(self, columns: list[str]) -> Self: ...
        def slice(self, offset: int = 0, length: int | None = None) -> Self: ...
        def sort_by(self, sorting: str | list[tuple[str, str]]) -> Self: ...
        def to_batches(self) -> list[ArrowBatch]: ...
        def to_pydict(self) -> dict[str, list[object]]: ...
        def to_pylist(self) -> list[dict[str, object]]: ...
        def to_pandas(self) -> pd.DataFrame: ...
