"""Text notation of Flink types, parsed into serializers."""
