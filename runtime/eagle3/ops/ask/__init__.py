"""A client for what was deployed: one question, and the answer as it comes."""
