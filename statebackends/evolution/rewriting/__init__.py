"""States of one plan as those of another: columns of Arrow, batch by batch. Nothing here knows a plan or a node."""
