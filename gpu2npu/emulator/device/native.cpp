// What every small operator on an npu tensor does, in C++: views, memory and its account, and the way to NumPy's arrays.
// All of it is in Python too (tensor.py, memory/, dispatch/uniform.py), which takes over wherever a call is not plain:
// what is Python's is registered for PrivateUse3, and what is here calls it there. NumPy does the arithmetic, but for
// HF32's rounding and the windows of convolutions, which are equal to its to the bit, for convolutions of images and norms,
// whose sums have another order, and for what pointwise.h has, whose functions are others.
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#include <numpy/arrayobject.h>

#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/_reshape_alias_ops.h>
#include <ATen/ops/as_strided_ops.h>
#include <ATen/ops/clone_ops.h>
#include <ATen/ops/empty_ops.h>
#include <ATen/ops/empty_strided_ops.h>
#include <ATen/ops/unfold_ops.h>
#include <ATen/ops/view_ops.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/library.h>

#include <chrono>
#include <memory>
#include <unordered_map>

#include "convolutions.h"
#include "norms.h"
#include "pointwise.h"

namespace {

using c10::DispatchKey;
using c10::ScalarType;
using Sizes = c10::SymIntArrayRef;
const c10::DispatchKeySet cpu(DispatchKey::CPU), meta(DispatchKey::Meta), python(DispatchKey::PrivateUse3);
constexpr auto npu = c10::DeviceType::PrivateUse1;
constexpr int kScalarTypes = static_cast<int>(ScalarType::NumOptions), kTypes = 512, kNpus = 128, kMostDimensions = 7;
constexpr int64_t kGranule = 512, kPadding = 32, kSmall = 1024 * 1024;  // as memory.py has them

// ---- Views: PyTorch's own kernels, which compute sizes and strides alone. Python names the operator in what they refuse.

template <class Make, class Again>
at::Tensor viewed(Make make, Again again) {
  try {
    return make();
  } catch (const c10::Error&) {
    return again();
  }
}

// Meta's would let it reach out of the storage.
at::Tensor as_strided(const at::Tensor& tensor, Sizes size, Sizes stride, std::optional<c10::SymInt> offset) {
  return viewed(
      [&] { return at::_ops::as_strided::redispatch(cpu, tensor, size, stride, offset); },
      [&] { return at::_ops::as_strided::redispatch(python, tensor, size, stride, offset); });
}

at::Tensor view(const at::Tensor& tensor, Sizes size) {
  return viewed(
      [&] { return at::_ops::view::redispatch(meta, tensor, size); },
      [&] { return at::_ops::view::redispatch(python, tensor, size); });
}

at::Tensor reshape_alias(const at::Tensor& tensor, Sizes size, Sizes stride) {
  return viewed(
      [&] { return at::_ops::_reshape_alias::redispatch(meta, tensor, size, stride); },
      [&] { return at::_ops::_reshape_alias::redispatch(python, tensor, size, stride); });
}

at::Tensor unfold(const at::Tensor& tensor, int64_t dimension, int64_t size, int64_t step) {
  return viewed(
      [&] { return at::_ops::unfold::redispatch(meta, tensor, dimension, size, step); },
      [&] { return at::_ops::unfold::redispatch(python, tensor, dimension, size, step); });
}

// ---- What PyTorch asks at each index and in each step of a backward pass: the answers of its own guard for Python back
// ends, which asks Python for the type of the device each time.

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return npu; }
  c10::Device getDevice() const override { return c10::Device(npu, 0); }
  c10::Device exchangeDevice(c10::Device) const override { return getDevice(); }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  c10::Stream getStream(c10::Device) const noexcept override { return c10::Stream(c10::Stream::DEFAULT, getDevice()); }
  c10::Stream getNewStream(c10::Device device, int) const override { return getStream(device); }
  c10::Stream exchangeStream(c10::Stream stream) const noexcept override { return getStream(stream.device()); }
  void record(void**, const c10::Stream&, const c10::DeviceIndex, const c10::EventFlag) const override {}
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeStream(const c10::Stream&) const override {}
};

// ---- Memory: the numbers of an NPU's account that each block changes, and the blocks, as memory.py has them.

struct Counters {
  PyObject_HEAD
  long long index, allocated, checked, reserved, allocations, freed, total;
};

PyMemberDef counters_members[] = {
    {"index", T_LONGLONG, offsetof(Counters, index), 0, nullptr},
    {"allocated", T_LONGLONG, offsetof(Counters, allocated), 0, nullptr},
    {"checked", T_LONGLONG, offsetof(Counters, checked), 0, nullptr},
    {"reserved", T_LONGLONG, offsetof(Counters, reserved), 0, nullptr},
    {"allocations", T_LONGLONG, offsetof(Counters, allocations), 0, nullptr},
    {"freed", T_LONGLONG, offsetof(Counters, freed), 0, nullptr},
    {"total", T_LONGLONG, offsetof(Counters, total), 0, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyTypeObject counters_type = {PyVarObject_HEAD_INIT(nullptr, 0)};

// A live block: its storage owns it, and with it the array. Called, it gives the array, or None after the storage died.
struct Block {
  PyObject_HEAD
  PyObject *array, *pool, *shape, *dtype, *key;
  long long size;
  ScalarType scalar;
};

void block_dealloc(PyObject* self) {
  auto* block = reinterpret_cast<Block*>(self);
  Py_XDECREF(block->array);
  Py_XDECREF(block->pool);
  Py_XDECREF(block->shape);
  Py_XDECREF(block->dtype);
  Py_XDECREF(block->key);
  Py_TYPE(self)->tp_free(self);
}

PyObject* block_call(PyObject* self, PyObject*, PyObject*) {
  PyObject* array = reinterpret_cast<Block*>(self)->array;
  return Py_NewRef(array ? array : Py_None);
}

PyMemberDef block_members[] = {
    {"pool", T_OBJECT, offsetof(Block, pool), READONLY, nullptr},
    {"shape", T_OBJECT, offsetof(Block, shape), 0, nullptr},
    {"dtype", T_OBJECT, offsetof(Block, dtype), READONLY, nullptr},
    {"key", T_OBJECT, offsetof(Block, key), READONLY, nullptr},
    {"size", T_LONGLONG, offsetof(Block, size), 0, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyTypeObject block_type = {PyVarObject_HEAD_INIT(nullptr, 0)};

// ---- What Python hands over in `begin`.

PyObject *blocks, *pool_of, *admit, *large_freed, *current_device, *plain_array, *plain_on_npu, *plain_host, *quiet;
PyTypeObject* unwatched;                // the class of `blocks` while nobody listens
PyObject* dtypes[kScalarTypes];         // torch.dtype by ScalarType; null for those that NumPy lacks
PyArray_Descr* descriptions[kScalarTypes];
int scalars[kTypes];                    // ScalarType by NumPy's number of a type, or -1
Counters* accounts[kNpus];
long long npus;                         // how many are visible, once the first tensor is made; none before and in forks

struct Gil {
  PyGILState_STATE state = PyGILState_Ensure();
  ~Gil() { PyGILState_Release(state); }
};

struct Owned {
  PyObject* object;
  explicit Owned(PyObject* object) : object(object) {}
  Owned(const Owned&) = delete;
  ~Owned() { Py_XDECREF(object); }
  PyArrayObject* array() const { return reinterpret_cast<PyArrayObject*>(object); }
  PyObject* release() { return std::exchange(object, nullptr); }
};

int set_block(PyObject* key, PyObject* block) {  // those who watch replace the class of the dictionary
  return Py_TYPE(blocks) == unwatched ? PyDict_SetItem(blocks, key, block) : PyObject_SetItem(blocks, key, block);
}

void release(void* context) {
  if (!Py_IsInitialized()) return;
  Gil gil;
  PyObject *kind, *error, *trace;
  PyErr_Fetch(&kind, &error, &trace);
  auto* block = static_cast<Block*>(context);
  auto* pool = reinterpret_cast<Counters*>(block->pool);
  int failed = Py_TYPE(blocks) == unwatched ? PyDict_DelItem(blocks, block->key) : PyObject_DelItem(blocks, block->key);
  pool->allocated -= block->size;
  pool->freed += 1;
  if (block->size > kSmall) {
    Owned done(PyObject_CallFunction(large_freed, "OL", block->pool, block->size));
    failed |= done.object == nullptr;
  }
  if (failed) PyErr_WriteUnraisable(reinterpret_cast<PyObject*>(block));
  Py_CLEAR(block->array);
  Py_DECREF(block);
  PyErr_Restore(kind, error, trace);
}

Counters* account(long long index) {
  if (index < 0 || index >= kNpus) return nullptr;
  if (!accounts[index]) accounts[index] = reinterpret_cast<Counters*>(PyObject_CallFunction(pool_of, "L", index));
  return accounts[index];
}

// The tensor over an array that nobody else uses, counted on an NPU. Undefined, with Python's error set, where there is
// no room; without an error where the array is not one of torch's dtypes.
at::Tensor wrap(PyArrayObject* values, long long index) {
  int number = PyArray_TYPE(values), scalar = number < kTypes ? scalars[number] : -1;
  if (scalar < 0 || !PyArray_ISBEHAVED(values)) return {};
  Counters* pool = account(index);
  if (!pool) return {};
  int64_t size = PyArray_NBYTES(values) ? (PyArray_NBYTES(values) + kPadding + kGranule - 1) & -kGranule : 0;
  int64_t item = PyArray_ITEMSIZE(values);
  if (pool->allocated + size > pool->checked || pool->allocated + size > pool->reserved || size > kSmall) {
    Owned done(PyObject_CallFunction(admit, "OL", pool, static_cast<long long>(size)));
    if (done.object != Py_True) return {};
  }
  int rank = PyArray_NDIM(values);
  c10::SmallVector<int64_t, 8> sizes(rank), strides(rank);
  bool is_whole = PyArray_IS_C_CONTIGUOUS(values);
  int64_t step = 1, extent = PyArray_SIZE(values) ? 1 : 0;
  for (int dimension = rank - 1; dimension >= 0; dimension--) {
    sizes[dimension] = PyArray_DIM(values, dimension);
    strides[dimension] = is_whole ? step : PyArray_STRIDE(values, dimension) / item;
    step *= std::max<int64_t>(sizes[dimension], 1);
    if (extent) extent += (sizes[dimension] - 1) * strides[dimension];
  }
  auto* block = PyObject_New(Block, &block_type);
  if (!block) return {};
  Owned shape(is_whole ? PyTuple_New(rank) : Py_NewRef(Py_None));
  for (int dimension = 0; is_whole && dimension < rank; dimension++)
    PyTuple_SET_ITEM(shape.object, dimension, PyLong_FromLongLong(sizes[dimension]));
  block->array = Py_NewRef(reinterpret_cast<PyObject*>(values));
  block->pool = Py_NewRef(reinterpret_cast<PyObject*>(pool));
  block->shape = shape.release();
  block->dtype = Py_NewRef(dtypes[scalar]);
  block->size = size;
  block->scalar = static_cast<ScalarType>(scalar);
  auto* object = reinterpret_cast<PyObject*>(block);
  block->key = size ? PyLong_FromVoidPtr(PyArray_DATA(values)) : PyLong_FromLongLong(-reinterpret_cast<intptr_t>(block));
  if (set_block(block->key, object)) {
    Py_DECREF(object);
    return {};
  }
  pool->allocated += size;
  pool->allocations += 1;
  pool->total += size;
  c10::Device device(npu, static_cast<c10::DeviceIndex>(index));
  c10::DataPtr data(PyArray_DATA(values), block, &release, device);
  auto storage = c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), extent * item, std::move(data), nullptr, false);
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(std::move(storage)), c10::DispatchKeySet(DispatchKey::PrivateUse1),
      c10::scalarTypeToTypeMeta(static_cast<ScalarType>(scalar)));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  return tensor;
}

Block* block_of(const at::Tensor& tensor) {
  if (!tensor.has_storage() || tensor.device().type() != npu) return nullptr;
  const c10::DataPtr& data = tensor.unsafeGetTensorImpl()->unsafe_storage().data_ptr();
  return data.get_deleter() == &release ? static_cast<Block*>(data.get_context()) : nullptr;
}

// Whether a tensor is what its block's array is, in shape, dtype and order.
bool fills(const at::Tensor& tensor, const Block* block) {
  if (block->shape == Py_None || tensor.scalar_type() != block->scalar || tensor.storage_offset()) return false;
  auto* values = reinterpret_cast<PyArrayObject*>(block->array);
  auto sizes = tensor.sizes();
  return static_cast<int>(sizes.size()) == PyArray_NDIM(values) &&
      std::equal(sizes.begin(), sizes.end(), PyArray_DIMS(values)) && tensor.is_contiguous();
}

PyObject* array(PyObject*, PyObject* given) {
  if (!THPVariable_Check(given)) return PyErr_Format(PyExc_TypeError, "not a tensor");
  const at::Tensor& tensor = THPVariable_Unpack(given);
  Block* block = block_of(tensor);
  if (block && fills(tensor, block)) return Py_NewRef(block->array);
  if (!block || block->shape == Py_None || tensor.scalar_type() != block->scalar)
    return PyObject_CallOneArg(plain_array, given);
  auto* whole = reinterpret_cast<PyArrayObject*>(block->array);
  int64_t item = PyArray_ITEMSIZE(whole), rank = tensor.dim();
  npy_intp sizes[NPY_MAXDIMS], strides[NPY_MAXDIMS];
  if (rank > NPY_MAXDIMS) return PyObject_CallOneArg(plain_array, given);
  for (int64_t dimension = 0; dimension < rank; dimension++) {
    sizes[dimension] = tensor.size(dimension);
    strides[dimension] = tensor.stride(dimension) * item;
  }
  PyArray_Descr* description = PyArray_DESCR(whole);
  Py_INCREF(description);
  char* start = PyArray_BYTES(whole) + tensor.storage_offset() * item;
  PyObject* part = PyArray_NewFromDescr(
      &PyArray_Type, description, static_cast<int>(rank), sizes, strides, start, NPY_ARRAY_WRITEABLE, nullptr);
  if (part && PyArray_SetBaseObject(reinterpret_cast<PyArrayObject*>(part), Py_NewRef(block->array)) < 0)
    Py_CLEAR(part);
  return part;
}

// The arrays of a list of tensors that fill theirs on one NPU, and its number; None for any other list.
PyObject* arrays(PyObject*, PyObject* given) {
  if (!PyList_Check(given) || !PyList_GET_SIZE(given)) Py_RETURN_NONE;
  Py_ssize_t count = PyList_GET_SIZE(given);
  Owned found(PyList_New(count));
  if (!found.object) return nullptr;
  PyObject* pool = nullptr;
  for (Py_ssize_t position = 0; position < count; position++) {
    PyObject* each = PyList_GET_ITEM(given, position);
    Block* block = THPVariable_Check(each) ? block_of(THPVariable_Unpack(each)) : nullptr;
    if (!block || (pool && block->pool != pool) || !fills(THPVariable_Unpack(each), block)) Py_RETURN_NONE;
    pool = block->pool;
    PyList_SET_ITEM(found.object, position, Py_NewRef(block->array));
  }
  return Py_BuildValue("(OL)", found.object, reinterpret_cast<Counters*>(pool)->index);
}

PyObject* on_npu(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  if (count != 2 || !PyArray_CheckExact(arguments[0])) return PyObject_Vectorcall(plain_on_npu, arguments, count, nullptr);
  long long index = PyLong_AsLongLong(arguments[1]);
  if (index == -1 && PyErr_Occurred()) return nullptr;
  at::Tensor tensor = wrap(reinterpret_cast<PyArrayObject*>(arguments[0]), index);
  if (tensor.defined()) return THPVariable_Wrap(std::move(tensor));
  return PyErr_Occurred() ? nullptr : PyObject_Vectorcall(plain_on_npu, arguments, count, nullptr);
}

PyObject* host(PyObject*, PyObject* given) {
  if (!THPVariable_Check(given)) return PyErr_Format(PyExc_TypeError, "not a tensor");
  const at::Tensor& tensor = THPVariable_Unpack(given);
  Block* block = block_of(tensor);
  if (!block) return PyObject_CallOneArg(plain_host, given);
  auto* held = new c10::Storage(tensor.storage());
  c10::DataPtr data(
      tensor.mutable_data_ptr(), held, [](void* storage) { delete static_cast<c10::Storage*>(storage); }, at::kCPU);
  auto bytes = at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(), tensor.itemsize());
  auto storage = c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), bytes, std::move(data), nullptr, false);
  auto alias = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(std::move(storage)), cpu, tensor.dtype());
  alias.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(), tensor.strides());
  return THPVariable_Wrap(std::move(alias));
}

// ---- Operators that make memory.

bool is_plain(std::optional<c10::MemoryFormat> format) {
  return !format || *format == c10::MemoryFormat::Contiguous || *format == c10::MemoryFormat::Preserve;
}

// An empty contiguous tensor, or an undefined one where Python has to look.
at::Tensor made(
    Sizes size, std::optional<ScalarType> dtype, std::optional<c10::Layout> layout, std::optional<c10::Device> device,
    std::optional<bool> pinned) {
  auto sizes = c10::asIntArrayRefSlowOpt(size);
  const at::Context& context = at::globalContext();
  if (context.deterministicAlgorithms() && context.deterministicFillUninitializedMemory()) return {};
  if (!npus || !sizes || sizes->size() > NPY_MAXDIMS || (layout && *layout != c10::kStrided) || (pinned && *pinned))
    return {};
  auto scalar = static_cast<int>(dtype.value_or(c10::get_default_dtype_as_scalartype()));
  PyArray_Descr* description = descriptions[scalar];
  if (!description) return {};
  int64_t bytes = PyDataType_ELSIZE(description);
  for (int64_t each : *sizes) {
    if (each < 0 || each > kSmall) return {};
    bytes *= each;
    if (bytes > kSmall) return {};
  }
  Gil gil;
  long long index = device && device->has_index() ? device->index() : -1;
  if (index < 0) {
    Owned current(PyObject_CallNoArgs(current_device));
    index = current.object ? PyLong_AsLongLong(current.object) : -1;
  }
  if (index < 0 || index >= npus) return PyErr_Clear(), at::Tensor();
  Py_INCREF(description);
  Owned values(PyArray_NewFromDescr(
      &PyArray_Type, description, static_cast<int>(sizes->size()), sizes->data(), nullptr, nullptr, 0, nullptr));
  at::Tensor tensor = values.object ? wrap(values.array(), index) : at::Tensor();
  if (!tensor.defined()) PyErr_Clear();
  return tensor;
}

at::Tensor empty(
    Sizes size, std::optional<ScalarType> dtype, std::optional<c10::Layout> layout, std::optional<c10::Device> device,
    std::optional<bool> pinned, std::optional<c10::MemoryFormat> format) {
  at::Tensor tensor = is_plain(format) ? made(size, dtype, layout, device, pinned) : at::Tensor();
  if (tensor.defined()) return tensor;
  return at::_ops::empty_memory_format::redispatch(python, size, dtype, layout, device, pinned, format);
}

at::Tensor empty_strided(
    Sizes size, Sizes stride, std::optional<ScalarType> dtype, std::optional<c10::Layout> layout,
    std::optional<c10::Device> device, std::optional<bool> pinned) {
  auto sizes = c10::asIntArrayRefSlowOpt(size), strides = c10::asIntArrayRefSlowOpt(stride);
  bool is_contiguous = sizes && strides && sizes->size() == strides->size();
  int64_t step = 1;
  for (auto dimension = is_contiguous ? static_cast<int64_t>(sizes->size()) - 1 : -1; dimension >= 0; dimension--) {
    is_contiguous = is_contiguous && (*strides)[dimension] == step;
    step *= std::max<int64_t>((*sizes)[dimension], 1);
  }
  at::Tensor tensor = is_contiguous ? made(size, dtype, layout, device, pinned) : at::Tensor();
  if (tensor.defined()) return tensor;
  return at::_ops::empty_strided::redispatch(python, size, stride, dtype, layout, device, pinned);
}

at::Tensor clone(const at::Tensor& self, std::optional<c10::MemoryFormat> format) {
  Block* block = is_plain(format) && !self.is_conj() && !self.is_neg() ? block_of(self) : nullptr;
  if (block && block->size <= kSmall) {
    Gil gil;
    if (fills(self, block)) {
      Owned values(PyArray_NewCopy(reinterpret_cast<PyArrayObject*>(block->array), NPY_CORDER));
      auto* pool = reinterpret_cast<Counters*>(block->pool);
      at::Tensor tensor = values.object ? wrap(values.array(), pool->index) : at::Tensor();
      if (tensor.defined()) return tensor;
      PyErr_Clear();
    }
  }
  return at::_ops::clone::redispatch(python, self, format);
}

// ---- Operators that are one function of NumPy's, as dispatch/uniform.py takes them.

struct Plan {
  PyObject *function, *entry;  // and the operator's calls and seconds
  int operands;                // the first is a condition where there are three
  bool in_place;
  uint64_t dtypes, with_numbers;  // bits by ScalarType: of all operands, and beside a number
};

// By operator; filled when Python has made the operator, which it does at the first call. They stay until the end.
std::unordered_map<std::string, Plan*> plans;

bool is_in(ScalarType scalar, uint64_t dtypes) {
  return static_cast<int>(scalar) < 64 && (dtypes >> static_cast<int>(scalar) & 1);
}

PyObject* number(const c10::IValue& value) {  // of Python; null for what is none, or true or complex
  if (value.isDouble()) return PyFloat_FromDouble(value.toDouble());
  if (value.isInt()) return PyLong_FromLongLong(value.toInt());
  if (!value.isTensor()) return nullptr;
  const at::Tensor& tensor = value.toTensor();
  if (!tensor.defined() || !tensor.unsafeGetTensorImpl()->is_wrapped_number() || !tensor.is_cpu()) return nullptr;
  if (tensor.scalar_type() == at::kDouble) return PyFloat_FromDouble(*tensor.const_data_ptr<double>());
  if (tensor.scalar_type() == at::kLong) return PyLong_FromLongLong(*tensor.const_data_ptr<int64_t>());
  return nullptr;
}

PyObject* quiet_context() {  // one a thread: a context is entered once at a time
  thread_local PyObject* context = PyContext_Copy(quiet);
  return context;
}

// The result, undefined where Python has to look.
at::Tensor computed(const Plan& plan, const c10::IValue* given, size_t count) {
  PyObject* arguments[4];
  Owned scalar(nullptr);
  Block* like = nullptr;
  for (int position = 0; position < plan.operands; position++) {
    bool is_condition = plan.operands == 3 && !position;
    Block* block = given[position].isTensor() ? block_of(given[position].toTensor()) : nullptr;
    if (!block) {
      if (position != 1 || plan.operands != 2 || !is_in(like->scalar, plan.with_numbers)) return {};
      scalar.object = number(given[position]);
      if (!scalar.object) return {};
      arguments[position] = scalar.object;
      continue;
    }
    const at::Tensor& tensor = given[position].toTensor();
    if (!fills(tensor, block) || !tensor.dim() || tensor.dim() > kMostDimensions) return {};
    if (is_condition ? block->scalar != ScalarType::Bool : !is_in(block->scalar, plan.dtypes)) return {};
    if (like && block->pool != like->pool) return {};
    if (!is_condition && position && (plan.operands != 3 || position == 2) && block->scalar != like->scalar) return {};
    if (plan.in_place && position && !given[0].toTensor().sizes().equals(tensor.sizes())) return {};
    arguments[position] = block->array;
    like = block;
  }
  for (size_t position = plan.operands; position < count; position++)  // alpha
    if (!given[position].isInt() || given[position].toInt() != 1) return {};
  int passed = plan.operands;
  if (plan.in_place) arguments[passed++] = arguments[0];
  PyObject* context = quiet_context();
  if (PyContext_Enter(context)) return {};
  Owned result(PyObject_Vectorcall(plan.function, arguments, passed, nullptr));
  if (PyContext_Exit(context) || !result.object) return {};
  if (plan.in_place) return given[0].toTensor();
  if (!PyArray_CheckExact(result.object) || !PyArray_IS_C_CONTIGUOUS(result.array())) return {};
  return wrap(result.array(), reinterpret_cast<Counters*>(like->pool)->index);
}

struct Uniform : c10::OperatorKernel {
  explicit Uniform(Plan** plan) : plan(plan) {}
  Plan** plan;

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
    if (const Plan* known = *plan) {
      auto start = std::chrono::steady_clock::now();
      size_t count = op.schema().arguments().size();
      Gil gil;
      at::Tensor result = computed(*known, stack->data() + stack->size() - count, count);
      if (result.defined()) {
        std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
        PyObject *calls = PyList_GET_ITEM(known->entry, 0), *spent = PyList_GET_ITEM(known->entry, 1);
        PyList_SetItem(known->entry, 0, PyLong_FromLongLong(static_cast<long long>(PyFloat_AsDouble(calls)) + 1));
        PyList_SetItem(known->entry, 1, PyFloat_FromDouble(PyFloat_AsDouble(spent) + seconds.count()));
        torch::jit::drop(*stack, count);
        stack->emplace_back(std::move(result));
        return;
      }
      PyErr_Clear();
    }
    op.callBoxedForDispatchKey(DispatchKey::PrivateUse3, *stack);
  }
};

// ---- Python's functions of this module.

uint64_t bits(PyObject* given) {
  uint64_t found = 0;
  Owned iterator(PyObject_GetIter(given));
  while (iterator.object) {
    Owned each(PyIter_Next(iterator.object));
    if (!each.object) break;
    if (THPDtype_Check(each.object)) found |= 1ull << static_cast<int>(reinterpret_cast<THPDtype*>(each.object)->scalar_type);
  }
  return found;
}

torch::Library& library() {  // stays until the end
  static auto* kept = new torch::Library(torch::Library::IMPL, "aten", DispatchKey::PrivateUse1, __FILE__, __LINE__);
  return *kept;
}

PyObject* views(PyObject*, PyObject*) {
  library().impl("as_strided", as_strided);
  library().impl("view", view);
  library().impl("_reshape_alias", reshape_alias);
  library().impl("unfold", unfold);
  static const Guard guard;
  c10::impl::device_guard_impl_registry[static_cast<size_t>(npu)].store(&guard);
  Py_RETURN_NONE;
}

PyObject* factories(PyObject*, PyObject*) {
  library().impl("empty.memory_format", empty);
  library().impl("empty_strided", empty_strided);
  library().impl("clone", clone);
  Py_RETURN_NONE;
}

PyObject* begin(PyObject*, PyObject* arguments) {
  PyObject* kinds;
  if (!PyArg_ParseTuple(
          arguments, "OOOOOOOOOO", &blocks, &pool_of, &admit, &large_freed, &current_device, &plain_array, &plain_on_npu,
          &plain_host, &quiet, &kinds))
    return nullptr;
  Py_INCREF(arguments);  // and all in it, until the end
  unwatched = Py_TYPE(blocks);
  std::fill_n(scalars, kTypes, -1);
  PyObject *key, *value;
  for (Py_ssize_t position = 0; PyDict_Next(kinds, &position, &key, &value);) {
    auto scalar = static_cast<int>(reinterpret_cast<THPDtype*>(key)->scalar_type);
    dtypes[scalar] = key;
    descriptions[scalar] = reinterpret_cast<PyArray_Descr*>(value);
    if (descriptions[scalar]->type_num < kTypes) scalars[descriptions[scalar]->type_num] = scalar;
  }
  Py_RETURN_NONE;
}

PyObject* visible(PyObject*, PyObject* count) {
  npus = PyLong_AsLongLong(count);
  if (npus == -1 && PyErr_Occurred()) return nullptr;
  Py_RETURN_NONE;
}

PyObject* accept(PyObject*, PyObject* name) {
  const char* text = PyUnicode_AsUTF8(name);
  if (!text) return nullptr;
  Plan** plan = &plans[text];  // whose place does not change
  library().impl(text, torch::CppFunction::makeFromBoxedFunctor(std::make_unique<Uniform>(plan)));
  Py_RETURN_NONE;
}

PyObject* plan(PyObject*, PyObject* arguments) {
  const char* name;
  PyObject *function, *entry, *all, *beside;
  int operands, in_place;
  if (!PyArg_ParseTuple(arguments, "sOO!ipOO", &name, &function, &PyList_Type, &entry, &operands, &in_place, &all, &beside))
    return nullptr;
  auto found = plans.find(name);
  if (found != plans.end())
    found->second = new Plan{Py_NewRef(function), Py_NewRef(entry), operands, in_place != 0, bits(all), bits(beside)};
  Py_RETURN_NONE;
}

// ---- Windows of images, for convolutions: NumPy copies and adds them up a short row at a time. Both give the same.

struct Geometry {
  int64_t stride[2], padding[2], dilation[2];

  // The outputs [first, last) of `count` whose place in a row or column of `size` is none of the padding.
  std::pair<int64_t, int64_t> inside(int axis, int64_t tap, int64_t size, int64_t count) const {
    int64_t from = tap * dilation[axis] - padding[axis], step = stride[axis];
    int64_t last = from < size ? std::min(count, (size - from - 1) / step + 1) : 0;
    return {std::min(from < 0 ? (step - 1 - from) / step : 0, last), last};
  }
};

// Rows of an image and of its windows, as `copy(image row, window row, first, last, step)` is given them.
template <class T, class Copy>
void each_row(PyArrayObject* image, PyArrayObject* windows, const Geometry& g, Copy copy) {
  npy_intp *i = PyArray_STRIDES(image), *w = PyArray_STRIDES(windows);
  npy_intp *size = PyArray_DIMS(image), *count = PyArray_DIMS(windows);
  for (int64_t n = 0; n < count[0]; ++n)
    for (int64_t c = 0; c < count[1]; ++c)
      for (int64_t ky = 0; ky < count[2]; ++ky)
        for (int64_t kx = 0; kx < count[3]; ++kx) {
          auto [top, bottom] = g.inside(0, ky, size[2], count[4]);
          auto [first, last] = g.inside(1, kx, size[3], count[5]);
          char* plane = PyArray_BYTES(image) + n * i[0] + c * i[1];
          char* window = PyArray_BYTES(windows) + n * w[0] + c * w[1] + ky * w[2] + kx * w[3];
          int64_t from = kx * g.dilation[1] - g.padding[1];
          for (int64_t y = 0; y < count[4]; ++y) {
            bool is_inside = y >= top && y < bottom;
            int64_t row = y * g.stride[0] + ky * g.dilation[0] - g.padding[0];
            copy(
                reinterpret_cast<T*>(plane + (is_inside ? row * i[2] : 0)) + from, reinterpret_cast<T*>(window + y * w[4]),
                is_inside ? first : 0, is_inside ? last : 0, g.stride[1]);
          }
        }
}

template <class T>
void unfold_rows(PyArrayObject* image, PyArrayObject* windows, const Geometry& g) {
  int64_t width = PyArray_DIM(windows, 5);
  each_row<T>(image, windows, g, [width](const T* from, T* to, int64_t first, int64_t last, int64_t step) {
    std::fill(to, to + first, T());
    if (step == 1) std::copy(from + first, from + last, to + first);
    else for (int64_t x = first; x < last; ++x) to[x] = from[x * step];
    std::fill(to + last, to + width, T());
  });
}

template <class T>
void fold_rows(PyArrayObject* image, PyArrayObject* windows, const Geometry& g) {
  std::fill_n(static_cast<T*>(PyArray_DATA(image)), PyArray_SIZE(image), T());
  each_row<T>(image, windows, g, [](T* to, const T* from, int64_t first, int64_t last, int64_t step) {
    if (step == 1) for (int64_t x = first; x < last; ++x) to[x] += from[x];
    else for (int64_t x = first; x < last; ++x) to[x * step] += from[x];
  });
}

// Whether the arrays are the image (N, C, H, W) and the windows (N, C, kernel, out) that a move can read by rows.
PyObject* moved(PyObject* arguments, bool is_unfolding) {
  PyArrayObject *image, *windows;
  Geometry g;
  if (!PyArg_ParseTuple(
          arguments, "O!O!(LLLLLL)", &PyArray_Type, &image, &PyArray_Type, &windows, g.stride, g.stride + 1, g.padding,
          g.padding + 1, g.dilation, g.dilation + 1))
    return nullptr;
  int size = PyArray_ITEMSIZE(image), type = PyArray_TYPE(image);
  bool is_plain = PyArray_NDIM(image) == 4 && PyArray_NDIM(windows) == 6 && PyArray_TYPE(windows) == type &&
      (type == NPY_FLOAT32 || type == NPY_FLOAT64) && PyArray_ISALIGNED(image) && PyArray_ISALIGNED(windows);
  is_plain = is_plain && (PyArray_STRIDE(image, 3) == size || PyArray_DIM(image, 3) < 2) &&
      (PyArray_STRIDE(windows, 5) == size || PyArray_DIM(windows, 5) < 2) &&
      (is_unfolding ? PyArray_ISWRITEABLE(windows) : PyArray_IS_C_CONTIGUOUS(image) && PyArray_ISWRITEABLE(image));
  if (!is_plain) Py_RETURN_FALSE;
  Py_BEGIN_ALLOW_THREADS;
  if (type == NPY_FLOAT32) (is_unfolding ? unfold_rows<float> : fold_rows<float>)(image, windows, g);
  else (is_unfolding ? unfold_rows<double> : fold_rows<double>)(image, windows, g);
  Py_END_ALLOW_THREADS;
  Py_RETURN_TRUE;
}

// float32 rounded to HF32, ties to even (dispatch/cube.py), from one array in C order into another as large.
PyObject* hf32(PyObject*, PyObject* arguments) {
  PyArrayObject *values, *result;
  if (!PyArg_ParseTuple(arguments, "O!O!", &PyArray_Type, &values, &PyArray_Type, &result)) return nullptr;
  if (PyArray_TYPE(values) != NPY_FLOAT32 || PyArray_TYPE(result) != NPY_FLOAT32 || !PyArray_IS_C_CONTIGUOUS(values) ||
      !PyArray_ISCARRAY(result) || !PyArray_ISALIGNED(values) || PyArray_SIZE(values) != PyArray_SIZE(result))
    Py_RETURN_FALSE;
  auto* from = static_cast<const uint32_t*>(PyArray_DATA(values));
  auto* to = static_cast<uint32_t*>(PyArray_DATA(result));
  npy_intp count = PyArray_SIZE(values);
  Py_BEGIN_ALLOW_THREADS;
  for (npy_intp at = 0; at < count; ++at) {
    uint32_t bits = from[at], is_nan = (bits & 0x7fffffff) > 0x7f800000;  // whose exponent a carry would leave
    to[at] = (bits + (is_nan ? 0 : ((bits >> 12) & 1) + 0x7ff)) & 0xfffff000;
  }
  Py_END_ALLOW_THREADS;
  Py_RETURN_TRUE;
}

// A direction of a convolution, by `what` it computes: "result", "image" or "weight", into the last array; for a weight
// of the output channels [first, last). False where the arrays or the machine are not for it.
PyObject* convolved(PyObject*, PyObject* arguments) {
  const char* what;
  PyArrayObject* given[3];
  Geometry g;
  long long first, last;
  if (!PyArg_ParseTuple(
          arguments, "sO!O!O!(LLLLLL)LL", &what, &PyArray_Type, given, &PyArray_Type, given + 1, &PyArray_Type, given + 2,
          g.stride, g.stride + 1, g.padding, g.padding + 1, g.dilation, g.dilation + 1, &first, &last))
    return nullptr;
  for (PyArrayObject* each : given)
    if (PyArray_NDIM(each) != 4 || PyArray_TYPE(each) != NPY_FLOAT32 || !PyArray_IS_C_CONTIGUOUS(each) ||
        !PyArray_ISALIGNED(each) || !PyArray_SIZE(each))
      Py_RETURN_FALSE;
  if (!direct::kernel.rows || !PyArray_ISWRITEABLE(given[2])) Py_RETURN_FALSE;
  auto planes = [](PyArrayObject* array) {
    npy_intp* size = PyArray_DIMS(array);
    return direct::Planes{size[0], size[1], {size[2], size[3]}};
  };
  float* data[3];
  for (int i = 0; i < 3; ++i) data[i] = static_cast<float*>(PyArray_DATA(given[i]));
  direct::Planes weight = planes(given[*what == 'w' ? 2 : 1]);
  Py_BEGIN_ALLOW_THREADS;
  if (*what == 'w')
    direct::weight_gradient(data[0], planes(given[0]), data[1], planes(given[1]), first, last, weight.size, data[2], g);
  else if (*what == 'i')
    direct::image_gradient(data[0], planes(given[0]), data[1], weight.size, data[2], planes(given[2]), g);
  else
    direct::forward(data[0], planes(given[0]), data[1], weight.size, data[2], planes(given[2]), g);
  Py_END_ALLOW_THREADS;
  Py_RETURN_TRUE;
}

bool fits(PyArrayObject* array, int type, bool is_written) {
  return PyArray_TYPE(array) == type && PyArray_IS_C_CONTIGUOUS(array) && PyArray_ISALIGNED(array) &&
      (!is_written || PyArray_ISWRITEABLE(array));
}

template <class T = float>
T* data_of(PyArrayObject* array) {
  return static_cast<T*>(PyArray_DATA(array));
}

// The rows [first, last) of x, weight and bias: the result, means and variances, into the last three.
PyObject* normalised(PyObject*, PyObject* arguments) {
  PyArrayObject* a[6];
  float eps;
  norms::Rows g;
  long long first, last;
  if (!PyArg_ParseTuple(
          arguments, "O!O!O!O!O!O!f(LLLLLLLL)LL", &PyArray_Type, a, &PyArray_Type, a + 1, &PyArray_Type, a + 2,
          &PyArray_Type, a + 3, &PyArray_Type, a + 4, &PyArray_Type, a + 5, &eps, &g.runs, &g.length, &g.row, &g.run,
          &g.period, &g.of_row, &g.of_run, &g.of_value, &first, &last))
    return nullptr;
  for (int i = 0; i < 6; ++i)
    if (!fits(a[i], NPY_FLOAT32, i > 2)) return PyErr_Format(PyExc_TypeError, "array %d", i);
  Py_BEGIN_ALLOW_THREADS;
  norms::forward(
      data_of(a[0]), data_of(a[1]), data_of(a[2]), eps, data_of(a[3]), data_of(a[4]), data_of(a[5]), g, first, last);
  Py_END_ALLOW_THREADS;
  Py_RETURN_NONE;
}

// The gradients of rows from those of their results, x, means, inverse deviations and weight: for x, unless its array has
// no elements, and added to the sums of weights and of biases.
PyObject* norm_gradient(PyObject*, PyObject* arguments) {
  PyArrayObject* a[7];
  norms::Rows g;
  long long first, last;
  if (!PyArg_ParseTuple(
          arguments, "O!O!O!O!O!O!O!(LLLLLLLL)LL", &PyArray_Type, a, &PyArray_Type, a + 1, &PyArray_Type, a + 2,
          &PyArray_Type, a + 3, &PyArray_Type, a + 4, &PyArray_Type, a + 5, &PyArray_Type, a + 6, &g.runs, &g.length,
          &g.row, &g.run, &g.period, &g.of_row, &g.of_run, &g.of_value, &first, &last))
    return nullptr;
  for (int i = 0; i < 7; ++i)
    if (!fits(a[i], i == 6 ? NPY_FLOAT64 : NPY_FLOAT32, i > 4)) return PyErr_Format(PyExc_TypeError, "array %d", i);
  Py_BEGIN_ALLOW_THREADS;
  norms::gradient(
      data_of(a[0]), data_of(a[1]), data_of(a[2]), data_of(a[3]), data_of(a[4]),
      PyArray_SIZE(a[5]) ? data_of(a[5]) : nullptr, data_of<double>(a[6]), PyArray_SIZE(a[6]) / 2, g, first, last);
  Py_END_ALLOW_THREADS;
  Py_RETURN_NONE;
}

// A function of pointwise.h, by its name, of one or two arrays and a number, into the first. False where the arrays are
// not for it.
PyObject* each_value(PyObject*, PyObject* arguments) {
  const char* name;
  float number;
  PyArrayObject* a[3] = {};
  if (!PyArg_ParseTuple(
          arguments, "sfO!O!|O!", &name, &number, &PyArray_Type, a, &PyArray_Type, a + 1, &PyArray_Type, a + 2))
    return nullptr;
  auto function = pointwise::found(name, a[2] ? 2 : 1);
  for (int i = 0; i < (a[2] ? 3 : 2); ++i)
    if (!function || !fits(a[i], NPY_FLOAT32, !i) || !PyArray_SAMESHAPE(a[i], a[0])) Py_RETURN_FALSE;
  Py_BEGIN_ALLOW_THREADS;
  function(data_of(a[0]), data_of(a[1]), a[2] ? data_of(a[2]) : nullptr, number, PyArray_SIZE(a[0]));
  Py_END_ALLOW_THREADS;
  Py_RETURN_TRUE;
}

// The data of a tuple of float32 arrays in C order, of which those of a bit in `written` are written; false with an error.
template <int Count>
bool pointers(PyObject* tuple, unsigned written, float** data) {
  if (!PyTuple_Check(tuple) || PyTuple_GET_SIZE(tuple) != Count) return PyErr_Format(PyExc_TypeError, "%d arrays", Count) != nullptr;
  for (int i = 0; i < Count; ++i) {
    PyObject* each = PyTuple_GET_ITEM(tuple, i);
    if (!PyArray_Check(each) || !fits(reinterpret_cast<PyArrayObject*>(each), NPY_FLOAT32, written >> i & 1))
      return PyErr_Format(PyExc_TypeError, "array %d", i) != nullptr;
    data[i] = data_of(reinterpret_cast<PyArrayObject*>(each));
  }
  return true;
}

PyObject* lstm(PyObject*, PyObject* arguments) {
  PyObject* arrays;
  long long rows, width;
  float* a[6];
  if (!PyArg_ParseTuple(arguments, "OLL", &arrays, &rows, &width) || !pointers<6>(arrays, 0b111001, a)) return nullptr;
  pointwise::lstm(a[0], a[1], a[2], a[3], a[4], a[5], rows, width);
  Py_RETURN_NONE;
}

PyObject* lstm_gradient(PyObject*, PyObject* arguments) {
  PyObject* arrays;
  long long rows, width;
  float* a[9];
  if (!PyArg_ParseTuple(arguments, "OLL", &arrays, &rows, &width) || !pointers<9>(arrays, 0b110000000, a)) return nullptr;
  pointwise::lstm_gradient(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], rows, width);
  Py_RETURN_NONE;
}

PyObject* unfolded(PyObject*, PyObject* arguments) { return moved(arguments, true); }

PyObject* folded(PyObject*, PyObject* arguments) { return moved(arguments, false); }

PyMethodDef methods[] = {
    {"convolved", convolved, METH_VARARGS, nullptr},
    {"normalised", normalised, METH_VARARGS, nullptr},
    {"norm_gradient", norm_gradient, METH_VARARGS, nullptr},
    {"each_value", each_value, METH_VARARGS, nullptr},
    {"lstm", lstm, METH_VARARGS, nullptr},
    {"lstm_gradient", lstm_gradient, METH_VARARGS, nullptr},
    {"unfolded", unfolded, METH_VARARGS, nullptr},
    {"folded", folded, METH_VARARGS, nullptr},
    {"hf32", hf32, METH_VARARGS, nullptr},
    {"array", array, METH_O, nullptr},
    {"on_npu", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(on_npu)), METH_FASTCALL, nullptr},
    {"arrays", arrays, METH_O, nullptr},
    {"host", host, METH_O, nullptr},
    {"views", views, METH_NOARGS, nullptr},
    {"factories", factories, METH_NOARGS, nullptr},
    {"begin", begin, METH_VARARGS, nullptr},
    {"visible", visible, METH_O, nullptr},
    {"accept", accept, METH_O, nullptr},
    {"plan", plan, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef module = {PyModuleDef_HEAD_INIT, "native", nullptr, -1, methods};

}  // namespace

PyMODINIT_FUNC PyInit_native() {
  import_array();
  counters_type.tp_name = "gpu2npu.Counters";
  counters_type.tp_basicsize = sizeof(Counters);
  counters_type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE;
  counters_type.tp_members = counters_members;
  counters_type.tp_new = PyType_GenericNew;
  block_type.tp_name = "gpu2npu.Block";
  block_type.tp_basicsize = sizeof(Block);
  block_type.tp_flags = Py_TPFLAGS_DEFAULT;
  block_type.tp_members = block_members;
  block_type.tp_dealloc = block_dealloc;
  block_type.tp_call = block_call;
  if (PyType_Ready(&counters_type) || PyType_Ready(&block_type)) return nullptr;
  PyObject* made = PyModule_Create(&module);
  if (made && PyModule_AddObjectRef(made, "Counters", reinterpret_cast<PyObject*>(&counters_type))) Py_CLEAR(made);
  return made;
}
