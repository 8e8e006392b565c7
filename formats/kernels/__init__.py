"""Hot loops compiled by numba: they take arrays, fill arrays, and return a failing position."""
