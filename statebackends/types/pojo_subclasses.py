"""Subclasses of POJOs that a snapshot lacks, from the job's class files.

The hashmap backend writes with copies of its serializers, so that its snapshots lack subclasses that are not
registered, although values name them. Flink makes a serializer for such a subclass when it meets the first value; so
does :class:`ClassFileSubclasses`, for every subclass that can have objects. What a field has in common with one of the
superclass is read by the serializer of that field, which has the job's registrations.
Flink: ``PojoSerializer#createSubclassSerializer``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from pyspark_savepoint.formats.class_files import ClassPath, ClassType
from pyspark_savepoint.formats.errors import SavepointError
from pyspark_savepoint.formats.flink_releases import FIRST_METADATA_OF_FLINK_2, FLINK_VERSIONS
from pyspark_savepoint.formats.redaction import redacted
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.composite.optional_map import Member
from pyspark_savepoint.formats.serializers.composite.pojo import PojoSerializer
from pyspark_savepoint.formats.serializers.kryo.described.serializer import KryoSerializer
from pyspark_savepoint.statebackends.type_extraction.extractor import TypeExtractor
from pyspark_savepoint.statebackends.type_extraction.releases import ExtractionRelease
from pyspark_savepoint.statebackends.types.serializer_parts import with_parts

if TYPE_CHECKING:
    from pyspark_savepoint.formats.serializers.kryo.described.job_classes import JobClasses

#: Limits on subclasses: of subclasses in the fields of subclasses, and of all below one POJO.
MAX_DEPTH, MAX_SUBCLASSES = 4, 256


@redacted
@dataclass(frozen=True)
class ClassFileSubclasses:
    """Subclasses in jars and folders of class files, as the newest Flink 1 or Flink 2 infers their types."""

    paths: tuple[str, ...]
    flink_2: bool = False
    #: The POJOs around the one whose subclasses are asked for: a subclass may have fields of its superclass.
    around: tuple[str, ...] = ()

    def of_version(self, metadata_version: int) -> ClassFileSubclasses:
        """Return the same for the releases of Flink that write a version of ``_metadata``."""
        return replace(self, flink_2=metadata_version >= FIRST_METADATA_OF_FLINK_2)

    def below(self, pojo: PojoSerializer, job: JobClasses) -> tuple[Member, ...]:
        """Return the subclasses of a POJO that its serializer does not describe, each with its serializer.

        Args:
            pojo: The serializer; its fields are described already.
            job: The classes of the job, which describe generic types in the fields of the subclasses.

        Returns:
            One member per concrete class, in the order of their names; none for a class that cannot be inferred.

        """
        if pojo.class_name in self.around or len(self.around) >= MAX_DEPTH:
            return ()
        classes = _class_path(self.paths)
        above = classes.find(pojo.class_name)
        if above is None or above.is_final:
            return ()  # without a pass over all class files
        registered = {member.name for member in pojo.subclasses}
        names = [name for name in classes.subclasses(pojo.class_name) if name not in registered]
        nested = replace(job, subclasses=replace(self, around=(*self.around, pojo.class_name)))
        members: list[Member] = []
        for name in names[:MAX_SUBCLASSES]:
            described = classes.find(name)
            if described is None or described.is_abstract or described.is_interface:
                continue
            try:
                inferred = _extractor(self.paths, self.flink_2).of(ClassType(name))
            except SavepointError:
                continue  # a value of it is refused by the name of its class
            serializer = _alike(inferred, pojo, nested)
            if not serializer.opaque_parts():
                members.append(Member(name, b"", serializer))
        return tuple(members)


@lru_cache(maxsize=16)
def _class_path(paths: tuple[str, ...]) -> ClassPath:
    return ClassPath(paths)


@lru_cache(maxsize=16)
def _extractor(paths: tuple[str, ...], flink_2: bool) -> TypeExtractor:
    release = max(version for version in FLINK_VERSIONS if flink_2 or version < (2, 0))
    return TypeExtractor(ExtractionRelease(release), _class_path(paths))


def _alike(inferred: TypeSerializer, pojo: PojoSerializer, job: JobClasses) -> TypeSerializer:
    """Return an inferred serializer whose inherited fields are those of the superclass, and the others described."""
    if not isinstance(inferred, PojoSerializer):
        return _described(inferred, job)
    inherited: Mapping[tuple[str, bytes | None], Member] = {(field.name, field.key): field for field in pojo.fields}
    fields = []
    for field in inferred.fields:
        above = inherited.get((field.name, field.key))
        same = above is not None and _is_same(above.serializer, field.serializer)
        fields.append(
            above if above is not None and same else replace(field, serializer=_described(field.serializer, job))
        )
    return job.described(replace(inferred, fields=tuple(fields)))


def _is_same(one: TypeSerializer, other: TypeSerializer) -> bool:
    """Return whether two serializers are of one type, but for what a job registers."""
    if isinstance(one, PojoSerializer) and isinstance(other, PojoSerializer):
        return one.class_name == other.class_name
    if isinstance(one, KryoSerializer) and isinstance(other, KryoSerializer):
        return one.type_class == other.type_class
    return one.flink_type == other.flink_type


def _described(serializer: TypeSerializer, job: JobClasses) -> TypeSerializer:
    """Return a serializer whose generic types and POJOs, at any depth, are as the job's classes describe them."""
    return job.described(with_parts(serializer, lambda part, _: _described(part, job)))
