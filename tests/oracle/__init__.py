"""Real Flink as the oracle: its files must be read here, and it must read the files written here."""
