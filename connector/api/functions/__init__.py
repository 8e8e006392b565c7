"""Functions that make state, as Flink's State Processor API has them (FLIP-43)."""
