"""Avro: schemas and serializers."""
