"""What the tools/bench* scripts measure."""
