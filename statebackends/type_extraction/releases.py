"""Differences between Flink releases in the types that they infer from the same class.

=======  ==========================================================================================
since    change
=======  ==========================================================================================
1.19     Java records are POJOs; before, Kryo's
2.0      fields of type List, Collection, Iterable, Map and Set whose arguments are classes without arguments have
         their own serializers; before, Kryo's
2.1      ``Variant`` has its own serializer
2.3      so has ``Bitmap``
=======  ==========================================================================================

``formats/flink_releases.py`` lists the releases.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark_savepoint.formats.flink_releases import Flink, parse_release

#: Value instead of a release: types are serializers as written.
DECLARED = "declared"


@dataclass(frozen=True, slots=True)
class ExtractionRelease:
    """Flink release, given by its first two numbers."""

    version: Flink

    @classmethod
    def parse(cls, text: str) -> ExtractionRelease:
        """Parse a release such as 2.2 or 1.20.5; raise OptionError for an unknown one.

        >>> str(ExtractionRelease.parse("1.20.5"))
        '1.20'
        """
        return cls(parse_release(text, None))

    def __str__(self) -> str:
        return f"{self.version[0]}.{self.version[1]}"

    @property
    def has_records(self) -> bool:
        """Return whether Java records are POJOs."""
        return self.version >= (1, 19)

    @property
    def has_collections(self) -> bool:
        """Return whether lists, maps and sets of plain classes have their own serializers."""
        return self.version >= (2, 0)

    @property
    def has_variant(self) -> bool:
        """Return whether ``Variant`` exists."""
        return self.version >= (2, 1)

    @property
    def has_bitmap(self) -> bool:
        """Return whether ``Bitmap`` exists."""
        return self.version >= (2, 3)
