"""Kernels over values: numbers, strings, collections, and the ends of values."""
