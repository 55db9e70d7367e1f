// Views of npu tensors: PyTorch's own kernels, which compute sizes and strides alone, without a way through Python.
#include <ATen/core/Tensor.h>
#include <ATen/ops/_reshape_alias_ops.h>
#include <ATen/ops/as_strided_ops.h>
#include <ATen/ops/unfold_ops.h>
#include <ATen/ops/view_ops.h>
#include <torch/library.h>

namespace {

using Sizes = c10::SymIntArrayRef;
const c10::DispatchKeySet cpu(c10::DispatchKey::CPU), meta(c10::DispatchKey::Meta);

// Meta's would let it reach out of the storage.
at::Tensor as_strided(const at::Tensor& tensor, Sizes size, Sizes stride, std::optional<c10::SymInt> offset) {
  return at::_ops::as_strided::redispatch(cpu, tensor, size, stride, offset);
}

at::Tensor view(const at::Tensor& tensor, Sizes size) {
  return at::_ops::view::redispatch(meta, tensor, size);
}

at::Tensor reshape_alias(const at::Tensor& tensor, Sizes size, Sizes stride) {
  return at::_ops::_reshape_alias::redispatch(meta, tensor, size, stride);
}

at::Tensor unfold(const at::Tensor& tensor, int64_t dimension, int64_t size, int64_t step) {
  return at::_ops::unfold::redispatch(meta, tensor, dimension, size, step);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("as_strided", as_strided);
  m.impl("view", view);
  m.impl("_reshape_alias", reshape_alias);
  m.impl("unfold", unfold);
}
