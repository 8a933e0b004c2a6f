"""What the model does with single pictures: heat maps, retrieved pairs, fine-grained choices."""
import difflib
import re

from hcma.report import heatmaps
from hcma.report.markup import figure_of, how_to_read, missing, node, number, section, subheading
from hcma.report.pictures import jpeg_address
from hcma.report.results import EVALUATE_CHOICE, EVALUATE_RETRIEVAL
from hcma.report.run_files import COSINE, list_of_dicts

MOST_HEATMAPS = 12
MOST_QUERIES = 12   # of each direction
MOST_CHOICES = 12   # right ones, and as many wrong ones
PIECE = re.compile(r'[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|\w+|\s+|.', re.DOTALL)  # a CJK character is a word


def heatmap_section(cosines, attention, album):
    """For each picture a panel per word with the word's heat over the picture: cosines, then a fusion's attention."""
    of_cosines, of_attention = heatmap_cards(cosines, album), heatmap_cards(attention, album)
    if not of_cosines and not of_attention:
        return section('heatmaps', 'Where words look', '词语看向哪里', missing('heat maps', EVALUATE_RETRIEVAL))
    return section('heatmaps', 'Where words look', '词语看向哪里', of_cosines and [how_to_read(
        'Which patches does a word look at? Bright patches have the highest cosine with the word under the panel, '
        'whose own best cosine stands beside it; all panels of a picture share one scale.',
        '每个词看向哪些图块？越亮表示该图块与图下词语的余弦相似度越高，旁边的数字是该词的最大值；同一图片的各图共用一个色标。'),
        of_cosines, cut_note(len(cosines), MOST_HEATMAPS, 'heatmaps.json')], of_attention and [
        subheading('Attention of the fusion', '融合层的注意力'), how_to_read(
            'The same of the weights with which a word attends to the patches in a block of the fusion, the mean of '
            'its heads; the weights of a word sum to 1.', '同上，但显示融合层各块中词语对图块的注意力权重（各头平均）；每个词的权重之和为 1。'),
        of_attention, cut_note(len(attention), MOST_HEATMAPS, 'attention.json')])


def heatmap_cards(examples, album):
    """The cards of those of the first examples that can be drawn."""
    drawn = [heatmap_card(example, album) for example in examples[:MOST_HEATMAPS]]
    return [card for card in drawn if card is not None]


def heatmap_card(example, album):
    """One picture with the panels of its words; ``None`` when nothing of it can be drawn."""
    picture = album.picture(example.get('image'))
    words = list_of_dicts(example.get('words'))
    grids = [(str(word.get('text', '')), heatmaps.grid(word.get('heat'))) for word in words]
    grids = [(text, heat) for text, heat in grids if heat is not None]
    if picture is None or not grids:
        return None
    low, high = heatmaps.heat_range([heat for _, heat in grids])
    caption, name = str(example.get('caption', '')), str(example.get('name', COSINE))
    digits = 2 if name.endswith(COSINE) else 3  # a share of all patches is small
    panels = [node('figure', album.show(example['image'], caption), node('figcaption', 'picture', class_='quiet'))]
    panels += [heatmap_panel(picture, text, heat, low, high, digits) for text, heat in grids]
    gradient = node('i', style=f'background:linear-gradient(90deg,{heatmaps.colour_stops()})')
    return node('article', node('p', caption, class_='caption', dir='auto'), node('div', panels, class_='panels'),
                node('div', number(low, digits), gradient, number(high, digits), node('span', name), class_='scale'),
                class_='card')


def heatmap_panel(picture, text, heat, low, high, digits):
    """The heat of one word over the picture, the word below."""
    overlay = heatmaps.overlay(picture, heat, low, high)
    _, best = heatmaps.heat_range([heat])
    return node('figure', node('img', src=jpeg_address(overlay), alt=text, width=overlay.width, height=overlay.height),
                node('figcaption', node('b', text, dir='auto'), ' ', number(best, digits)))


def retrieval_section(retrieval, album):
    """The best pictures of captions and the best captions of pictures."""
    by_text, by_image = (list_of_dicts(retrieval.get(key)) for key in ('text_to_image', 'image_to_text'))
    if not by_text and not by_image:
        return section('retrieved', 'Retrieved', '检索示例', missing('examples of retrieval', EVALUATE_RETRIEVAL))
    return section(
        'retrieved', 'Retrieved', '检索示例', how_to_read(
            'Best answer first, with its score: green ✓ belongs to the query, red ✗ does not.',
            '按得分从高到低排列：绿色 ✓ 为正确结果，红色 ✗ 为错误结果。'),
        cards('Pictures for captions', '以文搜图', [pictures_card(query, album) for query in by_text[:MOST_QUERIES]]),
        cards('Captions for pictures', '以图搜文', [captions_card(query, album) for query in by_image[:MOST_QUERIES]]),
        cut_note(max(len(by_text), len(by_image)), MOST_QUERIES, 'retrieval.json'))


def pictures_card(query, album):
    """A caption and its best pictures."""
    results = [node('figure', album.show(result.get('image'), 'retrieved picture'), node('figcaption', verdict(result)),
                    class_=colour(result)) for result in list_of_dicts(query.get('results'))]
    return node('article', node('p', query.get('caption', ''), class_='caption', dir='auto'),
                node('div', results, class_='panels outlined'), class_='card')


def captions_card(query, album):
    """A picture and its best captions."""
    results = [node('li', node('span', result.get('caption', ''), dir='auto'), verdict(result), class_=colour(result))
               for result in list_of_dicts(query.get('results'))]
    return node('article', album.show(query.get('image'), 'query picture'), node('ol', results, class_='answers'),
                class_='card beside')


def choices_section(choices, album):
    """Pictures with a true and a false caption, those decided wrongly and those decided rightly."""
    if not choices:
        return section('choices', 'Choices', '选择示例', missing('examples of choices', EVALUATE_CHOICE))
    right = [choice for choice in choices if choice.get('right')]
    wrong = [choice for choice in choices if not choice.get('right')]
    return section(
        'choices', 'Choices', '选择示例', how_to_read(
            '✓ is the true caption, ✗ the false one; the model takes the one with the higher score, in bold; the words '
            'that differ are marked.', '✓ 为真实描述，✗ 为错误描述；模型选择得分较高者（粗体）；不同的词已标出。'),
        cards('Right', '正确', [choice_card(choice, album) for choice in right[:MOST_CHOICES]]),
        cards('Wrong', '错误', [choice_card(choice, album) for choice in wrong[:MOST_CHOICES]]),
        cut_note(max(len(right), len(wrong)), MOST_CHOICES, 'choices.json'))


def cards(title, title_zh, articles):
    """Cards under their heading, two abreast where there is room; nothing without any."""
    return [subheading(title, title_zh), node('div', articles, class_='pairs')] if articles else None


def choice_card(choice, album):
    """One picture, its two captions and their scores."""
    caption, negative = str(choice.get('caption', '')), str(choice.get('negative_caption', ''))
    marked, marked_negative = mark_difference(caption, negative)
    scores = choice.get('scores') if isinstance(choice.get('scores'), list) else []
    score, negative_score = [*scores, None, None][:2]
    higher = higher_place(score, negative_score)
    pair = (('✓', marked, score), ('✗', marked_negative, negative_score))
    lines = [node('li', node('span', sign, ' ', text, dir='auto'), number(value, 3),
                  class_='chosen' if place == higher else None) for place, (sign, text, value) in enumerate(pair)]
    return node('article', album.show(choice.get('image'), caption), node(
        'div', node('span', str(choice.get('type', '')).replace('_', ' '), class_='kind'),
        node('ul', lines, class_='answers')), class_='card beside ' + colour(choice))


def higher_place(score, negative_score):
    """0 or 1 for the higher of two scores, ``None`` for a tie or without both."""
    first, second = figure_of(score), figure_of(negative_score)
    if first is None or second is None or first == second:
        return None
    return int(second > first)


def mark_difference(text, other):
    """Both texts as children of a node, with the words that differ in ``mark`` elements."""
    pieces, other_pieces = PIECE.findall(text), PIECE.findall(other)
    marked, other_marked = [], []
    for tag, i, j, k, m in difflib.SequenceMatcher(None, pieces, other_pieces, autojunk=False).get_opcodes():
        for target, part in ((marked, ''.join(pieces[i:j])), (other_marked, ''.join(other_pieces[k:m]))):
            target.append(part if tag == 'equal' or not part else node('mark', part))
    return marked, other_marked


def verdict(result):
    """Right or wrong as a sign, for eyes that do not tell green from red, and the score."""
    return node('span', '✓ ' if result.get('right') else '✗ ', number(result.get('score'), 3), class_='score')


def colour(result):
    """The class that outlines a right answer green and a wrong one red."""
    return 'right' if result.get('right') else 'wrong'


def cut_note(count, most, file):
    """Says that there are more examples than are shown."""
    if count <= most:
        return None
    return node('p', f'The first {most} are shown; all are in examples/{file}.', class_='quiet')
