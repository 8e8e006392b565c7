"""Hot loops, compiled by numba: arrays in, arrays and a failing position out."""
