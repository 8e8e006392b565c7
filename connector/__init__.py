"""Apache Flink savepoints and checkpoints as Spark tables.

``spark.read.format("savepoint")`` finds :class:`DefaultSource` in this package. Importing the package imports neither
Spark nor the codecs: each name of ``__init__.pyi`` is imported on first use (PEP 562). It lets Spark find the Python
that runs (:mod:`~pyspark_savepoint.options.own_python`).
"""

from __future__ import annotations

from pyspark_savepoint.options.own_python import prefer_this_python, warn_of_old_spark
from pyspark_savepoint.options.public_names import PublicNames
from pyspark_savepoint.options.release import __version__ as __version__

_names = PublicNames(__name__, f"{__file__}i", __spec__.loader.get_data)
__getattr__ = _names.value
__dir__ = _names.all

prefer_this_python()
warn_of_old_spark()
