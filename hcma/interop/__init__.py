"""Weights of other projects to checkpoints of hcma and back."""
