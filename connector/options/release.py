"""The version of this package: that of the tag from which it was built."""

try:
    from pyspark_savepoint.options._release import version as __version__
except ModuleNotFoundError:  # not built: imported from a checkout
    __version__ = "0+unknown"

__all__ = ["__version__"]
