"""Jobs as a restore sees them: stream graphs, operator ids, and whether state would find its operator."""
