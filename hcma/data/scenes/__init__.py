"""Generated scenes: small pictures of a few things, with captions, hard negatives and questions.

Seeded and free of any download; what a model must bind (colour to shape, order to place) is all there is to learn.
"""
from hcma.data.scenes.sample import Options, Sample, make_samples
from hcma.data.scenes.write import write_scenes

__all__ = ['Options', 'Sample', 'make_samples', 'write_scenes']
