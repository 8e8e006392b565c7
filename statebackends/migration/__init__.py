"""Migration of snapshots between Flink 1 and Flink 2: finds and rewrites values that a restore would misread.

The restore of a snapshot of Flink 1 by Flink 2 fails, or silently gives wrong values, where Kryo wrote them, and where
Flink 2 infers other serializers from the same classes. See ``README.md`` in this folder.
"""
