// SPDX-License-Identifier: GPL-3.0-or-later
// A device of PyTorch's private-use kind that lives in host memory: it counts what is allocated,
// can refuse more than a limit, and can leave the expensive operators uncomputed.
// Everything that is not here goes through PyTorch's own CPU fallback.
#include <ATen/EmptyTensor.h>
#include <ATen/Functions.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

namespace {

constexpr auto kDevice = c10::DeviceType::PrivateUse1;
constexpr size_t kAlignment = 64;

std::mutex guard_of_counters;
int64_t allocated = 0, highest = 0, limit = -1, operators = 0;
bool like_cuda = false, skip_compute = false;

struct Block {
  void* memory;
  int64_t bytes;
};

void release(void* context) {
  auto* block = static_cast<Block*>(context);
  {
    std::lock_guard<std::mutex> lock(guard_of_counters);
    allocated -= block->bytes;
  }
  std::free(block->memory);
  delete block;
}

void take(int64_t bytes) {
  std::lock_guard<std::mutex> lock(guard_of_counters);
  if (limit >= 0 && allocated + bytes > limit) {
    if (like_cuda) {
      TORCH_CHECK_WITH(OutOfMemoryError, false, "CUDA out of memory. Tried to allocate ",
                       bytes / 1048576.0, " MiB. GPU 0 has a total capacity of ",
                       limit / 1048576.0, " MiB of which ", (limit - allocated) / 1048576.0,
                       " MiB is free.");
    }
    TORCH_CHECK(false, "Could not allocate tensor with ", bytes,
                " bytes. There is not enough GPU video memory available!");
  }
  allocated += bytes;
  highest = std::max(highest, allocated);
}

struct CountingAllocator final : at::Allocator {
  at::DataPtr allocate(size_t bytes) override {
    take(static_cast<int64_t>(bytes));
    size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    void* memory = bytes ? std::aligned_alloc(kAlignment, rounded) : nullptr;
    return {memory, new Block{memory, static_cast<int64_t>(bytes)}, &release,
            at::Device(kDevice, 0)};
  }
  at::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }
};

CountingAllocator allocator;
REGISTER_ALLOCATOR(kDevice, &allocator);

struct OneDeviceGuard final : c10::impl::DeviceGuardImplInterface {
  c10::Device device() const { return c10::Device(kDevice, 0); }
  c10::DeviceType type() const override { return kDevice; }
  c10::Device exchangeDevice(c10::Device) const override { return device(); }
  c10::Device getDevice() const override { return device(); }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device) const noexcept override {
    return c10::Stream(c10::Stream::DEFAULT, device());
  }
  c10::Stream exchangeStream(c10::Stream) const noexcept override {
    return c10::Stream(c10::Stream::DEFAULT, device());
  }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  void synchronizeDevice(const c10::DeviceIndex) const override {}
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, OneDeviceGuard);

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return 1; }
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
};

at::Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> dtype,
                 std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>,
                 std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(size, &allocator, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                   c10::dtype_or_default(dtype), format);
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef strides,
                         std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                         std::optional<at::Device>, std::optional<bool>) {
  return at::detail::empty_strided_generic(size, strides, &allocator,
                                           c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                           c10::dtype_or_default(dtype));
}

// The same memory as a tensor of the CPU.
at::Tensor on_host(const at::Tensor& value) {
  if (value.device().is_cpu()) return value;
  return at::from_blob(const_cast<void*>(value.const_data_ptr()), value.sizes(), value.strides(),
                       at::TensorOptions().dtype(value.scalar_type()));
}

std::optional<at::Tensor> on_host(const std::optional<at::Tensor>& value) {
  if (!value || !value->defined()) return std::nullopt;
  return on_host(*value);
}

at::Tensor on_device(const at::Tensor& value) {
  auto made = empty_strided(value.sizes(), value.strides(), value.scalar_type(), {}, {}, {});
  on_host(made).copy_(value);
  return made;
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool) {
  if (!skip_compute) on_host(to).copy_(on_host(from));
  return to;
}

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  if (to.sizes() != from.sizes()) to.resize_(from.sizes());
  on_host(to).copy_(on_host(from));
  return to;
}

at::Scalar item(const at::Tensor& value) { return on_host(value).item(); }

const at::Tensor& resize(const at::Tensor& self, at::IntArrayRef size,
                         std::optional<at::MemoryFormat>) {
  auto* tensor = self.unsafeGetTensorImpl();
  tensor->set_sizes_contiguous(size);
  size_t needed = (tensor->numel() + tensor->storage_offset()) * tensor->itemsize();
  if (self.storage().nbytes() < needed) {
    c10::Storage storage = self.storage();
    auto memory = allocator.allocate(needed);
    if (storage.nbytes()) std::memcpy(memory.get(), storage.data(), storage.nbytes());
    storage.set_data_ptr(std::move(memory));
    storage.set_nbytes(needed);
  }
  return self;
}

at::Tensor& set_storage(at::Tensor& self, at::Storage storage, int64_t offset,
                        at::IntArrayRef size, at::IntArrayRef strides) {
  auto* tensor = self.unsafeGetTensorImpl();
  tensor->set_storage_keep_dtype(std::move(storage));
  tensor->set_sizes_and_strides(size, strides);
  tensor->set_storage_offset(offset);
  return self;
}

at::Tensor& set_whole_storage(at::Tensor& self, at::Storage storage) {
  int64_t count = static_cast<int64_t>(storage.nbytes()) / self.itemsize();
  return set_storage(self, std::move(storage), 0, {count}, {1});
}

at::Tensor convolution(const at::Tensor& input, const at::Tensor& weight,
                       const std::optional<at::Tensor>& bias, at::IntArrayRef stride,
                       at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
                       at::IntArrayRef output_padding, int64_t groups) {
  operators++;
  if (skip_compute && !transposed) {
    std::vector<int64_t> size{input.size(0), weight.size(0)};
    for (size_t side = 0; side < stride.size(); side++) {
      int64_t reach = dilation[side] * (weight.size(side + 2) - 1) + 1;
      size.push_back((input.size(side + 2) + 2 * padding[side] - reach) / stride[side] + 1);
    }
    return empty(size, input.scalar_type(), {}, {}, {}, input.suggest_memory_format());
  }
  return on_device(at::convolution(on_host(input), on_host(weight), on_host(bias), stride, padding,
                                   dilation, transposed, output_padding, groups));
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> group_norm(
    const at::Tensor& input, const std::optional<at::Tensor>& weight,
    const std::optional<at::Tensor>& bias, int64_t samples, int64_t channels, int64_t pixels,
    int64_t groups, double eps) {
  operators++;
  if (skip_compute) {
    return {at::empty_like(input), empty({samples, groups}, input.scalar_type(), {}, {}, {}, {}),
            empty({samples, groups}, input.scalar_type(), {}, {}, {}, {})};
  }
  auto [value, mean, deviation] = at::native_group_norm(
      on_host(input), on_host(weight), on_host(bias), samples, channels, pixels, groups, eps);
  return {on_device(value), on_device(mean), on_device(deviation)};
}

// Shapes without values: an operator on PyTorch's meta device.
class Shapes {
 public:
  c10::IValue of(const c10::IValue& value) {
    if (value.isTensor() && value.toTensor().defined()) return of(value.toTensor());
    if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(of(tensor));
      return list;
    }
    if (value.isDevice()) return at::Device(at::kMeta);
    return value;
  }

  // What an operator returned: one of its arguments, or a new tensor of that shape.
  c10::IValue made(const c10::IValue& value) const {
    if (value.isTensor() && value.toTensor().defined()) return made(value.toTensor());
    if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(made(tensor));
      return list;
    }
    return value;
  }

 private:
  at::Tensor of(const at::Tensor& tensor) {
    auto shape = at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(at::kMeta));
    known_.emplace_back(shape, tensor);
    return shape;
  }

  at::Tensor made(const at::Tensor& shape) const {
    for (const auto& [of, tensor] : known_) {
      if (of.is_same(shape)) return tensor;
    }
    return empty_strided(shape.sizes(), shape.strides(), shape.scalar_type(), {}, {}, {});
  }

  std::vector<std::pair<at::Tensor, at::Tensor>> known_;
};

void only_allocate(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Shapes shapes;
  size_t count = op.schema().arguments().size();
  for (size_t index = stack->size() - count; index < stack->size(); index++) {
    (*stack)[index] = shapes.of((*stack)[index]);
  }
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::Meta), stack);
  for (size_t index = stack->size() - op.schema().returns().size(); index < stack->size(); index++) {
    (*stack)[index] = shapes.made((*stack)[index]);
  }
}

void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  operators++;
  if (skip_compute) {
    only_allocate(op, stack);
  } else {
    at::native::cpu_fallback(op, stack);
  }
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("empty.memory_format", TORCH_FN(empty));
  library.impl("empty_strided", TORCH_FN(empty_strided));
  library.impl("_copy_from", TORCH_FN(copy_from));
  library.impl("_copy_from_and_resize", TORCH_FN(copy_from_and_resize));
  library.impl("_local_scalar_dense", TORCH_FN(item));
  library.impl("resize_", TORCH_FN(resize));
  library.impl("set_.source_Storage_storage_offset", TORCH_FN(set_storage));
  library.impl("set_.source_Storage", TORCH_FN(set_whole_storage));
  library.impl("as_strided", TORCH_FN(at::native::as_strided_tensorimpl));
  library.impl("view", TORCH_FN(at::native::view));
  library.impl("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  library.impl("alias", TORCH_FN(at::native::alias));
  library.impl("unfold", TORCH_FN(at::native::unfold));
  library.impl("convolution_overrideable", TORCH_FN(convolution));
  library.impl("native_group_norm", TORCH_FN(group_norm));
}

}  // namespace

TORCH_LIBRARY(tessera_simulated_device, library) {
  library.def("register_device() -> ()", []() { at::RegisterPrivateUse1HooksInterface(new Hooks()); });
  library.def("memory_allocated() -> int", []() { return allocated; });
  library.def("peak() -> int", []() { return highest; });
  library.def("reset_peak() -> ()", []() { highest = allocated; });
  library.def("operators() -> int", []() { return operators; });
  library.def("set_limit(int bytes, bool cuda) -> ()", [](int64_t bytes, bool cuda) {
    limit = bytes;
    like_cuda = cuda;
  });
  library.def("set_skip_compute(bool skip) -> ()", [](bool skip) { skip_compute = skip; });
}
