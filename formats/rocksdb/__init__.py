"""RocksDB's files, read where they lie: RocksDB and ForSt snapshots are the files of a database."""
