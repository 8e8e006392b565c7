"""Modes of object reuse (FLIP-21)."""

from __future__ import annotations

from enum import StrEnum


class ObjectReuseMode(StrEnum):
    """Whether user functions and state share objects.

    DEFAULT             every record is a new object, which is never copied
    COPY_PER_OPERATOR   every record and every state value is copied before it is handed over
    FULL_REUSE          one row object is refilled for every record; state copies it when it is stored

    Flink: ``ObjectReuseMode`` of FLIP-21.

    Example::

        transformation.set_object_reuse_mode(ObjectReuseMode.COPY_PER_OPERATOR)
    """

    DEFAULT = "DEFAULT"
    COPY_PER_OPERATOR = "COPY_PER_OPERATOR"
    FULL_REUSE = "FULL_REUSE"
