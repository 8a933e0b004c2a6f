"""The generated scenes that recipes train on."""
from hcma.data.meta import META
from hcma.data.scenes import write_scenes
from hcma.data.sources import read_pairs


def draw_and_pack(out, **options):
    """Scenes in ``out``/scenes, train and test packed in ``out``/data, unless they are there; see ``write_scenes``."""
    scenes, data = out / 'scenes', out / 'data'
    if not (scenes / 'choices_test.jsonl').exists():  # of all files the last
        write_scenes(scenes, **options)
    for split in ('train', 'test'):
        if not (data / split / META).exists():
            from hcma.data.pack import pack  # loads MindSpore
            data.mkdir(exist_ok=True)
            pairs, rejects = read_pairs(scenes / f'{split}.jsonl', 'jsonl')
            pack(pairs, data / split, rejects, f'{split}.jsonl')
