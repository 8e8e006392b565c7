"""Operators as users name them: by uid, by uid hash, or by an identifier."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark_savepoint.formats.errors import OptionError, SavepointError
from pyspark_savepoint.formats.metadata.identifiers import OperatorID, OperatorIdentifier

UID_HASH = re.compile(r"[0-9a-fA-F]{32}")
OperatorRef = str | OperatorIdentifier


@contextmanager
def with_requested_uid(named: object) -> Iterator[None]:
    """Put the uid by which an operator was asked for into errors, which name it by its hash if Flink 1 wrote it."""
    try:
        yield
    except SavepointError as error:
        uid = named.uid if isinstance(named, OperatorIdentifier) else named
        hashed = error.facts.get("operator")
        if isinstance(uid, str) and hashed is not None and hashed == OperatorID.from_uid(uid).hex:
            error.facts["operator"] = f"{uid} ({hashed})"
        raise


def operator_options(named: OperatorRef | None) -> dict[str, str]:
    """Return the option of the data source that names an operator. None for all operators."""
    if named is None:
        return {}
    identifier = identifier_of(named)
    return {"uid": identifier.uid} if identifier.uid is not None else {"uidHash": identifier.operator_id.hex}


def identifier_of(named: OperatorRef) -> OperatorIdentifier:
    """Return the identifier for a uid, or for a uid hash of 32 hex digits.

    A new operator's uid that looks like a hash must be given as an OperatorIdentifier.

    >>> print(identifier_of("my-uid"))
    uid 'my-uid' (8409efe6adc6d20787611f16017c808f)
    """
    if isinstance(named, OperatorIdentifier):
        return named
    if not isinstance(named, str):
        raise OptionError(
            "an operator must be given as its uid, its uid hash, or an OperatorIdentifier",
            found=f"{type(named).__name__}: {named!r:.100}",
            remedy="the operator is a string, such as 'accounts'; give options by name, such as top=10 or keys=[1]",
        )
    if not named.strip():
        raise OptionError(
            "an operator's uid must not be empty", found=repr(named), remedy="table 'metadata' lists the operators"
        )
    return OperatorIdentifier.for_uid_hash(named) if UID_HASH.fullmatch(named) else OperatorIdentifier.for_uid(named)
