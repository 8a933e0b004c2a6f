"""hcma: hierarchical cross-modal alignment of text and images on MindSpore.

One legend of shape letters for the whole package: ``B`` batch, ``L`` words (tokens), ``P`` patches, ``H`` heads,
``D`` encoder width, ``E`` shared width. A name carries its shape where that helps: ``word_BLE``, ``score_BB``.
"""
__version__ = '0.1.0'


def load(run):
    """The trained model of a run or checkpoint, ready to use: see ``hcma.api.Aligned``."""
    from hcma.api import Aligned  # loads MindSpore, which the recipe alone does not need
    return Aligned(run)
