"""Re-ranking changes the order of the best candidates and of nothing else."""
import numpy as np
import pytest

from hcma.evaluation.rerank import best_candidates, reranked
from hcma.evaluation.retrieval import BlockScores, retrieval, retrieval_counts
from helpers.fake_encoder import MatrixEncoder

GROUP = np.arange(9)
WEIGHTS = np.array([1.0, 2.0])


class Judge(MatrixEncoder):
    """A matrix for one level, and another one that scores pairs better."""
    levels, terms = ('level',), ('level', 'matching')

    def __init__(self, level, matching):
        super().__init__(level[None])
        self.both = np.stack((level, matching))

    def score_pairs(self, text, image):
        return self.both[:, text[0] - 1, image[0] - 1]


@pytest.fixture
def judge():
    rng = np.random.default_rng(0)
    return Judge(rng.normal(size=(9, 9)), rng.normal(size=(9, 9)))


def measure(encoder, best):
    features = encoder.text, encoder.image, GROUP, GROUP
    counts = [direction[:, 0] for direction in retrieval_counts(encoder, *features, {'weighted': WEIGHTS[:1]})]
    return reranked(encoder, *features, WEIGHTS, best, counts)


def levels_only(scores):
    encoder = MatrixEncoder(scores[None])
    return retrieval(encoder, encoder.text, encoder.image, GROUP, GROUP, {'weighted': np.array([1.0])})['weighted']


def test_re_ranking_all_is_retrieval_by_all_terms(judge):
    assert measure(judge, 99) == levels_only(np.tensordot(WEIGHTS, judge.both, 1))


def test_re_ranking_one_changes_nothing(judge):
    assert measure(judge, 1) == levels_only(judge.both[0])


def test_a_right_candidate_beyond_the_best_keeps_its_rank():
    """The level puts the right one last, so that not even a matching that knows it can bring it back."""
    level = np.where(np.eye(9) > 0, -1.0, 1.0)
    knows = Judge(level + np.arange(81).reshape(9, 9) * 1e-3, np.eye(9) * 100)
    assert measure(knows, 8)['text_to_image']['mean_rank'] == 9
    assert measure(knows, 9)['text_to_image']['r1'] == 100


@pytest.mark.parametrize('block', [2, 4, 9])
def test_the_best_candidates_are_those_of_the_whole_matrix(judge, block):
    by_text, by_image = best_candidates(BlockScores(judge, judge.text, judge.image, np.ones((1, 1)), block), 3)
    assert np.array_equal(by_text, np.argsort(-judge.both[0], 1)[:, :3])
    assert np.array_equal(by_image, np.argsort(-judge.both[0].T, 1)[:, :3])
