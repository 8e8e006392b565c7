"""Who an operator is: sixteen bytes, printed as 32 hex digits.

::

    OperatorID := bytes(16)                              in print order
    from a uid  = MurmurHash3_x64_128(UTF-8 of the uid, seed 0)

Flink: ``OperatorID``, ``OperatorIdentifier``, ``StreamGraphHasherV2#generateUserSpecifiedHash``.
"""

from __future__ import annotations

from dataclasses import dataclass

import mmh3

from pyspark_savepoint.formats.data_view import DataInputView, DataOutputView
from pyspark_savepoint.formats.errors import OptionError

OPERATOR_ID_BYTES = 16


@dataclass(frozen=True, slots=True, order=True)
class OperatorID:
    """The id of an operator in a snapshot.

    >>> str(OperatorID.from_uid("my-uid"))
    '8409efe6adc6d20787611f16017c808f'
    """

    data: bytes

    def __post_init__(self) -> None:
        if len(self.data) != OPERATOR_ID_BYTES:
            raise ValueError(f"an operator id has {OPERATOR_ID_BYTES} bytes, not {len(self.data)}")

    @classmethod
    def from_uid(cls, uid: str) -> OperatorID:
        """The id that Flink gives to an operator with this uid."""
        return cls(mmh3.hash_bytes(_java_utf8(uid), 0, True))

    @classmethod
    def from_hex(cls, text: str) -> OperatorID:
        """The id that 32 hex digits stand for; OptionError for any other text."""
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
        """Sixteen bytes."""
        return cls(view.read(OPERATOR_ID_BYTES, "an operator id"))

    def write(self, out: DataOutputView) -> None:
        """Sixteen bytes."""
        out.write(self.data)

    @property
    def hex(self) -> str:
        """32 lower-case hex digits."""
        return self.data.hex()

    def __str__(self) -> str:
        return self.hex

    def __repr__(self) -> str:
        return f"OperatorID({self.hex})"


@dataclass(frozen=True, slots=True)
class OperatorIdentifier:
    """An operator as a user names it: by uid, or by the hash when there is no uid."""

    operator_id: OperatorID
    uid: str | None = None

    @classmethod
    def for_uid(cls, uid: str) -> OperatorIdentifier:
        """By the uid of the job's code."""
        return cls(OperatorID.from_uid(uid), uid)

    @classmethod
    def for_uid_hash(cls, uid_hash: str) -> OperatorIdentifier:
        """By 32 hex digits."""
        return cls(OperatorID.from_hex(uid_hash))

    def __str__(self) -> str:
        return f"uid {self.uid!r} ({self.operator_id})" if self.uid is not None else f"uid hash {self.operator_id}"


def _java_utf8(text: str) -> bytes:
    """UTF-8 as ``String.getBytes``: surrogate pairs are one character, an unpaired surrogate is ``?``."""
    joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return joined.encode("utf-8", "replace")
