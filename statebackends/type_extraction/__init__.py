"""Type inference as in a job: the types that the ``TypeExtractor`` of a Flink release infers from Java classes."""

from __future__ import annotations

from pyspark_savepoint.statebackends.type_extraction.extractor import TypeExtractor as TypeExtractor
from pyspark_savepoint.statebackends.type_extraction.releases import ExtractionRelease as ExtractionRelease
