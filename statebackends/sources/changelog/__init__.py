"""Changes of the changelog state backend: as columns, and their replay on materialized state."""
