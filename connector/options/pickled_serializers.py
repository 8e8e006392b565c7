"""Option ``serializers``: serializers of the user as text, which Spark passes on with the other options.

They are code, as user functions are, and pickled as those are, by cloudpickle. A text is unpickled only in the
process that made it, and where Spark has brought it inside a data source (``engines/spark/spark_engine.py``) or a
task: never a text that somebody sets as an option, in SQL for instance, and never anything of a snapshot.
"""

from __future__ import annotations

import base64
import pickle
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache

import cloudpickle

from pyspark_savepoint.formats.errors import OptionError, UserFunctionError
from pyspark_savepoint.formats.serializers.registry import GivenSerializers, SerializerInput
from pyspark_savepoint.statebackends.requests.table_options import InvalidOptionValueError

#: Texts that this process has made, or that Spark has brought inside a pickled object.
_ACCEPTED: set[str] = set()


class PickledSerializers(GivenSerializers):
    """Serializers that are made from their text once in each process, wherever Spark sends them."""

    __slots__ = ()

    def __reduce__(self) -> tuple[Callable[[str], GivenSerializers], tuple[str]]:
        """Return how to make an equal object from the text."""
        return _restored, (str(self.identity),)


def _restored(text: str) -> GivenSerializers:
    accept([text])
    return serializers_of(text)


def accept(texts: Iterable[str]) -> None:
    """Let this process unpickle texts that Spark has brought inside a pickled object."""
    _ACCEPTED.update(texts)


def texts_in(options: Mapping[str, str]) -> tuple[str, ...]:
    """Return the texts of this process that occur in options, or in options nested in them."""
    return tuple(sorted(text for text in _ACCEPTED if any(text in value for value in options.values())))


def serializers_text(serializers: SerializerInput | str) -> str:
    """Return the text of serializers.

    Raise OptionError for what cannot be serializers, UserFunctionError for what cannot be pickled.
    """
    if isinstance(serializers, str):
        return serializers
    GivenSerializers(serializers, None)
    try:
        data = base64.b64encode(cloudpickle.dumps(serializers)).decode("ascii")
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise UserFunctionError(
            "a serializer cannot be pickled, so it cannot be sent to the tasks",
            function=f"{serializers!r:.200}",
            found=str(error)[:200],
            remedy="make it a dataclass of plain values",
        ) from None
    accept([data])
    return data


@lru_cache(maxsize=16)
def serializers_of(text: str) -> GivenSerializers:
    """Return the serializers of a text."""
    expected = "the argument 'serializers' of open(), Savepoint.load() or its tables: text cannot hold serializers"
    if text not in _ACCEPTED:
        raise InvalidOptionValueError(expected)
    try:
        given = cloudpickle.loads(base64.b64decode(text))
    except (pickle.UnpicklingError, AttributeError, ImportError) as error:
        raise InvalidOptionValueError(f"{expected}; {type(error).__name__}: {error}"[:500]) from None
    try:
        return PickledSerializers(given, text)
    except OptionError:
        raise InvalidOptionValueError(expected) from None
