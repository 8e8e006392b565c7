"""Rewriting of values from one release to another: target serializers, and programs for keys, values and elements."""
