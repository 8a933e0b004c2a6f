"""Token ids of captions put together from those of their words, each of which the tokenizer encodes once.

That gives the tokenizer's own ids where nothing that it does reaches over a space, which ``WordIds`` finds out from how
it normalises and cuts. Other tokenizers, and captions of which it is not sure, are encoded as a whole.
"""
import json
import re

from tokenizers import Regex, normalizers, pre_tokenizers

KNOWN = 1 << 16  # words that are kept at most, some 20 MB

CLIP_NORMALIZER = normalizers.Sequence([
    normalizers.NFC(), normalizers.Replace(Regex(r'\s+'), ' '), normalizers.Lowercase()])
CLIP_CUTS = pre_tokenizers.Sequence([
    pre_tokenizers.Split(Regex(r"""'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"""), 'removed',
                         invert=True),
    pre_tokenizers.ByteLevel(add_prefix_space=False)])
# A space makes a first word the same token as a later one; the byte level would put one before every character.
OWN_NORMALIZER = normalizers.Sequence([
    normalizers.NFC(), normalizers.Lowercase(), normalizers.Prepend(' '),
    normalizers.Replace(Regex(r'^ (?=\p{Han})'), '')])
# Chinese characters stand alone, as in BERT: there are no spaces to stop at, so tokens would grow into whole phrases of
# which the data has too few of each.
OWN_CUTS = pre_tokenizers.Sequence([
    pre_tokenizers.Split(Regex(r'\p{Han}'), 'isolated'), pre_tokenizers.ByteLevel(add_prefix_space=False)])
# Of the characters that BERT's normaliser puts between spaces, the most frequent.
_CHINESE = re.compile('[\u3400-\u4dbf\u4e00-\u9fff]|[^ \u3400-\u4dbf\u4e00-\u9fff]+')


class WordIds:
    """``word_ids(captions)``: what ``tokenizer.encode(caption, add_special_tokens=False).ids`` gives of each."""

    def __init__(self, tokenizer):
        self.tokenizer, self.known = tokenizer, {}
        manner = _state(tokenizer.normalizer), _state(tokenizer.pre_tokenizer)
        self.spaced = manner == (_state(OWN_NORMALIZER), _state(OWN_CUTS))  # words keep the space before them
        bert = [state.get('type') for state in manner] == ['BertNormalizer', 'BertPreTokenizer']
        self.chinese = bert and manner[0]['handle_chinese_chars']
        added = list(tokenizer.get_added_tokens_decoder().values())
        alone = not any(token.lstrip or token.rstrip or token.single_word for token in added)
        clip = manner == (_state(CLIP_NORMALIZER), _state(CLIP_CUTS))
        self.cuts = (self.spaced or bert or clip) and alone and not getattr(tokenizer.model, 'dropout', None)
        self.reaching = {token.content[0] for token in added if ' ' in token.content}

    def __call__(self, captions):
        found = [self._of_words(caption) for caption in captions]
        others = [caption for caption, ids in zip(captions, found) if ids is None]
        if others:
            encodings = iter(self.tokenizer.encode_batch(others, add_special_tokens=False))
            found = [next(encodings).ids if ids is None else ids for ids in found]
        return found

    def _of_words(self, caption):
        """The ids of a caption, or None where they may not be those of its words."""
        if not self.cuts or any(character in caption for character in self.reaching):
            return None
        words = _CHINESE.findall(caption) if self.chinese and not caption.isascii() else caption.split(' ')
        ids, known = [], self.known
        for word in words:
            own = known.get(word)
            if own is None:
                own = self._learnt(word)
                if own is None:
                    return None
            ids += own
        return ids

    def _learnt(self, word):
        # Two spaces make a token of their own, and a space before a Chinese character does.
        if self.spaced:
            normalised = self.tokenizer.normalizer.normalize_str(word)
            if word.split() != [word] or not normalised.startswith(' '):
                return None
        if len(self.known) >= KNOWN:
            self.known.clear()
        self.known[word] = ids = self.tokenizer.encode(word, add_special_tokens=False).ids
        return ids


def _state(part):
    return {} if part is None else json.loads(part.__getstate__())
