"""The tasks of tools/evaluate.py, each from a run and its data to the numbers in ``metrics.json`` and examples."""
import os
import sys

import numpy as np

from hcma import backend
from hcma.data.crops import Decoder
from hcma.data.labels import PLACE, read_labelled
from hcma.data.meta import read_meta
from hcma.data.pack import read_records
from hcma.data.pictures import pictures_of
from hcma.data.questions import require_some
from hcma.errors import InputError
from hcma.evaluation.choice import choice_margins, choice_metrics, load_pictures, read_choices
from hcma.evaluation.confusion import FILE, draw_confusion
from hcma.evaluation.examples import examples_file, write_choices, write_heat_maps, write_retrieved
from hcma.evaluation.features import Encoder, take
from hcma.evaluation.judgement import correlations, pair_scores, read_ratings
from hcma.evaluation.rerank import reranked
from hcma.evaluation.retrieval import retrieval, retrieval_counts, retrieval_metrics
from hcma.evaluation.twins import read_twins, twin_metrics, twin_scores
from hcma.evaluation.weights import best, grid, weightings
from hcma.evaluation.zero_shot import by_class, class_scores, confusion, needs_words, zero_shot_metrics
from hcma.recipe_io import load_recipe
from hcma.training.checkpoint import RECIPE, load_model, resolve_checkpoint
from hcma.training.run_folder import run_of


class Evaluation:
    """A trained model, ready to be evaluated; ``weights`` (levels,) of the weighted score come from the recipe.

    Examples go into the folder ``into``, the run itself by default.
    """

    def __init__(self, run_dir, into=None):
        backend.set_up('graph', load_recipe(resolve_checkpoint(run_dir) / RECIPE).device)
        self.run_dir = into or run_of(run_dir)
        model, self.recipe, tokenizer = load_model(run_dir)
        self.encoder = Encoder(model, self.recipe, tokenizer)
        self.decoder = Decoder(self.recipe.model.image.pixels, self.recipe.model.image.fit)
        self.weightings = weightings(model.terms, self.recipe.evaluate.weights)

    def fit_weights(self, data):
        """Choose the levels' weights that do best on validation ``data``: a packed data set or a JSONL of choices."""
        if os.path.isdir(data):
            candidates = grid(self.encoder.levels)
            metrics = retrieval(self.encoder, *_Pairs(self, data).features, candidates)
            self.weightings['weighted'][:len(self.encoder.levels)] = best(candidates, lambda name: sum(
                direction['r1'] for direction in metrics[name].values()))
        else:
            candidates = grid(self.encoder.terms)
            rows, pictures, _ = self._choices(data)
            metrics = choice_metrics(choice_margins(self.encoder, rows, pictures)[0], rows, candidates)
            self.weightings['weighted'] = best(candidates, lambda name: metrics[name]['macro'])

    def retrieval(self, data, limit=None):
        """Retrieval metrics over a packed data set, or its first ``limit`` images."""
        pairs = _Pairs(self, data, limit)
        known = len(self.encoder.levels)
        weightings = {name: weights[:known] for name, weights in self.weightings.items() if name != 'matching'}
        counts = retrieval_counts(self.encoder, *pairs.features, weightings)
        levels = retrieval_metrics(counts, weightings)
        decisive = levels['weighted']
        if 'matching' in self.encoder.terms:
            place = list(weightings).index('weighted')
            decisive = levels['reranked'] = reranked(
                self.encoder, *pairs.features, self.weightings['weighted'], self.recipe.evaluate.rerank,
                [direction[:, place] for direction in counts])
        if pairs.pictures:
            self._retrieval_examples(pairs)
        return {**decisive, 'levels': levels, 'images': len(pairs.image_group),
                'captions': len(pairs.captions), 'weights': self._named_weights()}

    def _retrieval_examples(self, pairs):
        first = pairs.first_captions()
        write_heat_maps(self.run_dir, self.encoder, pairs.pictures, [pairs.captions[row] for row in first],
                        take(pairs.text, first), pairs.image)
        shown = len(pairs.pictures)
        texts = np.flatnonzero(np.isin(pairs.text_group, pairs.image_group[:shown]))
        write_retrieved(self.run_dir, self.encoder, pairs.pictures, [pairs.captions[row] for row in texts],
                        take(pairs.text, texts), take(pairs.image, slice(shown)), pairs.text_group[texts],
                        pairs.image_group[:shown], self.weightings['weighted'][:len(self.encoder.levels)])

    def choice(self, path):
        """Accuracy of the choices in a JSONL, per type, for every level and the weighted score."""
        rows, pictures, skipped = self._choices(path)
        margins, right, wrong = choice_margins(self.encoder, rows, pictures)
        levels = choice_metrics(margins, rows, self.weightings)
        weights = self.weightings['weighted']
        write_choices(self.run_dir, rows, pictures, weights @ right, weights @ wrong)
        counts = {kind: sum(row['type'] == kind for row in rows) for kind in levels['weighted']['types']}
        return {**levels['weighted'], 'levels': levels, 'counts': counts, 'skipped': skipped,
                'weights': self._named_weights()}

    def judgement(self, path):
        """Rank correlations with the human ratings in a JSONL, for every level and the weighted score."""
        rated, rejects, pictures, row = pictures_of(*read_ratings(path), self.decoder)
        require_some(rated, rejects, path, 'rating')
        scores = pair_scores(self.encoder, rated, pictures, row)
        levels = {name: correlations(weights @ scores, rated) for name, weights in self.weightings.items()}
        return {**levels['weighted'], 'levels': levels, 'pairs': len(rated),
                'ratings': sum(len(item.ratings) for item in rated), 'skipped': len(rejects),
                'weights': self._named_weights()}

    def _choices(self, path):
        rows = read_choices(path)
        pictures = load_pictures(rows, os.path.dirname(path), self.decoder)
        usable = [row for row in rows if pictures[row['image']] is not None]
        _require_pictures(usable, rows, rows[0]['image'], path, 'choices')
        return usable, pictures, len(rows) - len(usable)

    def twins(self, path):
        """Text, image and group score of the pairs of twins in a JSONL, for every level and the weighted score."""
        rows = read_twins(path)
        pictures = load_pictures([{'image': name} for row in rows for name in row['images']], os.path.dirname(path),
                                 self.decoder)
        usable = [row for row in rows if all(pictures[name] is not None for name in row['images'])]
        _require_pictures(usable, rows, rows[0]['images'][0], path, 'pairs of twins')
        levels = twin_metrics(twin_scores(self.encoder, usable, pictures), self.weightings)
        return {**levels['weighted'], 'pairs': len(usable), 'levels': levels, 'skipped': len(rows) - len(usable),
                'weights': self._named_weights()}

    def zero_shot(self, path, classes, templates):
        """Accuracy of choosing among the ``Classes`` for the labelled pictures at ``path``, for every level that has a
        weight and the weighted score; ``templates`` are texts with a place for the name.
        """
        items, rejects = read_labelled(path, classes)
        usable, rejects, pictures, row = pictures_of(items, rejects, self.decoder)
        _require_pictures(usable, [*usable, *rejects], items[0].image, path, 'pictures')
        weights = self.weightings['weighted'][:len(self.encoder.levels)]
        if needs_words(self.encoder.levels, weights):
            image = self.encoder.images(pictures, len(pictures))
        else:
            image = np.concatenate([block[0] for block in self.encoder.image_blocks(pictures, len(pictures))]),
        prompts = [[template.replace(PLACE, name) for template in templates] for name in classes.names]
        scores = class_scores(self.encoder, image, prompts, weights)[:, :, row]
        labels = np.array([item.label for item in usable])
        decisive = np.tensordot(weights, scores, 1)
        levels = {level: zero_shot_metrics(scores[number], labels)
                  for number, level in enumerate(self.encoder.levels) if weights[number]}
        levels = levels if len(levels) > 1 else {}
        levels['weighted'] = zero_shot_metrics(decisive, labels)
        counts = confusion(decisive, labels)
        draw_confusion(examples_file(self.run_dir, FILE), counts, classes.names)
        return {**levels['weighted'], 'levels': levels, 'classes': by_class(classes.names, counts),
                'choices': len(classes.names), 'templates': len(templates), 'images': len(usable),
                'skipped': len(rejects), 'weights': self._named_weights()}

    def _named_weights(self):
        return {level: float(weight) for level, weight in zip(self.encoder.terms, self.weightings['weighted'])}


def _require_pictures(usable, rows, first, path, what):
    if not usable:
        raise InputError(f'{path}: none of its images can be read (the first: {first}); '
                         'their paths are relative to the file')
    if len(usable) < len(rows):
        print(f'{path}: {len(rows) - len(usable)} of {len(rows)} {what} skipped, their images cannot be read',
              file=sys.stderr)


class _Pairs:
    """All images and captions of a packed data set with their features and groups, and some pictures to show."""

    SHOWN = 200

    def __init__(self, evaluation, data, limit=None):
        count = min(read_meta(data)['images'], limit or sys.maxsize)
        self.pictures, self.captions, chunks, groups, owners = [], [], [], [], []
        encoder, decoder = evaluation.encoder, evaluation.decoder

        def rows():
            for record in read_records(data, range(count)):
                whole = decoder.decoded(record['image'])
                height, width = whole.shape[:2]
                view, picture = decoder.view(height, width), decoder.whole(whole)
                if len(self.pictures) < self.SHOWN:
                    self.pictures.append(picture)
                groups.append(record['group'])
                self.captions += record['captions']
                chunks.extend(record['chunks'].get(caption) for caption in record['captions'])
                owners.extend([record['group']] * len(record['captions']))
                yield picture, *encoder.regions(record['boxes'], view, height, width)

        self.image = encoder.images_with_boxes(rows(), count)
        self.text = encoder.texts(self.captions, chunks)
        self.image_group, self.text_group = np.array(groups), np.array(owners)

    @property
    def features(self):
        """What retrieval takes: features of captions and images, then their groups."""
        return self.text, self.image, self.text_group, self.image_group

    def first_captions(self):
        """The row of one caption for each of the first pictures."""
        return [int(np.flatnonzero(self.text_group == group)[0]) for group in self.image_group[:len(self.pictures)]]
