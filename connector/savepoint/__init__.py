"""The class Savepoint: read, compare, change and check a snapshot."""
