"""Kernels over the entries of keyed state: frames, blocks, keys, sorting, merging."""
