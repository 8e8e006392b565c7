"""State backend for unsorted input that is larger than memory: entries in memory, then in RocksDB."""
