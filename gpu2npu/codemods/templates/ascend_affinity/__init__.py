"""Fused operators of the NPU for what PyTorch code spells out, with that code for all that they do not take.

`gpu2npu --affinity` puts this package beside the code whose expressions it replaces. On tensors of another device, and
for shapes and dtypes that an operator does not take, every function computes what the replaced code did.
"""

import contextlib
import functools
import math

import torch
import torch.nn.functional as F
import torch_npu

# The dtypes and chips that the operators are documented for: Atlas A2 and later.
_DTYPES = (torch.float32, torch.float16, torch.bfloat16)
_CHIPS = ("Ascend910B", "Ascend910_93", "Ascend950")
# What npu_fusion_attention takes: float32 since PyTorch 2.4, sizes of the last dimension.
# https://hiascend.com/document/detail/zh/Pytorch/60RC3/apiref/apilist/ptaoplist_000445.html
_ATTENTION_DTYPES = _DTYPES if hasattr(torch, "get_autocast_dtype") else _DTYPES[1:]
_ATTENTION_SIZES = range(16, 257, 16)
# What npu_rotary_mul takes: sizes of the last dimension, and of the first two together where cos and sin have
# gradients or not. https://www.hiascend.com/document/detail/zh/Pytorch/700/apiref/apilist/ptaoplist_000141.html
_ROTARY_SIZE = 896
_ROTARY_ROWS = 1000
# How many rows npu_cross_entropy_loss takes, whose labels are all classes.
# https://www.hiascend.com/document/detail/zh/Pytorch/700/apiref/apilist/ptaoplist_000146.html
_LOSSES = 200000


@functools.lru_cache(None)
def _is_known(device):
    return torch.npu.get_device_name(device).startswith(_CHIPS)


def _fits(*tensors):
    """Return whether all are tensors on an NPU that has the operators, in a dtype that they take."""
    on_npu = all(isinstance(each, torch.Tensor) and each.device.type == "npu" for each in tensors)
    return on_npu and all(each.dtype in _DTYPES and not each.is_nested and _is_known(each.device) for each in tensors)


def _in_one_dtype(*tensors):
    """The tensors in the dtype that multiplying them gives."""
    dtype = functools.reduce(torch.promote_types, (each.dtype for each in tensors))
    return [each.to(dtype) for each in tensors]


def rms_norm(x, weight, eps):
    """x / sqrt(mean(x ** 2) + eps) * weight over the last dimension, in the dtype of x * weight."""
    if _fits(x, weight) and weight.shape == x.shape[-1:] and x.numel() and isinstance(eps, (int, float)):
        x, weight = _in_one_dtype(x, weight)
        return torch_npu.npu_rms_norm(x, weight, float(eps))[0]
    wide = x.float() if not isinstance(x, torch.Tensor) or x.dtype in _DTYPES else x
    return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)).to(x.dtype) * weight


@functools.lru_cache(None)
def _takes_mode():
    """Return whether the operator of this release turns pairs, too."""
    return "rotary_mode" in str(torch.ops.npu.npu_rotary_mul.default._schema)


def _rotates(x, cos, sin, mode):
    """Return whether npu_rotary_mul takes these, all of four dimensions."""
    size = x.shape[-1]
    if x.dim() != 4 or cos.shape != sin.shape or cos.shape[-1] != size or size % 2 or size >= _ROTARY_SIZE:
        return False
    if any(cos.shape[each] not in (1, x.shape[each]) for each in range(3)) or not x.numel():
        return False
    return x.shape[0] * x.shape[1] < _ROTARY_ROWS and (mode == "half" or _takes_mode())


def rotary_mul(x, cos, sin, mode="half"):
    """x * cos + rotate(x) * sin; rotate turns the two halves of the last dimension, or "interleave" its pairs."""
    if _fits(x, cos, sin) and cos.dim() <= 4 and sin.dim() <= 4:
        wide, wide_cos, wide_sin = _in_one_dtype(x, cos, sin)
        wide_cos, wide_sin = (each[(None,) * (4 - each.dim())] for each in (wide_cos, wide_sin))
        if _rotates(wide, wide_cos, wide_sin, mode):
            options = {} if mode == "half" else {"rotary_mode": mode}
            return torch_npu.npu_rotary_mul(wide, wide_cos, wide_sin, **options)
    if mode == "half":
        first, second = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
        turned = torch.cat((-second, first), dim=-1)
    else:
        turned = torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).flatten(-2)
    return x * cos + turned * sin


def rotary_halves(x, cos, sin):
    """cat((a * cos - b * sin, b * cos + a * sin), -1) of the halves a and b of the last dimension."""
    if _fits(x, cos, sin) and cos.shape[-1] == sin.shape[-1] == x.shape[-1] // 2:
        return rotary_mul(x, torch.cat((cos, cos), dim=-1), torch.cat((sin, sin), dim=-1))
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


def _halves(x, size):
    """Return whether the last dimension has two halves, which are of a size if one is given."""
    return _fits(x) and x.numel() and x.shape[-1] % 2 == 0 and size in (None, x.shape[-1] // 2)


def _parts(x, size):
    return x.chunk(2, dim=-1) if size is None else x.split(size, dim=-1)


def swiglu(x, size=None):
    """silu(a) * b of the halves a and b of the last dimension, or of its two parts of a size."""
    if _halves(x, size):
        return torch_npu.npu_swiglu(x, -1)
    first, second = _parts(x, size)
    return F.silu(first) * second


def geglu(x, approximate="none", first=False, size=None):
    """a * gelu(b) of the halves a and b of the last dimension, or gelu(a) * b where `first`; or of two parts of a
    size."""
    if _halves(x, size):
        return torch_npu.npu_geglu(x, dim=-1, approximate=int(approximate == "tanh"), activate_left=first)[0]
    a, b = _parts(x, size)
    gate, value = (a, b) if first else (b, a)
    return F.gelu(gate, approximate=approximate) * value


def _of_autocast(*tensors):
    """The tensors in the dtype that autocast multiplies matrices in, or as they are."""
    if torch.npu.is_autocast_enabled() and all(each.device.type == "npu" for each in tensors):
        return [each.to(torch.npu.get_autocast_dtype()) for each in tensors]
    return list(tensors)


def _attends(query, key, value):
    """Return whether npu_fusion_attention takes these, of three or four dimensions."""
    if not _fits(query, key, value) or query.dtype not in _ATTENTION_DTYPES or query.dim() not in (3, 4):
        return False
    if not query.dtype == key.dtype == value.dtype or key.shape != value.shape or not query.numel() or not key.numel():
        return False
    return query.shape[:-2] == key.shape[:-2] and query.shape[-1] == key.shape[-1] in _ATTENTION_SIZES


def _probability(dropout):
    """The probability of dropping of a module, or of a pair of it and whether it trains."""
    p, training = dropout if isinstance(dropout, tuple) else (dropout.p, dropout.training)
    return p if training else 0.0


def attention(
    query, key, value, scale=1.0, query_scale=1.0, bias=None, hidden=None, dropout=(0.0, False), fill=-math.inf
):
    """dropout(softmax(query * query_scale @ key.mT * scale + bias)) @ value; scores are `fill` where `hidden` is True,
    the least number of their dtype for None."""
    query, key, value = _of_autocast(query, key, value)
    fits = all(isinstance(each, (int, float)) for each in (scale, query_scale)) and _attends(query, key, value)
    fits = fits and all(each is None or _broadcasts(each, query, key) for each in (bias, hidden))
    if fits and (bias is None or bias.dtype == query.dtype) and (hidden is None or hidden.dtype == torch.bool):
        scale = float(scale) * query_scale
        if bias is not None:  # the operator scales it, too
            query, scale = query * scale, 1.0
        four = [each if each.dim() == 4 else each[:, None] for each in (query, key, value)]
        shape = (*four[0].shape[:-1], key.shape[-2])
        bias, hidden = (None if each is None else _as_scores(each, query.dim(), shape) for each in (bias, hidden))
        options = {"pse": bias, "atten_mask": hidden, "scale": scale, "keep_prob": 1.0 - _probability(dropout)}
        result = torch_npu.npu_fusion_attention(*four, shape[1], "BNSD", **options)[0]
        return result if query.dim() == 4 else result[:, 0]
    scores = _times(_times(query, query_scale) @ key.mT, scale)
    scores = scores if bias is None else scores + bias
    fill = torch.finfo(scores.dtype).min if fill is None else fill
    scores = scores if hidden is None else scores.masked_fill(hidden, fill)
    weights, p = scores.softmax(-1).to(value.dtype), _probability(dropout)
    return (F.dropout(weights, p) if p else weights) @ value


def _times(x, scale):
    return x if isinstance(scale, float) and scale == 1.0 else x * scale


def _broadcasts(mask, query, key):
    """Return whether a mask or bias leaves the scores of a query and a key their shape."""
    shape = (*query.shape[:-1], key.shape[-2])
    return torch.broadcast_shapes(mask.shape, shape) == shape


def _as_scores(mask, dim, shape):
    """A mask or bias in the shape of the scores."""
    mask = mask[:, None] if dim == 3 and mask.dim() == 3 else mask
    return mask.expand(shape).contiguous()


@functools.lru_cache(None)
def _causal(device):
    """The mask of causal attention, True above the diagonal, of the fixed size that npu_fusion_attention wants."""
    return torch.ones(2048, 2048, dtype=torch.bool, device=device).triu(1)


def _masks(mask, query, key):
    return mask.dtype in (torch.bool, query.dtype) and _broadcasts(mask, query, key)


def scaled_dot_product_attention(
    query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, **options
):
    """torch.nn.functional.scaled_dot_product_attention; its mask is True where scores count, or a bias."""
    tensors = _of_autocast(query, key, value)
    factor = 1.0 / math.sqrt(query.size(-1)) if scale is None else scale
    fits = isinstance(factor, (int, float)) and not options and _attends(*tensors) and query.dim() == 4
    if fits and is_causal and attn_mask is None:
        four = (*tensors, query.shape[1], "BNSD")
        mask, keep = _causal(query.device), 1.0 - dropout_p
        return torch_npu.npu_fusion_attention(*four, atten_mask=mask, scale=factor, keep_prob=keep, sparse_mode=2)[0]
    if fits and not is_causal and (attn_mask is None or _masks(attn_mask, *tensors[:2])):
        hidden = ~attn_mask if attn_mask is not None and attn_mask.dtype == torch.bool else None
        bias = attn_mask if hidden is None else None
        return attention(*tensors, scale=factor, bias=bias, hidden=hidden, dropout=(dropout_p, True))
    given = {"attn_mask": attn_mask, "dropout_p": dropout_p, "is_causal": is_causal, **options}
    return F.scaled_dot_product_attention(query, key, value, **given, **({} if scale is None else {"scale": scale}))


def cross_entropy(input, target, weight=None, ignore_index=-100, reduction="mean", label_smoothing=0.0):
    """torch.nn.functional.cross_entropy."""
    given = {"ignore_index": ignore_index, "reduction": reduction, "label_smoothing": label_smoothing}
    autocast = isinstance(input, torch.Tensor) and input.device.type == "npu" and torch.npu.is_autocast_enabled()
    wide = input.float() if autocast else input
    fits = _fits(wide) and wide.dim() == 2 and target.dtype == torch.int64 and target.dim() == 1 and weight is None
    fits = fits and 0 < len(wide) <= _LOSSES and wide.numel() and wide.device == target.device
    ignores_class = fits and 0 <= ignore_index < wide.shape[1]
    if not fits or (label_smoothing and (reduction != "mean" or not ignores_class)):
        return F.cross_entropy(input, target, weight, **given)
    if ignores_class:
        loss = torch_npu.npu_cross_entropy_loss(wide, target, **given)[0]
        return loss if reduction == "none" else loss.reshape(())
    ignored = target == ignore_index
    rows = torch_npu.npu_cross_entropy_loss(wide, target.masked_fill(ignored, 0), reduction="none")[0]
    rows = rows.masked_fill(ignored, 0)
    if reduction == "none":
        return rows
    total = rows.sum(dtype=torch.float32)
    return (total / (~ignored).sum() if reduction == "mean" else total).to(rows.dtype)


def functional_rms_norm(input, normalized_shape, weight=None, eps=None):
    """torch.nn.functional.rms_norm."""
    given = eps is not None and weight is not None  # a default depends on the release
    if given and _fits(input, weight) and weight.dtype == input.dtype and len(normalized_shape) == 1:
        return rms_norm(input, weight, eps)
    return F.rms_norm(input, normalized_shape, weight, eps)


class RMSNorm(getattr(torch.nn, "RMSNorm", torch.nn.Module)):
    """torch.nn.RMSNorm."""

    def forward(self, x):
        """The norm of x over the last dimensions."""
        return functional_rms_norm(x, self.normalized_shape, self.weight, self.eps)


def quick_gelu(x):
    """x * sigmoid(1.702 * x)."""
    if _fits(x) and x.numel():
        return torch_npu.fast_gelu(x)  # npu_fast_gelu has no gradient before 2.9
    return x * torch.sigmoid(1.702 * x)


def add_layer_norm(norm, x, y):
    """norm(x + y) of a torch.nn.LayerNorm."""
    same = _fits(x, y) and x.shape == y.shape and x.dtype == y.dtype and x.numel() and type(norm) is torch.nn.LayerNorm
    scaled = same and norm.bias is not None and norm.weight.dtype == x.dtype
    if not scaled or norm.normalized_shape != tuple(x.shape[-1:]) or torch.npu.is_autocast_enabled():
        return norm(x + y)
    return torch_npu.npu_add_layer_norm(x, y, norm.weight, norm.bias, norm.eps)[0]


def stacked_matmul(x, y):
    """torch.stack([a @ b for a, b in zip(x, y)])."""
    tensors = all(isinstance(each, torch.Tensor) and each.dim() == 3 for each in (x, y))
    if tensors and len(x) == len(y):
        return torch.bmm(x, y)
    return torch.stack([a @ b for a, b in zip(x, y)])  # noqa: B905


def one_hot(x, count):
    """torch.nn.functional.one_hot(x, count).float()."""
    if isinstance(x, torch.Tensor) and x.device.type == "npu" and x.numel() and count > 1:
        return torch_npu.npu_one_hot(x, -1, count, 1, 0)
    return F.one_hot(x, count).float()


# The dtypes that npu_confusion_transpose takes.
_TURNED = (torch.float32, torch.float16)


def permuted_reshape(x, dims, shape, copied=False):
    """x.permute(dims).reshape(shape), or x.permute(dims).contiguous().view(shape) where `copied`."""
    turned = x.permute(dims)
    if not _fits(x) or x.dtype not in _TURNED or not x.numel() or turned.is_contiguous():
        return (turned.contiguous() if copied else turned).reshape(shape)
    if not copied:
        with contextlib.suppress(RuntimeError):  # raised where only a copy has this shape
            return turned.view(shape)
    known = math.prod(each for each in shape if each != -1)
    sizes = [x.numel() // known if each == -1 else each for each in shape]
    return torch_npu.npu_confusion_transpose(x, [each % x.dim() for each in dims], sizes, True)


def transposed_reshape(x, dims, shape, copied=False):
    """x.transpose(*dims).reshape(shape), or x.transpose(*dims).contiguous().view(shape) where `copied`."""
    if not isinstance(x, torch.Tensor) or x.dim() < 2:
        return x.transpose(*dims).reshape(shape)
    order = list(range(x.dim()))
    order[dims[0]], order[dims[1]] = order[dims[1]], order[dims[0]]
    return permuted_reshape(x, order, shape, copied)


def _covers(x, mask):
    """Return whether both are tensors on one NPU, and the mask says yes or no for every element."""
    tensors = isinstance(mask, torch.Tensor) and mask.dtype == torch.bool and _fits(x)
    return tensors and mask.shape == x.shape and mask.device == x.device


def masked_sum(x, mask):
    """x[mask].sum()."""
    return torch.where(mask, x, 0).sum() if _covers(x, mask) else x[mask].sum()


def masked_mean(x, mask):
    """x[mask].mean()."""
    if _covers(x, mask):
        return (torch.where(mask, x, 0).sum(dtype=torch.float32) / mask.sum()).to(x.dtype)
    return x[mask].mean()


def selected_sum(x, mask):
    """x.masked_select(mask).sum()."""
    if isinstance(x, torch.Tensor):
        return masked_sum(*torch.broadcast_tensors(x, mask))
    return x.masked_select(mask).sum()


def selected_mean(x, mask):
    """x.masked_select(mask).mean()."""
    if isinstance(x, torch.Tensor):
        return masked_mean(*torch.broadcast_tensors(x, mask))
    return x.masked_select(mask).mean()


def masked_loss(function, x, y, mask, reduction="mean"):
    """function(x[mask], y[mask], reduction=reduction)."""
    leads = _fits(x) and mask.dtype == torch.bool and mask.device == x.device and x.shape[: mask.dim()] == mask.shape
    if leads and function is F.cross_entropy and y.shape == mask.shape and not y.is_floating_point():
        picked = torch.where(mask.unsqueeze(-1), x, 0)  # 0 keeps gradients finite
        return function(picked.flatten(0, y.dim() - 1), torch.where(mask, y, -100).flatten(), reduction=reduction)
    if not leads or function is F.cross_entropy or x.shape != y.shape:
        return function(x[mask], y[mask], reduction=reduction)
    wide = mask.reshape(mask.shape + (1,) * (x.dim() - mask.dim())).expand_as(x)
    losses = function(torch.where(wide, x, 0), torch.where(wide, y, 0), reduction="none")  # 0 keeps gradients finite
    return masked_sum(losses, wide) if reduction == "sum" else masked_mean(losses, wide)


def store(x, mask, value):
    """x[mask] = value, a number."""
    if _covers(x, mask):
        x.masked_fill_(mask, value)
    else:
        x[mask] = value


def constant(x, number, device=None):
    """A number for an operation with x; as a float64 tensor, unless the result has the dtype of x in any case."""
    if isinstance(x, torch.Tensor) and x.dim() and x.is_floating_point():
        return float(number)
    return torch.tensor(number, dtype=torch.float64, device=device)


def optimizer(own, params, *given, **options):
    """An optimizer of the class `own`; over joined memory where all parameters are on an NPU and that takes them."""
    params = [dict(each) if isinstance(each, dict) else each for each in params]
    for group in (each for each in params if isinstance(each, dict)):
        group["params"] = [group["params"]] if isinstance(group["params"], torch.Tensor) else list(group["params"])
    single = [p for each in params for p in (each["params"] if isinstance(each, dict) else [each])]
    fits = all(isinstance(p, torch.Tensor) and p.device.type == "npu" and p.dtype in _DTYPES[:2] for p in single)
    found = getattr(torch_npu.optim, f"NpuFused{own.__name__}") if fits else own
    return found(params, *given, **options)


def clip_grad_norm_(optimizer, parameters, max_norm, norm_type=2.0):
    """torch.nn.utils.clip_grad_norm_ of all parameters of an optimizer."""
    fused = getattr(optimizer, "clip_grad_norm_fused_", None)
    return fused(max_norm, norm_type) if fused else torch.nn.utils.clip_grad_norm_(parameters, max_norm, norm_type)
