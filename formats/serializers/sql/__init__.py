"""Serializers of Table API and SQL: logical types and binary rows."""
