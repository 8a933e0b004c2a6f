"""The hierarchical loss: a weighted sum of one contrastive loss per level, and of the matching loss of a fusion."""
import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

from hcma.distributed import Ranks
from hcma.losses.blockwise import FLOATS, BlockwiseSigmoid, BlockwiseSoftmax
from hcma.losses.contrastive import info_nce, positives, sigmoid_loss, word_contrast
from hcma.losses.matching import BlockwiseHardNegatives, Matching
from hcma.models.attention import InPair
from hcma.models.levels import LevelScores


class HierarchicalLoss(nn.Cell):
    """``sum_k weight_k * contrast(score_k / temperature_k)`` of a model's levels (and matching), in float32.

    ``construct(image (T, H, W, 3) uint8, ids (T, L) int32, length (T,) int32, group (T, G) int64)`` gives the loss,
    a scalar, and the unweighted loss of each of the model's ``terms``, (terms,). As many more inputs as the text tower
    reads, of texts that are wrong for the images (length 0: none), add these as negatives. The towers read ``images``
    and ``texts`` inputs, where those are more than one and two. ``contrast`` is
    'softmax', with label ``smoothing``, or 'sigmoid'. Where the model has a ``log_variance`` s, the sum is of
    ``exp(-s_k) * loss_k + s_k`` (Kendall et al., 2018). A level whose scores would take more than ``floats`` numbers is
    computed block by block. With many ranks the inputs are this rank's pairs, T of the B of the batch, and the outputs
    its share: those of all ranks add up to the loss of the batch, and their gradients to its gradient. A rank scores
    its texts with all images, whose features are gathered.
    """

    def __init__(self, model, weights, seed=0, contrast='softmax', smoothing=0.0, floats=FLOATS,
                 images=1, texts=2):
        super().__init__(auto_prefix=False)
        self.model = model
        self.ranks = Ranks()
        self.images, self.texts = images, texts
        self.part_names = tuple(f'loss_{term}' for term in model.terms)
        self.weight = Tensor(np.array(weights, np.float32))
        # The places of words, mask and patches among the features for levels that contrast within pairs, else None.
        within = model.scores.kind == 'in_pair'
        self.in_pair = tuple(place if within else None for place in model.scores.places)
        # The places of the image features that are compared with all texts, of all ranks.
        self.compared = tuple(0 if place is None else place[2]
                              for place, within in zip(model.scores.places, self.in_pair) if within is None)
        self.within = InPair()
        self.pairs = LevelScores(model.levels, pairs=True, kind=model.scores.kind)
        self.contrast, self.smoothing = contrast, smoothing
        self.blockwise = nn.CellList([self._blockwise(place, floats) for place in model.scores.places])
        self.matching = self.hard_in_blocks = None
        if model.fusion is not None:
            self.matching = Matching(model.fusion, seed)
            scores = [one.score for one, place in zip(self.blockwise, self.in_pair) if place is None]
            self.hard_in_blocks = BlockwiseHardNegatives(self.matching.hard, scores, floats)

    def _blockwise(self, place, floats):
        score = self.model.scores.sentence_global if place is None else self.model.scores.local
        if self.contrast == 'sigmoid':
            return BlockwiseSigmoid(score, floats)
        return BlockwiseSoftmax(score, self.smoothing, floats)

    def construct(self, *columns):
        image, text, rest = self.split(columns)
        return self.of_features(self.model.text_tower(*text), self.model.image_tower(*image), *rest)

    def split(self, columns):
        """The inputs of the image tower, those of the text tower, and what ``of_features`` takes besides.

        Wrong texts follow the others, so that both are encoded at once.
        """
        image, rest = columns[:self.images], columns[self.images:]
        text, group_TG, negative = rest[:self.texts], rest[self.texts], rest[self.texts + 1:]
        if len(negative) == 0:
            return image, text, (group_TG,)
        texts = ()
        for own, wrong in zip(text, negative):
            texts = texts + (ops.concat((own, wrong)),)
        return image, texts, (group_TG, negative[1])

    def of_features(self, text, image, group_TG, negative_length_T=None):
        """The same of the towers' features, tuples; with ``negative_length`` the wrong texts follow the T texts."""
        negative, present_T = None, ops.zeros((group_TG.shape[0],), ms.float32)
        if negative_length_T is not None:
            text, negative = _split(text, group_TG.shape[0])
            present_T = ops.cast(negative_length_T > 0, ms.float32)
        wrong = None if negative is None else self.model.scaled(self.pairs(negative, image))
        group_BG, every = self.ranks.gather_ids(group_TG), self._of_all_ranks(image)
        losses, total_BB, in_blocks = (), None, self.ranks.count > 1
        for number in range(len(self.in_pair)):
            loss, score_BB = self._level(number, text, every, (group_TG, group_BG), wrong, present_T)
            losses = losses + (loss,)
            if score_BB is not None:
                total_BB = score_BB if total_BB is None else total_BB + score_BB
            elif self.in_pair[number] is None:
                in_blocks = True
        if self.matching is not None:
            if in_blocks:
                draws = self._drawn_in_blocks(text, every, group_TG, group_BG)
            else:
                positive_BB = positives(group_TG, group_BG)
                draws = self.matching.hard(ops.zeros_like(positive_BB) if total_BB is None else total_BB, positive_BB)
            losses = losses + (self._match(draws, text, image, negative, present_T),)
        by_term = ops.cast(ops.stack(losses), ms.float32)
        if self.model.log_variance is None:
            return (by_term * self.weight).sum(), by_term
        log_variance = ops.cast(self.model.log_variance, ms.float32)
        return (by_term * ops.exp(-log_variance) + log_variance / self.ranks.count).sum(), by_term

    def _of_all_ranks(self, image):
        """The image features with those of other ranks where they are compared with all texts, else as they are."""
        every = ()
        for place in range(len(image)):
            every = every + (self.ranks.gather(image[place]) if place in self.compared else image[place],)
        return every

    def _level(self, number, text, image, groups, wrong, present_T):
        """The loss of one level, and its scaled scores (B, B) where they are made as a whole and compare pairs."""
        scale, bias = self.model.line(number)
        place = self.in_pair[number]
        if place is not None:
            mask = text[place[1]]
            score_TLL = self.within(text[place[0]], image[place[2]]) * scale + bias
            return word_contrast(score_TLL, mask, self.ranks.total(mask.sum())), None
        text, mask, image = self._parts(number, text, image)
        blockwise = self.blockwise[number]
        if self.ranks.count > 1 or blockwise.size(text, image) < text.shape[0]:
            negative_T = ops.zeros((text.shape[0],), ms.float32) if wrong is None else wrong[number]
            return blockwise(text, mask, image, scale, bias, *groups, negative_T, present_T)[0], None
        score_BB, positive_BB = blockwise.score(text, mask, image) * scale + bias, positives(*groups)
        negative_T = None if wrong is None else wrong[number]
        if self.contrast == 'sigmoid':
            return sigmoid_loss(score_BB, positive_BB, negative_T, present_T), score_BB
        return info_nce(score_BB, positive_BB, negative_T, present_T, self.smoothing), score_BB

    def _parts(self, number, text, image):
        """Text, mask and image features of one level."""
        place = self.model.scores.places[number]
        if place is None:
            return text[0], ops.ones((text[0].shape[0], 1), ms.float32), image[0]
        return text[place[0]], text[place[1]], image[place[2]]

    def _drawn_in_blocks(self, text, image, group_TG, group_BG):
        texts, masks, images, scales, biases = (), (), (), (), ()
        for number in range(len(self.in_pair)):
            if self.in_pair[number] is None:
                parts, (scale, bias) = self._parts(number, text, image), self.model.line(number)
                texts, masks, images = texts + (parts[0],), masks + (parts[1],), images + (parts[2],)
                scales, biases = scales + (scale,), biases + (bias * ops.ones_like(scale),)
        return self.hard_in_blocks(group_TG, group_BG, scales, biases, texts, masks, images)

    def _match(self, draws, text, image, negative, present_T):
        fusion = self.model.fusion
        wrong = None if negative is None else fusion.text_parts(negative)
        return self.matching(fusion.text_parts(text), fusion.image_parts(image), draws, wrong, present_T)


def _split(text, batch):
    """The features of the first ``batch`` texts and of the rest."""
    first, rest = (), ()
    for feature in text:
        first, rest = first + (feature[:batch],), rest + (feature[batch:],)
    return first, rest
