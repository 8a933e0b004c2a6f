"""What 16 bits save on a card is counted by the plan, and losses are drawn of every seed."""
import json

from PIL import Image

from hcma.bench.mixed import counted, draw_losses


def test_the_clip_shapes_hold_at_most_60_percent_of_their_activations_in_16_bits_and_fit_larger_batches():
    rows = {line.split(',')[0]: line.split() for line in counted('bf16').splitlines()[1:]}
    assert rows.keys() == {'small', 'vit_b32', 'vit_b16'}
    assert all(int(rows[name][-3].rstrip('%')) <= 60 for name in ('vit_b32', 'vit_b16'))
    assert all(int(row[-1]) > int(row[-2]) for row in rows.values())


def test_losses_of_every_seed_are_drawn(tmp_path):
    for name in ('fp32_0', 'fp32_1', 'fp16_0'):
        (tmp_path / name).mkdir()
        lines = [json.dumps({'step': step, 'loss': 4 - step / 40}) for step in range(1, 41)]
        (tmp_path / name / 'log.jsonl').write_text('\n'.join(lines) + '\n')
    draw_losses({'fp32': [tmp_path / 'fp32_0', tmp_path / 'fp32_1'], 'fp16': [tmp_path / 'fp16_0']}, tmp_path / 'x.png')
    assert Image.open(tmp_path / 'x.png').size[0] > 400
