"""Products run in the recipe's types, what is sensitive in float32, and 16 bits train like 32."""
import json
import subprocess
import sys
from pathlib import Path

import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, Tensor, ops

from hcma.errors import InputError
from hcma.models.hcma import build_model
from hcma.models.vqa import VQA
from hcma.recipe_io import dump_recipe
from hcma.training.alignment import alignment_network
from hcma.training.precision import set_precision
from hcma.training.trainer import build_step

HELPER = Path(__file__).parents[1] / 'helpers' / 'compiled_types.py'
FP16 = dict.fromkeys(('image', 'text', 'loss'), 'fp16')
SHALLOW = {'image': {'stem': 'patchify', 'patch_size': 8, 'depth': 0}, 'text': {'depth': 0}}
# What may compute in 16 bits: products, adding a bias, and what only moves numbers. (UpdateState orders others.)
SHORT = {'MatMul', 'BatchMatMul', 'Add', 'BiasAdd', 'SumExt', 'ReLU', 'ReluGrad', 'Cast', 'Reshape', 'Transpose',
         'Split', 'Concat', 'MakeTuple', 'TupleGetItem', 'UpdateState'}

FORWARD_ONLY = 'Gradients/'  # outside of it; MindSpore names all gradients of one kind after the first of them


@pytest.fixture(scope='module')
def operations(make_recipe):
    """The compiled step of a model with a fusion in fp16, but for the stem of pictures and the ends of texts."""
    keep = ['image_tower.encoder.stem', 'text_tower.to_*']
    recipe = make_recipe(model={'fusion': {'heads': 2}}, train={'batch_size': 8}, precision={**FP16, 'keep_fp32': keep})
    done = subprocess.run([sys.executable, HELPER], input=dump_recipe(recipe), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def types_of(operations, name, where='', outside='nowhere'):
    return {kind for operation, types, scope in operations for kind in types
            if operation == name and where in scope and outside not in scope and kind.startswith('Float')}


@pytest.mark.graph
def test_only_products_leave_float32_in_the_compiled_step(operations):
    short = {operation for operation, types, _ in operations if 'Float16' in types}
    assert short <= SHORT and {'MatMul', 'BatchMatMul'} <= short
    for sensitive in ('LayerNorm', 'LayerNormGrad', 'Softmax', 'SoftmaxBackward', 'LogSoftmax', 'LogSoftmaxGrad',
                      'Softplus', 'SoftplusGrad', 'Rsqrt', 'RsqrtGrad', 'Exp', 'Sqrt', 'IsFinite', 'AdamWeightDecay'):
        assert types_of(operations, sensitive) == {'Float32'}, sensitive  # each of them is there


@pytest.mark.graph
def test_scores_of_attention_and_means_are_float32_products_and_contexts_are_not(operations):
    assert types_of(operations, 'BatchMatMul', '/scores-Scores') == {'Float32'}
    assert types_of(operations, 'BatchMatMul', '-TextEncoder/BatchMatMul') == {'Float32'}  # all means are named so
    for context in ('-SelfAttention/BatchMatMul', '-CrossAttention/BatchMatMul'):
        assert types_of(operations, 'BatchMatMul', context, FORWARD_ONLY) == {'Float16'}, context
    backward = [types[0] for operation, types, scope in operations if '/Grad_BatchMatMul/BatchMatMul' in scope]
    assert sorted(backward) == ['Float16'] * 6 + ['Float32'] * 3  # two of each context, one of each mean


@pytest.mark.graph
def test_layers_named_in_keep_fp32_stay_and_all_others_do_not(operations):
    for kept in ('/stem-ConvolutionStem', '/text_tower-TextTower/to_sentence', '/text_tower-TextTower/to_word'):
        assert types_of(operations, 'MatMul', kept, FORWARD_ONLY) == {'Float32'}, kept
    for layer in ('/query_key_value-Linear', '/mlp-MLP', '/image_tower-ImageTower/to_global', '/fusion-Fusion',
                  '/sentence_global-SentenceGlobal'):
        assert types_of(operations, 'MatMul', layer, FORWARD_ONLY) == {'Float16'}, layer


def test_every_modality_has_its_type(make_recipe, vocabulary):
    recipe = make_recipe(model={'fusion': {'heads': 2}, 'text': {'train': 'lora'}},
                         precision={'image': 'fp16', 'keep_fp32': ['*.blocks.0.mlp', 'image_tower.to_patch*']})
    types = set_precision(alignment_network(recipe, vocabulary), recipe.precision)
    short = {name for name, kind in types.items() if kind == ms.float16}
    assert short and all(name.startswith('image_tower.') for name in short)
    assert {name for name in types if name.startswith('image_tower.')} - short == {
        'image_tower.encoder.blocks.0.mlp.up', 'image_tower.encoder.blocks.0.mlp.down', 'image_tower.to_patch.linear'}
    assert {'text_tower.encoder.blocks.0.attention.out', 'fusion.out', 'scores.local'} <= types.keys()


def test_the_head_that_answers_questions_computes_as_the_loss_does(make_recipe, vocabulary):
    recipe = make_recipe(model=SHALLOW, precision={'loss': 'fp16'})
    model = VQA(build_model(recipe, vocabulary), recipe.model, 'word_patch', 8, 4, 0)
    types = set_precision(model, recipe.precision)
    short = {name for name, kind in types.items() if kind == ms.float16}
    assert {'answer.up', 'join.mlp.up'} <= short and not any('_tower.' in name for name in short)


def test_bf16_is_refused_on_cpu_and_auto_is_what_it_does(make_recipe, vocabulary):
    with pytest.raises(InputError, match=r'^precision\.text: MindSpore has no bf16 products on CPU; use fp16'):
        build_step(make_recipe(model=SHALLOW, precision={'text': 'bf16'}), vocabulary, 10)
    recipe = make_recipe(model=SHALLOW, precision=dict.fromkeys(FP16, 'auto'))
    assert set(set_precision(alignment_network(recipe, vocabulary), recipe.precision).values()) == {ms.float32}


def test_a_pattern_that_names_no_layer_is_refused_with_a_name_that_does(make_recipe, vocabulary):
    recipe = make_recipe(model=SHALLOW, precision={'keep_fp32': ['image_tower.*', 'image_towr.*']})
    with pytest.raises(InputError, match=r"keep_fp32: 'image_towr\.\*' names no layer; .* such as image_tower\."):
        build_step(recipe, vocabulary, 10)


def test_products_and_sums_in_fp16_add_up_in_float32():
    quarter = Tensor(np.full((1, 40000), 0.25), ms.float16)
    for product in (ops.MatMul(transpose_b=True), ops.BatchMatMul(transpose_b=True)):
        x = quarter if isinstance(product, ops.MatMul) else quarter.reshape(1, 1, -1)
        assert float(product(x, x).asnumpy().item()) == 2500  # in float16 a sum of 0.0625 stops at 128
    assert float(quarter.sum().asnumpy()) == 10000


# ---- training

LARGE_EPS = {'eps': 1e-3, 'batch_size': 6}  # else Adam's first step is the sign of gradients


def taken(make_recipe, make_batch, vocabulary, **sections):
    """A step of a recipe once it was taken, and its metrics."""
    recipe = make_recipe(**sections)
    step = build_step(recipe, vocabulary, 10)
    row = step(*make_batch(recipe, 6))[1].asnumpy()
    return step, dict(zip(step.metric_names, row.tolist()))


@pytest.fixture(scope='module', params=['all', 'lora'])
def both(request, make_recipe, make_batch, vocabulary):
    """One step in fp32 and in fp16 of the tiny model with a fusion."""
    model = {'fusion': {'heads': 2}, 'image': {'train': request.param}, 'text': {'recompute': 'blocks'}}
    return [taken(make_recipe, make_batch, vocabulary, model=model, precision=precision,
                  train={**LARGE_EPS, 'loss_scale': {'initial': 1024}}) for precision in ({}, FP16)]


def test_a_step_in_fp16_is_that_in_fp32_but_for_rounding(both):
    (step, metrics), (short_step, short) = both
    assert short['overflow'] == metrics['overflow'] == 0
    assert short['loss'] == pytest.approx(metrics['loss'], rel=5e-3)
    assert short['grad_norm'] == pytest.approx(metrics['grad_norm'], rel=2e-2)
    gradients, others = (np.concatenate([moment.asnumpy().ravel() for moment in one.optimizer.moment1])
                         for one in (step, short_step))
    assert 0 < np.linalg.norm(gradients - others) < 0.03 * np.linalg.norm(gradients)


def test_weights_gradients_and_moments_stay_float32(both):
    step = both[1][0]
    floats = [parameter for parameter in step.get_parameters() if parameter.is_floating_point()]
    assert len(floats) > 60 and {parameter.dtype for parameter in floats} == {ms.float32}
    assert all(isinstance(parameter, Parameter) for parameter in floats)


def test_a_staged_step_in_fp16_is_the_fused_one(make_recipe, make_batch, vocabulary):
    model = {**SHALLOW, 'fusion': {'heads': 2}}
    rows = [taken(make_recipe, make_batch, vocabulary, model=model, precision=FP16,
                  train={**LARGE_EPS, **parts, 'loss_scale': {'initial': 256}})[1]
            for parts in ({}, {'image_micro_batch': 4, 'text_micro_batch': 2})]
    assert rows[1] == pytest.approx(rows[0], rel=2e-2)
    assert rows[1]['loss'] == pytest.approx(rows[0]['loss'], rel=1e-3)


def test_the_rate_of_mixed_precision_is_scaled_where_an_encoder_is_short(make_recipe, make_batch, vocabulary):
    rates = [taken(make_recipe, make_batch, vocabulary, model=SHALLOW, train=LARGE_EPS,
                   precision={'lr_scale': 0.5, part: 'fp16'})[1]['lr'] for part in ('loss', 'text')]
    assert rates[1] == pytest.approx(rates[0] / 2)
