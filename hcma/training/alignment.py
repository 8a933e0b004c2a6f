"""What an alignment run trains on and what it trains; and what all kinds of runs have in common."""
from hcma import distributed
from hcma.data.meta import read_meta, require_training_data
from hcma.data.pack import read_captions
from hcma.data.pipeline import TrainingBatches
from hcma.data.tokenizer import load_tokenizer, train_tokenizer
from hcma.losses.hierarchical import HierarchicalLoss
from hcma.models.hcma import build_model
from hcma.training.checkpoint import TOKENIZER, resolve_checkpoint
from hcma.training.start import start_from


class Task:
    """What is the same for most tasks; see ``hcma.training.tasks``."""
    files = {}

    def inputs(self, batch, clock):
        """What the step takes of a batch; time spent on it counts for a part of ``clock``."""
        return batch

    def summary(self):
        """What the metrics of the training say besides."""
        return {}


class Alignment(Task):
    """Images and captions of a packed data set, and the hierarchical loss."""
    name, text_name = 'alignment', 'captions'

    def __init__(self, recipe):
        require_training_data(recipe)
        self.recipe = recipe
        self.fingerprint = read_meta(recipe.data.train)['fingerprint']

    def load(self, newest):
        """Read the captions and set up the batches."""
        self.read(newest)
        self.batches = TrainingBatches(self.recipe.data.train, self.recipe, self.tokenizer, distributed.rank(),
                                       distributed.ranks())

    def read(self, newest):
        """Read the captions, and read or train their tokenizer."""
        self.starts_anew = newest is None
        self.texts = [caption for captions in read_captions(self.recipe.data.train) for caption in captions]
        self.tokenizer = self._tokenizer(newest)

    def _tokenizer(self, newest):
        text = self.recipe.model.text
        if newest is not None:
            return load_tokenizer(newest / TOKENIZER, text.length, **text.framing)
        if self.recipe.data.tokenizer is not None:
            return load_tokenizer(self.recipe.data.tokenizer, text.length, **text.framing)
        if self.recipe.model.weights is not None:  # its embeddings mean nothing under another tokenizer
            weights = resolve_checkpoint(self.recipe.model.weights)
            return load_tokenizer(weights / TOKENIZER, text.length, **text.framing)
        return train_tokenizer(self.texts, text.vocab_size, text.length, **text.framing)

    def network(self):
        """A fresh model in its loss, or one that starts from the weights that the recipe names."""
        network = alignment_network(self.recipe, self.tokenizer.vocab_size)
        if self.starts_anew and self.recipe.model.weights is not None:
            start_from(network.model, self.recipe, self.recipe.model.weights)
        return network


def alignment_network(recipe, vocab_size):
    """The model of ``recipe``, with weights drawn by its seed, in the hierarchical loss."""
    model = build_model(recipe, vocab_size)
    weights = [recipe.loss.weight(term) for term in model.terms]
    return HierarchicalLoss(model, weights, recipe.seed, recipe.loss.contrast, recipe.loss.label_smoothing,
                            images=len(recipe.image_columns), texts=len(recipe.text_columns))
