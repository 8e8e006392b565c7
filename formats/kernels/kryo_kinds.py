"""Kinds of Kryo's objects, and the columns of the tables that describe their classes: see ``kryo_values.py``."""

from __future__ import annotations

#: Kinds of objects. Those below CONTAINER consist of at most two numbers, and a ZonedDateTime of two more.
OTHER, INT, LONG, SHORT, BYTE, BOOLEAN, FLOAT, DOUBLE, CHAR, TEXT, UUID, ENUM = range(12)
MILLIS, SQL_TIME, SQL_TIMESTAMP, INSTANT, DATE, CLOCK, DATE_TIME, DURATION = range(12, 20)
ZONED, OFFSET_DATE_TIME, OFFSET_TIME, ZONE_OFFSET, PERIOD, YEAR_MONTH, MONTH_DAY = range(20, 27)
BIG_INTEGER, BIG_DECIMAL, BYTES = range(27, 30)
CONTAINER = 32
FIELDS, COLLECTION, NO_NULLS, MAP, OPTIONAL, AS_LIST, EMPTY, SINGLETON = range(32, 40)
#: How objects are read, where that is not their kind: numbers in fields, and containers.
FLAG, YEAR, REGION = range(64, 67)
#: Containers that are not read part by part.
RAW_TIMESTAMP, RAW_INSTANT, RAW_DATE, RAW_DATE_TIME, PRIMITIVES, BITS, ENUM_SET, NUMBER_OR_NOT = range(72, 80)
ARRAY, ENTRY, REFERENCE = range(88, 91)
VALUE, NULLABLE, SURE = 0, 1, 2
NULL_NODE = -1
#: Columns of the table of nodes, of the parts, and of the types.
KIND, PLAIN, FIRST, COUNT, CONSTANTS, READ, SORTED, GENERIC = range(8)
HOW, NODE, TYPE, RANK, KEY, KEY_SIZE = range(6)
ARGUMENTS, ARGUMENT_0, ARGUMENT_1, LAST, FINAL, OF_CLASS, BOUND = range(7)
#: Results of the kernels besides the next row, in ``state``: what is to be added to the tables.
DONE, NEW_NAME, NEW_ID, NO_ROOM, NEW_ZONE = range(5)
#: Places in ``state``, and how many there are.
WHAT, AT, SIZE, USED, TRUNCATES, OBJECTS, CLASSES, OUT, METADATA, STAMP, KEYS, YEARS = range(12)
STATE = 16
MAX_OPEN, MAX_NAMES = 40, 32
#: Limit on the keys of a variant, and of the entries of a map with text keys that are sorted here.
MAX_KEYS, MAX_ENTRIES = 2048, 512
SLOTS = 4096
#: Columns of a frame: what is read next of an open object.
LEFT, PART, OWNER, TURN, SPEC = 0, 1, 2, 3, 4
HAS_BOUND = 10
LEFT_TO_CALLER = -1
ID_LIMIT = 1 << 20
#: Bytes of a big number that are read here: it has fewer than 38 digits. The scales that are.
MAX_BIG, MAX_SCALE = 15, 1000
#: Objects that are not in the tree, in the list of objects that can be referred to: an offset, a zone, any other.
OFFSETS, ZONES, NOT_IN_TREE = 1 << 21, 1 << 40, -1
#: Years of which the offsets of a zone are looked up, and the longest name of a zone.
FIRST_YEAR, LAST_YEAR, MAX_ZONE = 2, 9998, 64
