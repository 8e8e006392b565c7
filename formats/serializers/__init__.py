"""TypeSerializer snapshots and values: one class per serializer, both directions."""
