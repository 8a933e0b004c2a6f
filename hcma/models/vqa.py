"""Visual question answering: a picture and a question to one score for each answer of a vocabulary.

The head works on the encoders' outputs, so any aligned model can carry it, whichever levels it was trained on.
"""
from mindspore import nn, ops

from hcma.models.layers import Init, LayerNorm, Linear, mean_of_words, softmax
from hcma.models.towers import Projection
from hcma.models.transformer import MLP, CrossAttention

# How sharply a word's context follows its cosines with the patches: about the inverse of a learned temperature.
SHARPNESS = 20.0
# What each head reads of the towers; the rest has no part in its training.
READS = {'word_patch': {'image': ('encoder', 'to_patch'), 'text': ('encoder', 'to_word')},
         'global': {'image': ('encoder', 'to_global'), 'text': ('encoder', 'to_sentence')},
         'question': {'image': (), 'text': ('encoder',)}}


class ImageFeatures(nn.Cell):
    """Pictures (B, H, W, 3) uint8 to the global feature, in row 0, and the patches: (B, 1 + P, D).

    One array, so that what a frozen encoder gives can be kept for every picture and fed like the pictures themselves.
    """

    def __init__(self, encoder):
        super().__init__(auto_prefix=False)
        self.encoder = encoder

    def construct(self, image_BHW3):
        patch_BPD, global_BD = self.encoder(image_BHW3)
        return ops.concat((ops.expand_dims(global_BD, 1), patch_BPD), 1)


class WordPatchJoin(nn.Cell):
    """Words (B, L, D), their mask (B, L), patches (B, P, D') and both projected (B, ., E) to one row (B, 4 D).

    The row holds means: of the words after a block in which they attend the patches, of the patches, and of what the
    words' cosines pick out of the picture, times the words and alone.
    """

    def __init__(self, config, init):
        super().__init__()
        text, image_width = config.text, config.image.width
        self.adapt = Linear(image_width, text.width, init, bias=False) if image_width != text.width else None
        self.word_norm, self.patch_norm, self.mlp_norm = (LayerNorm(text.width) for _ in range(3))
        self.attention = CrossAttention(text.width, text.heads, init)
        self.mlp = MLP(text.width, text.mlp_width, text.activation, init)
        self.cosine = ops.BatchMatMul(transpose_b=True)
        self.context = ops.BatchMatMul()
        self.softmax = softmax()

    def construct(self, word_BLD, mask_BL, patch_BPD, word_BLE, patch_BPE):
        if self.adapt is not None:
            flat = self.adapt(patch_BPD.reshape(-1, patch_BPD.shape[2]))
            patch_BPD = flat.reshape(patch_BPD.shape[:2] + (-1,))
        x = word_BLD + self.attention(self.word_norm(word_BLD), self.patch_norm(patch_BPD))[0]
        x = x + self.mlp(self.mlp_norm(x))
        context_BLD = self.context(self.softmax(SHARPNESS * self.cosine(word_BLE, patch_BPE)), patch_BPD)
        return ops.concat((mean_of_words(x, mask_BL), patch_BPD.mean(1),
                           mean_of_words(context_BLD * word_BLD, mask_BL), mean_of_words(context_BLD, mask_BL)), 1)


class AnswerMLP(nn.Cell):
    """(B, inputs) to (B, answers) through a layer norm and one hidden layer."""

    def __init__(self, inputs, hidden, answers, init):
        super().__init__()
        self.norm = LayerNorm(inputs)
        self.up, self.down = Linear(inputs, hidden, init), Linear(hidden, answers, init)

    def construct(self, x):
        return self.down(ops.relu(self.up(self.norm(x))))


class VQA(nn.Cell):
    """The encoders of an ``HCMA`` and a head: ``word_patch``, ``global`` (what flat CLIP has), or ``question`` alone.

    ``construct(image features (B, 1 + P, D) of ``ImageFeatures``, ids (B, L) int32, length (B,) int32)`` gives the
    scores of the answers (B, A). Whatever the head, it has as many parameters as ``word_patch`` with an MLP of
    ``hidden``.
    """

    def __init__(self, encoders, config, head, hidden, answers, seed):
        super().__init__()
        init = Init(seed)
        self.encoders, self.head = encoders, head
        self.to_word = self.to_patch = None  # the encoders' own, where their alignment had that level
        join = WordPatchJoin(config, init)
        inputs = {'word_patch': 4 * config.text.width, 'question': config.text.width,
                  'global': config.text.width + config.image.width + config.embed_width}
        if head == 'word_patch':
            self.join = join
            if encoders.text_tower.to_word is None:
                self.to_word = Projection(config.text.width, config.word_embed_width, init)
                self.to_patch = Projection(config.image.width, config.word_embed_width, init)
        else:
            size = _mlp_size(inputs['word_patch'], hidden, answers) + sum(p.size for p in join.get_parameters())
            hidden = (size - _mlp_size(inputs[head], 0, answers)) // (inputs[head] + 1 + answers)
        self.answer = AnswerMLP(inputs[head], hidden, answers, init)

    def construct(self, image_BND, ids_BL, length_B):
        word_BLD, mask_BL, sentence_BD = self.encoders.text_tower.encoder(ids_BL, length_B)
        if self.head == 'question':
            return self.answer(sentence_BD)
        if self.head == 'global':
            return self.answer(self._global(sentence_BD, image_BND[:, 0]))
        patch_BPD = image_BND[:, 1:]
        if self.to_word is None:
            word_BLE = self.encoders.text_tower.to_word(word_BLD)
            patch_BPE = self.encoders.image_tower.to_patch(patch_BPD)
        else:
            word_BLE, patch_BPE = self.to_word(word_BLD), self.to_patch(patch_BPD)
        return self.answer(self.join(word_BLD, mask_BL, patch_BPD, word_BLE, patch_BPE))

    def _global(self, sentence_BD, global_BD):
        sentence_BE = self.encoders.text_tower.to_sentence(sentence_BD)
        global_BE = self.encoders.image_tower.to_global(global_BD)
        # Entries of normalised rows are small: their product times E stands beside the features as an equal.
        product_BE = sentence_BE * global_BE * sentence_BE.shape[1]
        return ops.concat((sentence_BD, global_BD, product_BE), 1)

    def train_only(self, frozen):
        """Leave to training the head, and of each tower that is not ``frozen`` ('image', 'text') what the head reads.

        The parameters of the rest no longer require gradients, so no optimizer decays what the loss never touches.
        """
        for parameter in self.encoders.get_parameters():
            parameter.requires_grad = False
        for name, tower in (('image', self.encoders.image_tower), ('text', self.encoders.text_tower)):
            parts = [getattr(tower, part) for part in READS[self.head][name] if name not in frozen]
            for part in parts:
                if part is not None:
                    for parameter in part.get_parameters():
                        parameter.requires_grad = True


def _mlp_size(inputs, hidden, answers):
    return 2 * inputs + (inputs + 1) * hidden + (hidden + 1) * answers


def build_vqa(recipe, encoders, answers):
    """The model that the recipe's ``vqa`` section describes, for a vocabulary of ``answers`` answers."""
    section = recipe.vqa
    return VQA(encoders, recipe.model, section.head, section.width, answers, recipe.seed)
