"""A SageMaker endpoint, piece by piece."""
