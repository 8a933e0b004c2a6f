"""Encoders and the scores between their features. Nothing here knows of files, recipes' origin or devices."""
