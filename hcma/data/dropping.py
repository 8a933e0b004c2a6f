"""Leaving out patches and words in training: encoders see less and cost less, and learn not to lean on one detail.

Patches are dropped as in FLIP (Li et al., 2023). What is dropped is drawn with the sample, so both passes of a staged
step, and a resumed run, leave out the same.
"""
import numpy as np


class Dropping:
    """Draws what a sample keeps, as the recipe's ``train.drop_patches`` and ``train.drop_words`` say."""

    def __init__(self, recipe):
        self.patches, self.words = recipe.model.image.patches, recipe.train.drop_words
        self.kept = recipe.kept_patches if recipe.train.drop_patches else None

    def __call__(self, texts, generator):
        """A list of texts, columns as ``Captions`` gives, to a tuple of nothing or the kept patches (K,) int32, and the
        texts left.

        All texts of a sample lose the same places, so that a wrong text differs from the right one in few words still.
        """
        kept = ()
        if self.kept is not None:
            kept = (np.sort(generator.permutation(self.patches)[:self.kept]).astype(np.int32),)
        if self.words:
            dropped = generator.random(len(texts[0][0])) < self.words
            texts = [without(text, dropped) for text in texts]
        return kept, texts


def without(text, dropped):
    """The ids (L,), length and perhaps spans (Q, 2) of a text without the words at places where ``dropped`` (L,), begin
    and end kept; all words if none were left.
    """
    ids, length, *spans = text
    keep = ~dropped[:length]
    keep[[0, -1] if length else []] = True
    if keep.sum() <= 2:
        return text
    shorter = np.zeros_like(ids)
    shorter[:keep.sum()] = ids[:length][keep]
    before = np.append(0, np.cumsum(keep)).astype(np.int32)  # how many are left before each place
    return shorter, np.int32(keep.sum()), *(before[span] for span in spans)
