"""Accuracy of answers against numbers found by hand, and what a file of questions may hold."""
import json

from hcma.data.questions import Answers, Question, most_frequent_answers, read_questions
from hcma.evaluation.vqa import vqa_metrics


def question(kind, *answers):
    return Question('image', 'text', answers, kind, 1)


TRAINING = [question('colour', 'red'), question('colour', 'red'), question('colour', 'blue'), question('count', '2'),
            question('count', '2'), question('count', '1'), question('things', 'cup', 'book')]


def test_the_most_frequent_answers_come_first_and_equals_in_alphabetical_order():
    answers = most_frequent_answers(TRAINING, 4)
    assert answers == Answers(('2', 'red', '1', 'blue'), {'colour': 'red', 'count': '2', 'things': 'book'})
    assert Answers.from_json(answers.to_json()) == answers
    assert [answers.index(one) for one in (question('', 'cup'), question('', 'cup', 'blue'))] == [None, 3]


def test_metrics_equal_those_found_by_hand():
    questions = [question('colour', 'red'), question('colour', 'blue'), question('colour', 'green'),
                 question('count', '2', 'two'), question('new', '2')]
    metrics = vqa_metrics(questions, ['red', 'blue', 'red', 'two', 'red'], most_frequent_answers(TRAINING, 4))
    assert metrics == {
        'accuracy': 60.0, 'types': {'colour': 66.67, 'count': 100.0, 'new': 0.0},
        'majority': 40.0, 'majority_by_type': 60.0, 'majority_types': {'colour': 33.33, 'count': 100.0, 'new': 100.0},
        'counts': {'colour': 3, 'count': 1, 'new': 1}, 'answerable': 80.0}


def test_questions_are_read_with_lower_case_answers_and_one_split(tmp_path):
    rows = [{'image': 'a.png', 'question': ' How  many? ', 'answer': 2, 'split': 'train'},
            {'image': 'b.png', 'question': 'what?', 'answers': ['Red', 'red', 'BLUE'], 'type': 'colour',
             'split': 'test'},
            {'image': 'b.png', 'question': 'what?', 'answer': True, 'split': 'train'}]
    path = tmp_path / 'q.jsonl'
    path.write_text('\n'.join(map(json.dumps, rows)))
    a, b = str(tmp_path / 'a.png'), str(tmp_path / 'b.png')
    found, rejects = read_questions(str(path))
    assert found == [Question(a, 'How many?', ('2',), 'all', 1), Question(b, 'what?', ('red', 'blue'), 'colour', 2)]
    assert [(reject.line, reject.reason) for reject in rejects] == [(3, 'no text under "answer" or "answers"')]
    assert read_questions(str(path), 'test')[0] == found[1:]
