"""The best of all class names is chosen, by every level, and features are written for other tools."""
import json
import shutil

import numpy as np
import pytest
from PIL import Image

from hcma.data.labels import Classes
from hcma.errors import InputError
from hcma.evaluation.embed import embed
from hcma.evaluation.features import padded_block
from hcma.evaluation.tasks import Evaluation
from hcma.evaluation.zero_shot import by_class, class_scores, confusion, top, zero_shot_metrics
from helpers.packs import make_pack
from helpers.questions import save_aligned

NAMES, TEMPLATES = ['red', 'what', '红色'], ['a {}', '{}: red {}', 'no {}']
COLOURS = {'red': (255, 0, 0), '红色': (200, 40, 0)}


@pytest.fixture(scope='module')
def evaluation(make_recipe, tmp_path_factory):
    """A model that was never trained, with weights of both levels; its graphs compile for one batch size."""
    folder = tmp_path_factory.mktemp('zero_shot')
    model = {'image': {'size': [16, 24], 'stem': 'patchify', 'patch_size': 8, 'depth': 0}, 'text': {'depth': 0}}
    for name, colour in COLOURS.items():
        (folder / 'data' / name).mkdir(parents=True)
        for number in range(3):
            noise = np.random.default_rng(number).integers(0, 40, (9 + number, 20, 3))
            picture = Image.fromarray((noise + colour).clip(0, 255).astype(np.uint8))
            picture.save(folder / 'data' / name / f'{number}.png')
    (folder / 'data' / 'red' / 'broken.png').write_bytes(b'no')
    (folder / 'classes.txt').write_text('\n'.join(NAMES), encoding='utf-8')
    weights = {'weights': {'word_patch': 0.5}, 'batch_size': 4}
    return Evaluation(save_aligned(folder / 'run', make_recipe(model, evaluate=weights)))


def test_shares_of_right_classes():
    scores = np.array([[3, 1, 2, 0], [1, 2, 2, 0], [2, 3, 0, 0]], float)
    labels = np.array([0, 0, 1, 2])
    np.testing.assert_allclose(top(scores, labels, 1), [1, 0, 1 / 2, 1 / 3])
    np.testing.assert_allclose(top(scores, labels, 2), [1, 0, 1, 2 / 3])
    metrics = zero_shot_metrics(scores, labels)
    assert metrics == {'top1': 45.83, 'top5': None, 'mean_per_class': round(100 * (1 / 2 + 1 / 2 + 1 / 3) / 3, 2)}
    counts = confusion(scores, labels)
    assert counts.tolist() == [[1, 0, 1], [1, 0, 0], [1, 0, 0]]
    assert by_class('abc', counts)['a'] == {'images': 2, 'top1': 50.0, 'taken_for': 'c'}
    assert top(np.full((2, 1), np.nan), np.array([0]), 1) == 0.5, 'a broken model gets what guessing gets'


@pytest.mark.graph
def test_sentences_are_averaged_as_clip_does_and_other_levels_scores(evaluation):
    encoder = evaluation.encoder
    image = encoder.images(np.random.default_rng(0).integers(0, 256, (7, 16, 24, 3), dtype=np.uint8), 7)
    prompts = [[template.replace('{}', name) for template in TEMPLATES] for name in NAMES]
    scores = class_scores(encoder, image, prompts, np.array([1.0, 0.5]))
    for number, texts in enumerate(prompts):
        text = encoder.texts(texts)
        mean = text[0].mean(0)
        expected = encoder.scales[0] * image[0] @ (mean / np.linalg.norm(mean))
        np.testing.assert_allclose(scores[0, number], expected, atol=1e-4)
        every = encoder.score_block(padded_block(text, 0, 3), padded_block(image, 0, 7))
        np.testing.assert_allclose(scores[1, number], every[1].mean(0), atol=1e-4)
    assert not class_scores(encoder, image[:1], prompts, np.array([1.0, 0.0]))[1].any()


@pytest.mark.graph
def test_the_result_counts_every_picture_and_draws_the_confusions(evaluation, capsys):
    folder = evaluation.run_dir.parent
    result = evaluation.zero_shot(str(folder / 'data'), Classes(folder / 'classes.txt'), TEMPLATES)
    assert (result['images'], result['choices'], result['templates'], result['skipped']) == (6, 3, 3, 1)
    assert '1 of 7 pictures skipped' in capsys.readouterr().err
    assert list(result['levels']) == [*evaluation.encoder.levels, 'weighted']
    assert set(result['classes']) == {'red', '红色'}
    assert result['levels']['weighted'] == {key: result[key] for key in ('top1', 'top5', 'mean_per_class')}
    right = sum(row['images'] * row['top1'] for row in result['classes'].values()) / 6
    assert right == pytest.approx(result['top1'], abs=0.01)
    with Image.open(evaluation.run_dir / 'examples' / 'confusion.png') as picture:
        assert np.ptp(np.asarray(picture.convert('L'))) > 100


@pytest.mark.graph
def test_features_are_written_with_what_they_are_of(evaluation, tmp_path):
    source = tmp_path / 'pictures'
    shutil.copytree(evaluation.run_dir.parent / 'data' / 'red', source)
    (source / '1.txt').write_text('red\n红色\n', encoding='utf-8')
    about = embed(evaluation, str(source), tmp_path / 'out', half=True)
    images, texts = (np.load(tmp_path / 'out' / f'{kind}.npy', mmap_mode='r') for kind in ('images', 'texts'))
    assert (about['images'], about['texts'], about['rejected']) == (3, 2, 1)
    assert (images.shape, texts.shape, images.dtype) == ((3, 16), (2, 16), np.float16)
    np.testing.assert_allclose(np.linalg.norm(images, axis=1), 1, atol=1e-3)
    named, said, (reject,) = ([json.loads(line) for line in (tmp_path / 'out' / f'{kind}.jsonl').open(encoding='utf-8')]
                              for kind in ('images', 'texts', 'rejects'))
    assert [row['image'] for row in named] == ['1.png', '0.png', '2.png'] and reject['image'] == 'broken.png'
    assert said[1] == {'row': 1, 'image': 0, 'caption': '红色'}
    np.testing.assert_allclose(texts, evaluation.encoder.texts(['red', '红色'])[0], atol=1e-3)
    picture = evaluation.decoder.whole(np.asarray(Image.open(source / '1.png')))
    np.testing.assert_allclose(images[0], evaluation.encoder.images([picture], 1)[0][0], atol=1e-3)


@pytest.mark.graph
def test_a_packed_folder_is_embedded_too_and_nothing_is_written_of_nothing(evaluation, tmp_path):
    about = embed(evaluation, str(make_pack(tmp_path, count=5)), tmp_path / 'out')
    assert (about['images'], len(np.load(tmp_path / 'out' / 'texts.npy'))) == (5, about['texts'])
    (tmp_path / 'bad').mkdir()
    (tmp_path / 'bad' / 'a.png').write_bytes(b'no')
    with pytest.raises(InputError, match='bad: no picture can be read .the first: not an image'):
        embed(evaluation, str(tmp_path / 'bad'), tmp_path / 'none')
    assert not (tmp_path / 'none').exists()
