"""The one place that asks which device this is: every device-specific choice is a function here."""
import platform
import resource

import mindspore as ms
from mindspore import ops

from hcma import __version__
from hcma.errors import InputError
from hcma.kernels.build import library, switched_off
from hcma.models.heads import fit_fused_attention


def prefers_native_kernels():
    """Ascend runs convolutions natively; on CPU they are faster as gathers and matrix products."""
    return ms.get_context('device_target') == 'Ascend'


def recompute_saves_memory():
    """Whether a graph gives back what it will compute again; on CPU its peak stays where it was."""
    return ms.get_context('device_target') != 'CPU'


def compiles_kernels():
    """Whether the kernels of ``hcma.kernels`` stand in for MindSpore's operations: on CPU, where they compile."""
    return ms.get_context('device_target') == 'CPU' and library() is not None


def fuses_attention(head_width, learned_bias):
    """Whether Ascend's fused attention, for 16-bit types, takes such heads; HCMA_KERNELS=0 turns it off, too."""
    fit = fit_fused_attention(head_width, learned_bias)
    return ms.get_context('device_target') == 'Ascend' and fit and not switched_off()


def fused_affine(transposed, relu):
    """MindSpore's ``op(x, weight, bias, False, transposed)`` of a product, its bias and ReLU in float32, or None.

    CPU has a kernel of it, which does all while the product is in the cache, but no interface in Python.
    HCMA_KERNELS=0 turns it off, as other runtimes of exported graphs do not know it.
    """
    if ms.get_context('device_target') != 'CPU' or switched_off():
        return None
    fused = ops.Primitive('FusedMatMulBiasAdd')
    for attribute, value in {'transpose_a': False, 'transpose_b': transposed, 'with_bias_add': True,
                             'with_relu': relu}.items():
        fused.add_prim_attr(attribute, value)
    fused.init_prim_io_names(['x', 'weight', 'bias', 'transpose_a', 'transpose_b'], ['output'])
    return fused


def peak_memory():
    """The most bytes that were ever held: on the device, or on CPU by this process."""
    if ms.get_context('device_target') != 'CPU':
        return ms.runtime.max_memory_allocated()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def short_types_pay():
    """Whether 16-bit types are faster or smaller than float32; MindSpore's CPU kernels are neither."""
    return ms.get_context('device_target') != 'CPU'


def compute_type(name, key):
    """MindSpore's type for ``name`` (fp32, fp16, bf16 or auto); ``key`` is where the recipe says it.

    MindSpore has no products in bf16 on CPU. Raises ``InputError`` for a type that the device cannot compute in.
    """
    device = ms.get_context('device_target')
    if name == 'auto':
        name = 'fp32' if device == 'CPU' else 'bf16'
    if name == 'bf16' and device == 'CPU':
        raise InputError(f'{key}: MindSpore has no bf16 products on CPU; use fp16 (slow here), fp32, or auto, which is '
                         'fp32 on CPU and bf16 on Ascend')
    return {'fp32': ms.float32, 'fp16': ms.float16, 'bf16': ms.bfloat16}[name]


def set_up(mode, device='CPU'):
    """Choose 'graph' or 'pynative' mode and the device ('CPU' or 'Ascend')."""
    ms.set_context(mode=ms.GRAPH_MODE if mode == 'graph' else ms.PYNATIVE_MODE)
    try:
        ms.set_device(device)
    except (RuntimeError, ValueError) as error:
        raise InputError(f'device {device}: MindSpore cannot use it here; for Ascend install the CANN toolkit that '
                         f'matches MindSpore {ms.__version__} and source its set_env.sh, or use CPU') from error


def environment():
    """What the report says about where a run was made."""
    return {'mindspore': ms.__version__, 'python': platform.python_version(), 'hcma': __version__,
            'device': ms.get_context('device_target'), 'kernels': 'compiled' if compiles_kernels() else 'standard'}
