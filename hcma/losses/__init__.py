"""Losses over features and scores; like the models, they know nothing of files or devices."""
