"""The step, the loop around it, and what a run leaves on disk."""
