"""Real Flink as the oracle: what it wrote must be read, what was written it must read."""
