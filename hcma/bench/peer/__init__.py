"""The same work by hcma and by a peer: PyTorch, transformers or open_clip; ``tools/bench.py`` compares them."""
