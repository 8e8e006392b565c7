"""Hot loops compiled by numba: they take arrays, fill arrays, and return a failing position.

::

    entries of keyed state   frames, keys, walk, sort, entry_table, changelog, sst
    values                   numbers, strings, binaryrow, skip
    values of Kryo           kryo_values, kryo_columns, kryo_bytes, kryo_times, kryo_kinds, kryo_collections
    of both                  load, hashing
    how kernels run          _jit, interpretation, object_code, code_folders, cache_folders
    how they are compiled    compiling
"""
