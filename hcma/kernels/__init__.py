"""CPU kernels of our own, compiled on first use where a compiler exists; everything works without them, slower."""
