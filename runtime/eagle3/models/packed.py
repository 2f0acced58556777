"""Linear layers for inference on CPUs: weights laid out once for oneDNN, as float or as int8.

A packed module computes the same sums in another order; it holds no trainable parameter and exists for inference
only. `rows` is what the row kernels build on: a product without scale and bias. Where torch was built without oneDNN,
packing leaves the module as it is.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn

from eagle3.errors import ConfigError
from eagle3.models import row_kernels
from eagle3.models.layers import SelfAttention, SwiGLU

Quantization = Literal["int8"]

# Rows that the weight layout is tuned for.
_TUNED_ROWS = 17
# oneDNN's float kernels take longer for one row of a packed weight than for four.
_FEWEST_ROWS = 4
_LARGEST_INT8 = 127
# FBGEMM stores activations as unsigned bytes around this.
_MIDDLE = 128
_NOTHING = 1e-5


class PackedLinear(nn.Module):
    """Drop-in for an `nn.Linear` on the CPU; input [.., I], output [.., O], dtype of the weight."""

    packed: Tensor

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        weight = linear.weight.detach()
        self.dtype = weight.dtype
        self.out_features = linear.out_features
        self.in_features = linear.in_features
        self.packed = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), _TUNED_ROWS)
        self.bias = None if linear.bias is None else nn.Parameter(linear.bias.detach(), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        return _float_product(x.to(self.dtype), self.packed, self.bias)

    def rows(self, x_TI: Tensor) -> Tensor:
        """The product alone, without the bias."""
        missing = _FEWEST_ROWS - len(x_TI)
        if missing <= 0:
            return _float_product(x_TI, self.packed, None)
        return _float_product(nn.functional.pad(x_TI, (0, 0, 0, missing)), self.packed, None)[:-missing]


class Int8Linear(nn.Module):
    """Int8 weights with a scale per output; activations are rounded to 8 bits with a scale per row.

    `largest_I` are the largest magnitudes of each input that a calibration saw. An input that is large beside its
    weights is divided by a factor, and its weights are multiplied by it, so that both lose as little as possible when
    they are rounded (SmoothQuant, arXiv 2211.10438, with its exponent of one half). None: no factors.

    A scale over the whole batch would make a row depend on its neighbours in the tree. Products are summed in int32,
    exactly, so a row's result does not depend on how many others there are. Input [.., I], output [.., O], float32.
    """

    inverse_factor_I: Tensor
    """What each input is multiplied by before it is rounded, float32."""

    def __init__(self, linear: nn.Linear, largest_I: Tensor | None = None) -> None:
        super().__init__()
        weight = linear.weight.detach().float()
        self.out_features = linear.out_features
        self.in_features = linear.in_features
        factor_I = _factors(weight, largest_I)
        self.register_buffer("inverse_factor_I", 1 / factor_I, persistent=False)
        weight = weight * factor_I
        scale_O = weight.abs().amax(dim=1).clamp_min(torch.finfo(torch.float32).tiny) / _LARGEST_INT8
        whole = (weight / scale_O[:, None]).round_().to(torch.int8)
        self._packed = _fbgemm_packed(whole, scale_O)
        self.bias = None if linear.bias is None else nn.Parameter(linear.bias.detach().float(), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        rows = x.detach().reshape(-1, self.in_features).float().contiguous()
        whole, scale = torch.empty_like(rows), torch.empty(len(rows))
        row_kernels.quantize(rows.numpy(), self.inverse_factor_I.numpy(), whole.numpy(), scale.numpy())
        out = self.rows(whole) * scale[:, None]
        if self.bias is not None:
            out += self.bias
        return out.reshape(*x.shape[:-1], self.out_features)

    def rows(self, whole_TI: Tensor) -> Tensor:
        """The product of whole numbers from −127 to 127, without the rows' scales and the bias; float32 [T, O]."""
        out: Tensor = _int8_product(whole_TI, 1.0, _MIDDLE, self._packed)
        return out


def _fbgemm_packed(whole_OI: Tensor, scale_O: Tensor) -> object:
    """A weight as FBGEMM wants it, made by the only way that torch has to it."""
    before = torch.backends.quantized.engine
    with warnings.catch_warnings():
        # These constructors are to go in some release after the pinned one (docs/adr/0010-row-kernels.md).
        warnings.filterwarnings("ignore", message="torch.quantize_per_tensor", category=UserWarning)
        torch.backends.quantized.engine = "fbgemm"
        try:
            weight = torch._make_per_channel_quantized_tensor(
                whole_OI, scale_O.double(), torch.zeros(len(scale_O), dtype=torch.int64), 0
            )
            return torch.ops.quantized.linear_prepack(weight, None)
        finally:
            torch.backends.quantized.engine = before


def _factors(weight_OI: Tensor, largest_I: Tensor | None) -> Tensor:
    if largest_I is None:
        return torch.ones(weight_OI.shape[1])
    # An input or a column that is all zeros has no say.
    columns_I = weight_OI.abs().amax(dim=0).clamp_min(_NOTHING)
    return (largest_I.clamp_min(_NOTHING) / columns_I).sqrt()


def _float_product(x: Tensor, packed: Tensor, bias: Tensor | None) -> Tensor:
    out: Tensor = torch.ops.mkldnn._linear_pointwise.default(x, packed, bias, "none", [], "")
    return out


_int8_product = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32.default


def pack_linears(
    module: nn.Module, quantize: Quantization | None = None, *, calibrate: Callable[[], object] | None = None
) -> nn.Module:
    """Make every CPU `nn.Linear` below `module` a packed one, in place, parallel projections as one; returns `module`.

    `calibrate` runs `module` on some text; int8 layers round best what is like it.

    ConfigError: `quantize` on a device or a CPU whose int8 products would be slow or would overflow.
    """
    if quantize is not None:
        check_int8(next(module.parameters()).device)
    elif not torch.backends.mkldnn.is_available():
        return module
    for child in module.modules():
        if isinstance(child, SelfAttention | SwiGLU) and next(child.parameters()).device.type == "cpu":
            child.merge_projections()
    if quantize is None:
        _replace(module, PackedLinear)
    else:
        largest = {} if calibrate is None else _largest_inputs(module, calibrate)
        _replace(module, lambda linear: Int8Linear(linear, largest.get(linear)))
    return module


@torch.inference_mode()
def _largest_inputs(module: nn.Module, calibrate: Callable[[], object]) -> dict[nn.Module, Tensor]:
    """Largest magnitude of every input of every linear layer while `calibrate` runs."""
    largest: dict[nn.Module, Tensor] = {}

    def see(linear: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        most_I = inputs[0].detach().reshape(-1, inputs[0].shape[-1]).abs().amax(dim=0).float()
        largest[linear] = torch.maximum(largest[linear], most_I) if linear in largest else most_I

    hooks = [child.register_forward_pre_hook(see) for child in module.modules() if isinstance(child, nn.Linear)]
    try:
        calibrate()
    finally:
        for hook in hooks:
            hook.remove()
    return {linear: most_I.clone() for linear, most_I in largest.items()}


def check_int8(device: torch.device) -> None:
    """ConfigError unless int8 products are exact and fast here: FBGEMM on a CPU with VNNI."""
    if device.type != "cpu":
        raise ConfigError(f"quantize: int8 works on CPUs only; got device {device.type!r}; drop quantize")
    if not ("fbgemm" in torch.backends.quantized.supported_engines and torch.cpu._is_vnni_supported()):
        raise ConfigError("quantize: int8 needs an x86 CPU with VNNI and torch with FBGEMM; drop quantize")


def _replace(module: nn.Module, packed: Callable[[nn.Linear], nn.Module]) -> None:
    for name, child in module.named_children():
        if isinstance(child, nn.Linear) and child.weight.device.type == "cpu":
            setattr(module, name, packed(child))
        else:
            _replace(child, packed)
