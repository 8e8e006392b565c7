"""Types as text: parsed into serializers."""
