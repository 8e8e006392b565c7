"""Options of a JVM that lives for minutes, as those of tests do.

The compiler for hot code (C2) takes more of the processor than it saves there: tests with Spark take 0.6 times as much
without it. Benchmarks are measured with it.
"""

from __future__ import annotations

OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
#: Of ``PYSPARK_SUBMIT_ARGS``, which every process that starts Spark reads.
SUBMIT_ARGUMENTS = f'--conf "spark.driver.extraJavaOptions={" ".join(OPTIONS)}" pyspark-shell'
