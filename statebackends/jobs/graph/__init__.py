"""Stream graphs of jobs: nodes, chaining and generated operator ids."""
