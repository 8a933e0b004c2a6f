"""Which self-attention a fused operation of Ascend's takes. Without MindSpore, as plans ask as well."""


def fit_fused_attention(head_width, learned_bias):
    """Whether heads so wide fit (reference of ``ops.flash_attention_score``); a learned bias would get no gradient."""
    return head_width % 16 == 0 and head_width <= 512 and not learned_bias
