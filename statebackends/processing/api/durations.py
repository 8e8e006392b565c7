"""Durations: an int of milliseconds, or a timedelta of whole milliseconds."""

from __future__ import annotations

from datetime import timedelta

from pyspark_savepoint.formats.errors import OptionError

Duration = int | timedelta


def millis(duration: Duration) -> int:
    """Return a duration in whole milliseconds; raise OptionError if it is not one.

    >>> millis(timedelta(minutes=1)), millis(500)
    (60000, 500)
    """
    if isinstance(duration, timedelta):
        whole, rest = divmod(duration, timedelta(milliseconds=1))
        if rest:
            raise OptionError(f"{duration} is not a whole number of milliseconds")
        return whole
    if not isinstance(duration, int) or isinstance(duration, bool):
        raise OptionError(
            "this is not a duration",
            expected="a timedelta, or a number of milliseconds as an int",
            found=repr(duration),
        )
    return duration
