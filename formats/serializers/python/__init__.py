"""Serializers of PyFlink: its coders, and the notation of their types."""
