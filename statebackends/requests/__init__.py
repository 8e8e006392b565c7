"""What a read asks for: its table and options, independent of Spark and of the format."""
