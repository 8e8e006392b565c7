"""Risks in a snapshot: findings with severity, evidence and remedy."""
