"""The records of a pack, made of pairs in row order."""
import collections
import hashlib
import json


class Records:
    """Makes the records in row order, and counts and fingerprints them on the way."""

    def __init__(self):
        self.images = self.captions = self.negatives = self.dropped = self.boxes = self.chunks = 0
        self.twins = collections.Counter()
        self.digest = hashlib.sha256()

    def add(self, pair, image):
        """Return the record of ``pair``; ``image`` has its ``jpeg`` bytes and its ``boxes`` as shares."""
        image_digest = hashlib.sha256(image.jpeg).digest()
        negatives = _false_of(pair)
        twin = self.images if pair.twin is None else _twin_id(pair)
        record = {'captions': as_json(pair.captions), 'row': self.images, 'group': _id_63(image_digest),
                  'negatives': as_json(negatives), 'twin': twin, 'boxes': as_json(image.boxes),
                  'chunks': as_json(_by_text(pair.chunks)), 'source': f'{pair.file}:{pair.lines[0]}'}
        self.digest.update(image_digest + as_json(record).encode('utf-8'))
        self.images += 1
        self.captions += len(pair.captions)
        self.negatives += len(negatives)
        self.dropped += len(pair.negatives) - len(negatives)
        self.boxes += len(image.boxes)
        self.chunks += len(pair.chunks)
        self.twins[twin] += 1
        return {'image': image.jpeg, **record}

    def twin_rows(self):
        """How many rows have a twin."""
        return sum(count for count in self.twins.values() if count > 1)


def _false_of(pair):
    """The negatives of ``pair`` that are none of its captions, whatever their case."""
    captions = {caption.lower() for caption in pair.captions}
    return [negative for negative in pair.negatives if negative.text.lower() not in captions]


def _by_text(chunks):
    """{text: its chunks as [start, end], in order}."""
    found = collections.defaultdict(list)
    for chunk in sorted(chunks):
        found[chunk.of].append([chunk.start, chunk.end])
    return found


def _twin_id(pair):
    return _id_63(hashlib.sha256(f'{pair.file}\0{pair.twin}'.encode('utf-8', 'backslashreplace')).digest())


def _id_63(digest):
    return int.from_bytes(digest[:8], 'big') >> 1  # 63 bits: never negative as int64


def as_json(value):
    """``value`` on one line, as it is stored."""
    return json.dumps(value, ensure_ascii=False)
