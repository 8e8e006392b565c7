"""Lossless conversion of Kryo's values to objects and back, for Kryo 2 (Flink 1) and Kryo 5 (Flink 2).

serializer: KryoSerializer = ...                                    # of the snapshot
classes = DescribedClasses([ClassPath(["job.jar"])])                # class files are parsed, nothing is loaded
old = object_format(2, serializer.classes, classes)
new = object_format(5, serializer.classes, classes)
order, end = read_object(data, old)                                 # DamagedError, ForeignError(class, reason)
order.class_name, order.field("lines")                              # kryo_objects.py shows the content by class
elements_of(order.field("lines")), entries_of(order.field("counts"))  # to encode them with Flink's serializers
write_object(list_of([KryoObject(STRING, "a"), None]), new)         # the inverse: also map_of, set_of
convert_kryo(data, old, new)                                        # all of it; the whole of data is one value
"""

from __future__ import annotations

from pyspark_savepoint.formats.serializers.kryo.classes.described_classes import DescribedClasses as DescribedClasses
from pyspark_savepoint.formats.serializers.kryo.classes.jdk_classes import STRING as STRING
from pyspark_savepoint.formats.serializers.kryo.classes.jdk_classes import KryoObject as KryoObject
from pyspark_savepoint.formats.serializers.kryo.classes.jdk_classes import elements_of as elements_of
from pyspark_savepoint.formats.serializers.kryo.classes.jdk_classes import entries_of as entries_of
from pyspark_savepoint.formats.serializers.kryo.classes.jdk_classes import list_of as list_of
from pyspark_savepoint.formats.serializers.kryo.classes.jdk_classes import map_of as map_of
from pyspark_savepoint.formats.serializers.kryo.classes.jdk_classes import set_of as set_of
from pyspark_savepoint.formats.serializers.kryo.classes.kryo_streams import DamagedError as DamagedError
from pyspark_savepoint.formats.serializers.kryo.classes.kryo_streams import ForeignError as ForeignError
from pyspark_savepoint.formats.serializers.kryo.objects.conversion import class_names as class_names
from pyspark_savepoint.formats.serializers.kryo.objects.conversion import convert_kryo as convert_kryo
from pyspark_savepoint.formats.serializers.kryo.objects.conversion import object_format as object_format
from pyspark_savepoint.formats.serializers.kryo.objects.conversion import read_object as read_object
from pyspark_savepoint.formats.serializers.kryo.objects.conversion import read_whole as read_whole
from pyspark_savepoint.formats.serializers.kryo.objects.conversion import write_object as write_object
from pyspark_savepoint.formats.serializers.kryo.objects.direct_conversion import DirectConversion as DirectConversion
from pyspark_savepoint.formats.serializers.kryo.objects.object_format import ObjectFormat as ObjectFormat
