"""What Flink takes if a job says nothing, for modules that import little."""

#: The number of key groups (``KeyGroupRangeAssignment#DEFAULT_LOWER_BOUND_MAX_PARALLELISM``).
DEFAULT_MAX_PARALLELISM = 128
