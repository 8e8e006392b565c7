"""Types as a job infers them: what Flink's ``TypeExtractor`` of a release makes of a Java class."""

from __future__ import annotations

from pyspark_savepoint.statebackends.type_extraction.extractor import TypeExtractor as TypeExtractor
from pyspark_savepoint.statebackends.type_extraction.releases import Release as Release
