"""Base class of serializers without parameters whose values all have the same number of bytes."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import Longs
from pyspark_savepoint.formats.serializers.basic.primitives import SimpleSerializer
from pyspark_savepoint.formats.serializers.layout import Layout


@dataclass(frozen=True)
class FixedWidthSerializer(SimpleSerializer):
    """Serializer of values of ``width`` bytes, which is also ``getLength`` unless a subclass overrides ``length``."""

    @property
    @abstractmethod
    def width(self) -> int:
        """Bytes of every value."""

    @property
    def length(self) -> int:
        return self.width

    def layout(self, layout: Layout) -> int:
        from pyspark_savepoint.formats.kernels.values import skip

        return layout.add(skip.FIXED, self.width)

    def sizes(self, column: pa.Array) -> Longs:
        """Return the width for all rows, null ones included."""
        return np.full(len(column), self.width, np.int64)
