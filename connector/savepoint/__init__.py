"""The class Savepoint: look into a snapshot, compare, change, check."""
