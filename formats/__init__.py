"""What bytes are: the formats of Flink snapshots. No Spark here."""
