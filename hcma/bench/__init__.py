"""What the tools/bench* scripts measure, and how recipes compare their runs."""
