"""State of sources and sinks: payloads that are opaque bytes to Flink, decoded to rows and encoded again.

How to add a connector, a module of ``sources`` or ``sinks``:

1. A class for the content of one payload, whose fields are declared with their encodings (``formats.structs``), or a
   record of plain values (``payloads.layouts``): both are read and written by the declaration. Texts are
   ``payloads.layouts.UTF``.
2. A :class:`~.payloads.kind.ConnectorKind`: its name, the table that shows it (``splits``, ``source_coordinator``,
   ``committables``, ``in_flight``), the operator states that hold it (none: the coordinator's state), ``framed``
   unless elements are not ``i32 n {i32 version, blob}``, the columns, ``decode`` and ``encode``
   (``payloads.layouts.payloads`` makes both of an encoding), ``rows``.
3. Raise ValueError or ``view.fail`` for bytes that the connector never writes: an unknown version, a count or marker
   out of range. Trailing bytes and bytes that are written back differently are refused by ``ConnectorKind.read``.
4. ``by_content=False`` if only option ``connector`` may choose it. A source and its coordinator are two kinds with the
   same name.
5. How splits are changed, a :class:`~.payloads.edits.SplitEdits`. What it cannot change, it refuses with the reason.
6. ``CONNECTORS``, the :class:`~.payloads.connector.Connector` of these kinds, with what pages say: ``registry`` finds
   it.

For the committables of a sink, ``sinks.committer.committer_kind`` is enough. Other
packages provide connectors through an entry point (``registry.plugged_connectors``).

"Layout from source code" in a module means that the layout follows the connector's source code, and that no file of a
real job was available to check it.
"""
