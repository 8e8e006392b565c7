"""What may go wrong with a snapshot: findings with severity, evidence and remedy."""
