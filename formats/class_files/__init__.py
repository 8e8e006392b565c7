"""Content of compiled Java classes: names, fields, generic signatures, flags. No class is loaded or executed."""

from __future__ import annotations

from pyspark_savepoint.formats.class_files.class_file import JavaAnnotation as JavaAnnotation
from pyspark_savepoint.formats.class_files.class_file import JavaClass as JavaClass
from pyspark_savepoint.formats.class_files.class_file import JavaField as JavaField
from pyspark_savepoint.formats.class_files.class_file import JavaMethod as JavaMethod
from pyspark_savepoint.formats.class_files.class_file import parse_class as parse_class
from pyspark_savepoint.formats.class_files.class_path import ClassPath as ClassPath
from pyspark_savepoint.formats.class_files.class_path import expect_paths as expect_paths
from pyspark_savepoint.formats.class_files.java_types import ArrayType as ArrayType
from pyspark_savepoint.formats.class_files.java_types import ClassType as ClassType
from pyspark_savepoint.formats.class_files.java_types import JavaType as JavaType
from pyspark_savepoint.formats.class_files.java_types import PrimitiveType as PrimitiveType
from pyspark_savepoint.formats.class_files.java_types import TypeVariable as TypeVariable
from pyspark_savepoint.formats.class_files.java_types import Wildcard as Wildcard
from pyspark_savepoint.formats.class_files.java_types import parse_field_type as parse_field_type
