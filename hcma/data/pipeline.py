"""Packed pairs to fixed-shape batches, prefetched by MindSpore's C++ pipeline while the device computes."""
import functools
import hashlib
import json
import os
import sys

import mindspore.dataset as ds
import numpy as np

from hcma.data.captions import Captions, moved
from hcma.data.crops import Decoder, opened, random_view, sample_generator
from hcma.data.dropping import Dropping
from hcma.data.meta import read_meta, shard_paths
from hcma.data.pack import read_captions, read_twins
from hcma.data.perturb import Perturbation
from hcma.data.regions import Regions
from hcma.data.shards import row_places
from hcma.data.teaching import Seen
from hcma.data.twins import twin_groups, twin_order

_RECORD = ['image', 'captions', 'row', 'group']
AT_ONCE = 1 << 20  # rows that MindSpore is told at once: it holds a list of them, some 60 bytes each
CACHED_CAPTIONS = 1 << 18  # some 100 MB at most: the captions of most collections for a CPU


class TrainingBatches:
    """Epochs of batches ``image (B, H, W, 3) uint8, ids (B, L) int32, length (B,) int32, group (B, 2) int64``.

    Order, crop and caption of a sample depend on (seed, epoch, row) alone. Every epoch shuffles all pairs and drops
    the last incomplete batch. With ``ranks`` devices a batch is the rank's part of the global one, so all ranks
    together see what one would. ``group`` holds the ids of the image and of the caption.

    With ``data.negatives`` two columns more follow, ``negative_ids (B, L) int32, negative_length (B,) int32``: a
    caption that is false of the image, of length 0 where there is none. With ``data.twins`` twins come in one batch
    (see ``twin_order``). With ``train.drop_patches`` a column ``kept (B, K) int32`` after the pictures holds the
    patches that the encoder sees; with ``train.drop_words`` captions have fewer words (see ``dropping``). Where regions
    are boxes, a column ``boxes (B, R, 4) float32`` follows the pictures (see ``regions``); where phrases are chunks, a
    column ``spans (B, Q, 2) int32`` follows the lengths, those of wrong texts too (see ``captions``). What a
    ``teacher`` (see ``teaching``) reads of the same samples comes last.
    """

    def __init__(self, data_dir, recipe, tokenizer, rank=0, ranks=1, teacher=None):
        self.paths = shard_paths(data_dir)
        self.rows = read_meta(data_dir)['images']
        self.recipe, self.data, self.seed, self.train = recipe, recipe.data, recipe.seed, recipe.train
        self.rank, self.ranks, self.columns = rank, ranks, list(recipe.columns)
        self.teacher = teacher
        if teacher is not None:
            self.columns += teacher.columns
        self.dropping, self.regions = Dropping(recipe), Regions(recipe.model)
        recipe.train.require_shares(ranks)
        self.workers = usable_workers(recipe.data.workers)
        self.decoder = Decoder(recipe.model.image.pixels, recipe.model.image.fit)
        captions = Captions(recipe.model, tokenizer)
        wanted = {'negatives': self.data.negatives != 'none', 'boxes': self.regions.wanted, 'chunks': captions.wanted}
        reads = {} if teacher is None else teacher.reads
        self.read = _RECORD + [name for name in wanted if wanted[name] or reads.get(name)]
        self.encode = functools.lru_cache(CACHED_CAPTIONS)(captions.one)
        self.perturb = Perturbation(read_captions(data_dir)) if self.data.negatives == 'perturb' else None
        self.encode_negative = captions.one if self.perturb else self.encode  # those hardly ever come again
        self.groups = twin_groups(read_twins(data_dir)) if recipe.data.twins else None

    def epoch(self, number, start=0):
        """Iterate over the batches of epoch ``number`` from step ``start`` on, each a list of Tensors, one a column."""
        order = self.order(number).reshape(self.steps(number), self.ranks, -1)[start:, self.rank]
        steps = max(1, AT_ONCE // order.shape[1])
        for first in range(0, len(order), steps):
            rows = order[first:first + steps].reshape(-1)
            yield from self._batches(self.recipe.augmentation(number), rows, order.shape[1]).create_tuple_iterator(
                num_epochs=1)

    def samples(self, augmentation, rows):
        """Iterate over the samples of ``rows``, in order, as that augmentation draws them, each a tuple of arrays."""
        batches = self._batches(augmentation, rows, self.train.batch_size)
        for columns in batches.create_tuple_iterator(num_epochs=1, output_numpy=True):
            yield from zip(*columns)

    def size(self, epoch):
        """How many pairs are in a batch of that epoch, of all ranks together."""
        return self.train.batch_size_of(epoch)

    def steps(self, epoch):
        """How many batches that epoch has."""
        return self.rows // self.size(epoch)

    def order(self, number):
        """The rows of an epoch in the order in which they come, of all ranks together, (steps * size,)."""
        generator = np.random.default_rng((self.seed, number))
        size, steps = self.size(number), self.steps(number)
        if self.groups is not None:
            return twin_order(self.groups, steps, size, generator)
        return generator.permutation(self.rows)[:steps * size]

    def _batches(self, augmentation, order, size):
        ds.config.set_prefetch_size(self.data.prefetch)
        places = row_places(order, len(self.paths), self.rows)
        data = ds.MindDataset(self.paths, columns_list=self.read, sampler=ds.SubsetSampler(places),
                              num_parallel_workers=1)
        # With input_columns, MindSpore wants to see as many parameters: without, the call gets all of those read.
        return data.project(self.read).batch(size, per_batch_map=Batch(Sample(self, augmentation)),
                                             output_columns=self.columns, num_parallel_workers=self.workers)


class Batch:
    """The map operation: records, a list for each column, to the columns of a batch.

    One call for a batch: where MindSpore calls Python for every sample, that takes longer than the sample itself.
    """

    def __init__(self, sample):
        self.sample = sample

    def __call__(self, *columns_and_place):
        samples = [self.sample(*record) for record in zip(*columns_and_place[:-1])]
        return tuple(map(np.stack, zip(*samples)))


class Sample:
    """One record, arrays of its JPEG, of its lists as JSON and of numbers, to the columns of one training sample."""

    def __init__(self, batches, augmentation):
        self.data, self.seed, self.augmentation = batches.data, batches.recipe.sample_seed, augmentation
        self.decoder, self.encode = batches.decoder, batches.encode
        self.perturb, self.encode_negative = batches.perturb, batches.encode_negative
        self.dropping, self.regions, self.read = batches.dropping, batches.regions, batches.read
        self.teacher = batches.teacher

    def __call__(self, jpeg, *fields):
        record = dict(zip(self.read[1:], (field.item() for field in fields)))
        captions, chunks = json.loads(record['captions']), json.loads(record.get('chunks', '{}'))
        generator = sample_generator(self.seed, self.augmentation, record['row'])
        caption = captions[int(generator.integers(len(captions)))]
        image, data = opened(jpeg), self.data
        width, height = image.size
        view = random_view(height, width, generator, data.crop_area, data.crop_aspect, data.flip, self.decoder.pixels)
        # What follows is drawn last, so that pictures and captions are those of a run without it.
        texts = [self.encode(caption, _own(chunks, caption))]
        if 'negatives' in record:
            negative = self._negative(caption, captions, json.loads(record['negatives']), chunks, generator)
            texts.append(negative or _none(texts[0]))
        kept, texts = self.dropping(texts, generator)
        given = json.loads(record.get('boxes', '[]'))
        boxes = self.regions(given, view, height, width)
        group = np.array([record['group'], caption_group(caption)], np.int64)
        wrong = _apart(*texts) if 'negatives' in record else ()
        taught = ()
        if self.teacher is not None:
            taught = self.teacher(Seen(self.augmentation, record['row'], jpeg, height, width, view, caption,
                                       _own(chunks, caption), given))
        return (self.decoder.crop(image, view), *boxes, *kept, *texts[0], group, *wrong, *taught)

    def _negative(self, caption, captions, negatives, chunks, generator):
        """A wrong text as columns, or None."""
        if self.perturb:
            text = self.perturb(caption, captions, generator)
            return self.encode_negative(text, moved(_own(chunks, caption), caption, text)) if text else None
        worded_alike = [text for text, of in negatives if of == caption]
        texts = worded_alike or [text for text, _ in negatives]
        if not texts:
            return None
        text = texts[int(generator.integers(len(texts)))]
        return self.encode_negative(text, _own(chunks, text))


def _own(chunks, text):
    """The chunks of one text, which can be a key of a cache."""
    return tuple(map(tuple, chunks.get(text, ())))


def _none(text):
    """The columns of no text, which has no tokens."""
    return tuple([np.zeros_like(column) for column in text])


def _apart(own, wrong):
    """The wrong text, or none where it says the same: they may differ beyond the last token, or in what was dropped."""
    return _none(wrong) if np.array_equal(own[0], wrong[0]) else wrong


def caption_group(caption):
    """A 63-bit id that equal captions share, whatever their case."""
    return int.from_bytes(hashlib.blake2b(caption.lower().encode(), digest_size=8).digest(), 'big') >> 1


def usable_workers(wanted):
    """``wanted`` threads, but no more than there are cores: MindSpore refuses those."""
    cores = os.cpu_count() or 1
    if wanted > cores:
        print(f'data.workers: {wanted} is more than the {cores} cores; using {cores}', file=sys.stderr)
    return min(wanted, cores)
