"""Jobs from the point of view of a restore: stream graphs, operator ids, and whether state finds its operator."""
