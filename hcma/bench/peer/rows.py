"""What is compared, what ought to come out, and the table of what did."""
import statistics
from typing import NamedTuple, Optional

TOLERANCE = 1e-4  # of a loss, for two sides that compute the same function


class Row(NamedTuple):
    """One line of the table: what ``measure`` is in the results of a job of ours and of one of the peer's.

    Less is better for all of them. ``goal`` is how much of the peer's ours may be.
    """
    label: str
    ours: tuple
    peer: tuple
    measure: str
    goal: Optional[float] = None


STEP, STAGED, CACHED = ('step', 'fused'), ('step', 'staged'), ('step', 'cached')
STEP_GOALS = {'small': 0.60, 'vit_b32': 0.75, 'vit_b16': 0.75}


def _by_group(preset):
    def loss(pairs, time=None, memory=None):
        job = ('contrast', pairs)
        return [Row(f'loss of {pairs:,} pairs', job, job, 'time', time),
                Row(f'memory of the loss of {pairs:,} pairs', job, job, 'memory', memory)]
    return {
        'step': [Row('train step, one graph', STEP, STEP, 'time', STEP_GOALS[preset]),
                 Row('memory of a train step', STEP, STEP, 'memory', 1.0),
                 Row('process start to first step', STEP, STEP, 'first', 3.0)],
        'staged': [Row('train step, staged', STAGED, STEP, 'time')],
        'cached': [Row('process start to first step, compile cache', CACHED, STEP, 'first', 1.2)],
        'encode': [Row('encode a batch of pictures', ('encode',), ('encode',), 'images', 0.75),
                   Row('encode a batch of texts', ('encode',), ('encode',), 'texts', 0.75)],
        'loss': loss(2048) + loss(8192, 0.45, 0.35) + loss(16384),
        'words': [Row('word–patch loss of 256 pairs', ('words', 256), ('words', 256), 'time'),
                  Row('memory of the word–patch loss', ('words', 256), ('words', 256), 'memory')],
        'loader': [Row('loader, photographs as they are', ('loader', 'whole'), ('loader', 'whole'), 'time', 0.5),
                   Row('loader, packed near the size that is read', ('loader', 'fitted'), ('loader', 'whole'), 'time',
                       0.5)],
        'tokenizer': [Row('tokenizer', ('tokenizer',), ('tokenizer',), 'time', 0.2)],
    }


GROUPS = tuple(_by_group('small'))


def rows_of(preset, group):
    """The rows that ``--rows GROUP`` asks for."""
    return _by_group(preset)[group]


def value(result, measure, clock):
    """A number of a job's result: seconds by that ``clock``, or bytes."""
    found = result[measure]
    return found[clock] if isinstance(found, dict) else found


def is_measured(row, rounds):
    """Whether both jobs of a row ended well in every round."""
    return all(('ours', row.ours) in one and ('peer', row.peer) in one for one in rounds)


def compare(row, rounds, clock):
    """{'ours', 'peer', 'ratio', 'low', 'high'} of a row: medians over rounds, and the spread of the rounds' ratios.

    A round holds {(side, job): result}; sides are 'ours' and 'peer'.
    """
    pairs = [(value(one['ours', row.ours], row.measure, clock), value(one['peer', row.peer], row.measure, clock))
             for one in rounds]
    ratios = [ours / peer for ours, peer in pairs]
    ours, peer = (statistics.median(side) for side in zip(*pairs))
    return {'ours': ours, 'peer': peer, 'ratio': statistics.median(ratios), 'low': min(ratios), 'high': max(ratios)}


def table(compared):
    """Markdown of [(row, what ``compare`` gave)]."""
    lines = ['| | ours | peer | ours / peer | over the rounds | goal | |', '|---|---|---|---|---|---|---|']
    for row, one in compared:
        goal, met = ('', '') if row.goal is None else (f'≤ {row.goal:.2f}', 'yes' if one['ratio'] <= row.goal else 'no')
        show = _bytes if row.measure == 'memory' else _seconds
        lines.append(f'| {row.label} | {show(one["ours"])} | {show(one["peer"])} | {one["ratio"]:.2f} | '
                     f'{one["low"]:.2f}–{one["high"]:.2f} | {goal} | {met} |')
    return '\n'.join(lines)


def _seconds(number):
    return f'{number:.2f} s' if number >= 10 else f'{1e3 * number:.1f} ms'


def _bytes(number):
    return f'{number / 2 ** 20:,.0f} MiB'


def differences(one_round):
    """[(what, difference)] of what both sides must agree on: losses of the same step, and counts of equal ids."""
    found = []
    for (side, job), result in one_round.items():
        if side != 'ours' or 'same' not in result:
            continue
        peer = one_round.get(('peer', STEP if job[0] == 'step' else job))
        if peer is not None and 'same' in peer:
            for name, own in result['same'].items():
                found.append((f'{" ".join(map(str, job))}: {name}', abs(own - peer['same'][name])))
    return found
