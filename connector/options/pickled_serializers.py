"""Option ``serializers``: serializers of the user as text, which crosses Spark with the other options.

They are code, as user functions are, and pickled as those are, by cloudpickle. What is unpickled here is an option,
which the user's program sets: never anything of a snapshot.
"""

from __future__ import annotations

import base64
import hashlib
import pickle
from collections.abc import Callable
from functools import lru_cache

import cloudpickle

from pyspark_savepoint.formats.errors import OptionError, UserFunctionError
from pyspark_savepoint.formats.serializers.given_serializers import Given, GivenSerializers
from pyspark_savepoint.options.option_fields import InvalidOptionValueError


class PickledSerializers(GivenSerializers):
    """Serializers that are made from their text once in each process, wherever Spark sends them."""

    __slots__ = ()

    def __reduce__(self) -> tuple[Callable[[str], GivenSerializers], tuple[str]]:
        """Return how to make an equal object from the text."""
        return serializers_of, (str(self.identity),)


def serializers_text(given: Given | str) -> str:
    """Return the text of serializers.

    Raise OptionError for what cannot be serializers, UserFunctionError for what cannot be pickled.
    """
    if isinstance(given, str):
        return given
    GivenSerializers(given, None)
    try:
        data = base64.b64encode(cloudpickle.dumps(given)).decode("ascii")
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise UserFunctionError(
            "a serializer cannot be pickled, so it cannot be sent to the tasks",
            function=f"{given!r:.200}",
            found=str(error)[:200],
            remedy="make it a dataclass of plain values",
        ) from None
    return f"{_digest(data)}:{data}"


def _digest(data: str) -> str:
    return hashlib.sha256(data.encode("utf-8", "surrogatepass")).hexdigest()


@lru_cache(maxsize=16)
def serializers_of(text: str) -> GivenSerializers:
    """Return the serializers of a text."""
    expected = "what the argument 'serializers' of open(), Savepoint.load() and its tables makes of serializers"
    digest, _, data = text.partition(":")
    if digest != _digest(data):
        raise InvalidOptionValueError(expected)
    try:
        given = cloudpickle.loads(base64.b64decode(data))
    except (pickle.UnpicklingError, AttributeError, ImportError) as error:
        raise InvalidOptionValueError(f"{expected}; {type(error).__name__}: {error}"[:500]) from None
    try:
        return PickledSerializers(given, text)
    except OptionError:
        raise InvalidOptionValueError(expected) from None
