"""False captions from true ones: one word replaced by another that stands between the same neighbours elsewhere.

What may replace a word is read off the training captions alone. The place of a word is its neighbours: the word before
it and the word after, or, in scripts without spaces, the two characters before and the two after. The words that other
captions have in the same place may stand there, as often as they do there, so that a negative reads like a caption.
Left out are

- function words, which claim nothing (articles, forms of "be", particles);
- words that any caption of the same picture has in that place: they are true of it;
- words for the same thing (man and person, sofa and couch): where two captions of one picture have the same place,
  they have these two words in it about as often as chance would put them there, or more often.
"""
import collections
import itertools
import re

import numpy as np
from tqdm import tqdm

from hcma.errors import InputError

MOST_PICTURES = 100_000  # more are thinned out evenly: the table is to be built in seconds
# Of what chance would give: on Flickr8k red and blue reach 0.17 and man and woman 0.51, but in and on 0.61, big and
# large 1.4, street and road 10.
SAME_THING = 0.6
UNSPACED = r'\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff'  # kana and Han
CHARACTER = re.compile(f'[{UNSPACED}]')
PIECE = re.compile(rf"[{UNSPACED}]|[^\W{UNSPACED}]+(?:['’-][^\W{UNSPACED}]+)*|[^\w\s]")
FUNCTION_WORDS = frozenset(
    'a an the this that these those some and or but of to as so if is are was were be been being am has have had '
    'having do does did it its he him his she her they them their i we us our you your who which what there here '
    '的 了 着 过 地 得 是 有 和 与 及 或 而 也 都 很 就 把 被 之 其 这 那 些 个 只 条 张 位 名 件 吗 呢 吧 啊 は が を に で と も'.split())


class Perturbation:
    """Makes a negative of a caption, by a table from the training ``captions`` (a list of str for each picture).

    Raises ``InputError`` where those captions never have two words in the same place.
    """

    def __init__(self, captions):
        thinned = captions[::max(1, -(-len(captions) // MOST_PICTURES))]
        table, repeated = collections.defaultdict(collections.Counter), collections.defaultdict(list)
        for texts in tqdm(thinned, desc='perturbations', unit='image', delay=2, leave=False):
            for place, words in words_in_places(texts).items():
                table[place].update(dict.fromkeys(words, 1))  # no set: its order is not the same in every process
                if len(words) > 1:
                    repeated[place].append(words)
        self.table = {place: words for place, words in table.items() if len(words) > 1}
        self.same = same_things(repeated)
        if not self.table:
            raise InputError('data.negatives: is perturb, but no two words of the training captions stand between the '
                             'same neighbours; take data.negatives: data or none, or more captions')

    def __call__(self, caption, captions, generator):
        """``caption`` with one word replaced, or '' where none can be; ``captions`` are all those of its picture.

        Every word that can be replaced is as likely to be. ``generator`` is NumPy's.
        """
        true = words_in_places([caption, *captions])
        places = _places(caption)
        for number in generator.permutation(len(places)):
            (start, end), place = places[number]
            stand_ins = self._stand_ins(place, true[place])
            if stand_ins:
                word = _drawn(stand_ins, generator)
                if caption[start].isupper():
                    word = word[0].upper() + word[1:]
                return caption[:start] + word + caption[end:]
        return ''

    def _stand_ins(self, place, true):
        """{word: its pictures} of what is false in a place where the words ``true`` are true."""
        left_out = set(true).union(*(self.same.get(word, ()) for word in true))
        return {word: count for word, count in self.table.get(place, {}).items() if word not in left_out}


def words_in_places(captions):
    """{place: its words in lower case, those of each caption once}, function words left out."""
    found = collections.defaultdict(list)
    for caption in captions:
        for place, word in sorted({(place, caption[start:end].lower()) for (start, end), place in _places(caption)}):
            found[place].append(word)
    return found


def same_things(repeated):
    """{word: those for the same thing}; ``repeated`` is {place: the lists of words of each picture}.

    Two mentions in one picture are compared with two mentions drawn from all pictures that repeat the place.
    """
    together, expected = collections.Counter(), collections.Counter()
    for lists in repeated.values():
        together.update(pair for words in lists for pair in itertools.combinations(sorted(words), 2)
                        if pair[0] != pair[1])
    for lists in repeated.values():
        mentions = collections.Counter(word for words in lists for word in words)
        pairs = sum(len(words) * (len(words) - 1) / 2 for words in lists)
        rate = 2 * pairs / mentions.total() ** 2
        for pair in itertools.combinations(sorted(mentions), 2):
            if pair in together:
                expected[pair] += rate * mentions[pair[0]] * mentions[pair[1]]
    same = collections.defaultdict(set)
    for (one, other), count in together.items():
        if count > SAME_THING * expected[one, other]:
            same[one].add(other)
            same[other].add(one)
    return dict(same)


def _drawn(counts, generator):
    ends = np.cumsum(list(counts.values()))
    return list(counts)[int(np.searchsorted(ends, generator.integers(ends[-1]), 'right'))]


def _places(caption):
    """[((start, end), place)] of the words that claim something."""
    pieces = list(PIECE.finditer(caption))
    words = [piece[0].lower() for piece in pieces]
    return [(piece.span(), _place(words, number)) for number, piece in enumerate(pieces)
            if words[number][0].isalnum() and words[number] not in FUNCTION_WORDS]


def _place(words, number):
    reach = 2 if CHARACTER.match(words[number]) else 1
    return tuple(words[max(0, number - reach):number]), tuple(words[number + 1:number + 1 + reach])
