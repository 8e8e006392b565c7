"""Merge of the entries of several inputs, key group by key group, as bytes: what differs between two snapshots."""
