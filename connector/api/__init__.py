"""What users call: the verbs of both faces, the face without Spark, and functions."""
