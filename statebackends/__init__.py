"""What state means: tables, assignment of key groups, joins. No Spark here."""
