"""Serializers of PyFlink: its coders, the words that name them, and what bytes prove about them."""
