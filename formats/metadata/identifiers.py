"""Identifiers of operators: 16 bytes, printed as 32 hex digits.

::

    OperatorID := bytes(16)                              in print order
    from a uid  = MurmurHash3_x64_128(UTF-8 of the uid, seed 0)

Flink: ``OperatorID``, ``OperatorIdentifier``, ``StreamGraphHasherV2#generateUserSpecifiedHash``.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import mmh3

from pyspark_savepoint.formats.data_view import DataInputView, DataOutputView
from pyspark_savepoint.formats.errors import OptionError

OPERATOR_ID_BYTES = 16


@dataclass(frozen=True, slots=True, order=True)
class OperatorID:
    """The id of an operator in a snapshot: 16 bytes.

    Flink: ``OperatorID``.

    >>> str(OperatorID.from_uid("my-uid"))
    '8409efe6adc6d20787611f16017c808f'
    """

    data: bytes

    def __post_init__(self) -> None:
        if len(self.data) != OPERATOR_ID_BYTES:
            raise ValueError(f"an operator id has {OPERATOR_ID_BYTES} bytes, not {len(self.data)}")

    @classmethod
    def from_uid(cls, uid: str) -> OperatorID:
        """Return the id that Flink derives from an operator's uid."""
        return cls(mmh3.hash_bytes(_java_utf8(uid), 0, True))

    @classmethod
    def from_hex(cls, text: str) -> OperatorID:
        """Return the id written as 32 hex digits; raise OptionError for any other text."""
        digits = text.strip()
        try:
            return cls(bytes.fromhex(digits) if digits.isalnum() else b"")
        except ValueError:
            raise OptionError(
                "a uid hash has 32 hex digits",
                found=repr(text),
                remedy="if this is the operator's uid, give it as option 'uid'",
            ) from None

    @classmethod
    def read(cls, view: DataInputView) -> OperatorID:
        """Read an id, 16 bytes."""
        return cls(view.read(OPERATOR_ID_BYTES, "an operator id"))

    def write(self, out: DataOutputView) -> None:
        """Write the id, 16 bytes."""
        out.write(self.data)

    @property
    def hex(self) -> str:
        """The id as 32 lower-case hex digits."""
        return self.data.hex()

    def __str__(self) -> str:
        return self.hex

    def __repr__(self) -> str:
        return f"OperatorID({self.hex})"


@dataclass(frozen=True, slots=True)
class OperatorIdentifier:
    """Identifier of an operator in the API: its uid, or the uid hash of an operator without uid.

    Identifiers of the same operator are equal, however they were made. Flink: ``OperatorIdentifier``.

    Example::

        savepoint.keyed_state(OperatorIdentifier.for_uid_hash("8409efe6adc6d20787611f16017c808f"))
    """

    operator_id: OperatorID
    uid: str | None = field(default=None, compare=False)

    @classmethod
    def for_uid(cls, uid: str) -> OperatorIdentifier:
        """Return the identifier of an operator with a uid.

        Flink: ``OperatorIdentifier#forUid``.

        Args:
            uid: The uid that the job's code sets.

        Returns:
            The identifier, which contains the uid and its hash.

        """
        return cls(OperatorID.from_uid(uid), uid)

    @classmethod
    def for_uid_hash(cls, uid_hash: str) -> OperatorIdentifier:
        """Return the identifier of an operator whose uid is unknown or not set.

        Flink: ``OperatorIdentifier#forUidHash``.

        Args:
            uid_hash: The id of the operator, 32 hex digits.

        Returns:
            The identifier.

        Raises:
            OptionError: If ``uid_hash`` is not 32 hex digits.

        """
        return cls(OperatorID.from_hex(uid_hash))

    def __str__(self) -> str:
        return f"uid {self.uid!r} ({self.operator_id})" if self.uid is not None else f"uid hash {self.operator_id}"


def _java_utf8(text: str) -> bytes:
    """Encode as ``String.getBytes`` does: a surrogate pair is one character, an unpaired surrogate becomes ``?``."""
    joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return joined.encode("utf-8", "replace")
