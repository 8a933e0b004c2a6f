"""The hierarchical loss: a weighted sum of one contrastive loss per level, and of the matching loss of a fusion."""
import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

from hcma.losses.contrastive import info_nce, positives, word_contrast
from hcma.losses.matching import Matching
from hcma.models.attention import InPair
from hcma.models.levels import LevelScores


class HierarchicalLoss(nn.Cell):
    """``sum_k weight_k * InfoNCE(score_k / temperature_k)`` of a model's levels (and matching), in float32.

    ``construct(image (B, S, S, 3) uint8, ids (B, L) int32, length (B,) int32, group (B, G) int64)`` gives the loss,
    a scalar, and the unweighted loss of each of the model's ``terms``, (terms,). Two more inputs, ids (B, L) and
    lengths (B,) of texts that are wrong for the images (length 0: none), add these as negatives. Where the model has a
    ``log_variance`` s, the sum is of ``exp(-s_k) * loss_k + s_k`` (Kendall et al., 2018).
    """

    def __init__(self, model, weights, seed=0):
        super().__init__(auto_prefix=False)
        self.model = model
        self.part_names = tuple(f'loss_{term}' for term in model.terms)
        self.weight = Tensor(np.array(weights, np.float32))
        # The places of words, mask and patches among the features for levels that contrast within pairs, else None.
        within = model.scores.kind == 'in_pair'
        self.in_pair = tuple(place if within else None for place in model.scores.places)
        self.within = InPair()
        self.pairs = LevelScores(model.levels, pairs=True, kind=model.scores.kind)
        self.matching = None if model.fusion is None else Matching(model.fusion, seed)

    def construct(self, image_BSS3, ids_BL, length_B, group_BG, negative_ids_BL=None, negative_length_B=None):
        positive_BB = positives(group_BG)
        image = self.model.image_tower(image_BSS3)
        text, negative, present_B = self._texts(ids_BL, length_B, negative_ids_BL, negative_length_B)
        scores = self._scores(text, image)
        losses = self._contrasts(scores, text, image, positive_BB, negative, present_B)
        if self.matching is not None:
            losses = losses + (self._match(scores, text, image, positive_BB, negative, present_B),)
        by_term = ops.cast(ops.stack(losses), ms.float32)
        if self.model.log_variance is None:
            return (by_term * self.weight).sum(), by_term
        log_variance = ops.cast(self.model.log_variance, ms.float32)
        return (by_term * ops.exp(-log_variance) + log_variance).sum(), by_term

    def _texts(self, ids_BL, length_B, negative_ids_BL, negative_length_B):
        """Features of the texts and of the wrong ones, encoded at once, and where there are wrong ones."""
        if negative_ids_BL is None:
            return self.model.text_tower(ids_BL, length_B), None, None
        batch = ids_BL.shape[0]
        both = self.model.text_tower(ops.concat((ids_BL, negative_ids_BL)), ops.concat((length_B, negative_length_B)))
        text, negative = (), ()
        for feature in both:
            text, negative = text + (feature[:batch],), negative + (feature[batch:],)
        return text, negative, ops.cast(negative_length_B > 0, ms.float32)

    def _scores(self, text, image):
        """The scaled scores (B, B) of every level; of one that contrasts within pairs, those of its words (B, L, L)."""
        scores = ()
        for number, place in enumerate(self.in_pair):
            if place is None:
                scores = scores + (self.model.scores.level(number, text, image),)
            else:
                scores = scores + (self.within(text[place[0]], image[place[2]]),)
        return self.model.scaled(scores)

    def _contrasts(self, scores, text, image, positive_BB, negative, present_B):
        wrong = None if negative is None else self.model.scaled(self.pairs(negative, image))
        losses = ()
        for number, place in enumerate(self.in_pair):
            if place is not None:
                losses = losses + (word_contrast(scores[number], text[place[1]]),)
            elif wrong is None:
                losses = losses + (info_nce(scores[number], positive_BB),)
            else:
                losses = losses + (info_nce(scores[number], positive_BB, wrong[number], present_B),)
        return losses

    def _match(self, scores, text, image, positive_BB, negative, present_B):
        fusion = self.model.fusion
        total_BB = ops.zeros_like(positive_BB)
        for number, place in enumerate(self.in_pair):
            if place is None:
                total_BB = total_BB + scores[number]
        wrong = None if negative is None else fusion.text_parts(negative)
        text, image = fusion.text_parts(text), fusion.image_parts(image)
        return self.matching(text, image, total_BB, positive_BB, wrong, present_B)
