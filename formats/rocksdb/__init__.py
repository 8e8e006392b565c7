"""Files of RocksDB and ForSt snapshots, which are the files of a database, read without a database."""
