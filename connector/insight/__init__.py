"""What a snapshot adds up to: comparisons, checks, findings, metrics, the report and figures."""
