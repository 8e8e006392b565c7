"""Tables about a snapshot: its content (``states``), ``metadata``, ``snapshots``, and state that is only bytes.

states             one row per state: where it is, what it is, and the options that read it
metadata           one row per operator (FLIP-512's columns, and in-flight data of unaligned checkpoints)
snapshots          one row per snapshot below a folder
statements         the SQL that creates a database of the snapshot, and the SQL that drops it (see module statements)
coordinator_state  operator, value                        raw_operator_state   operator, subtask, name, value
master_state       name, version, value                   raw_keyed_state      operator, subtask, key_group, value
"""
