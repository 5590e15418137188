// Common code of the kernels: RAII wrappers of TensorFlow's C interface, which is stable across compilers and compiles
// in a second, unlike the C++ one.
#pragma once

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "tensorflow/c/kernels.h"
#include "tensorflow/c/kernels_experimental.h"
#include "tensorflow/c/ops.h"
#include "tensorflow/c/tf_status.h"
#include "tensorflow/c/tf_tensor.h"

// One build for all processors: the loader selects the widest version that this one supports.
#define FOR_EACH_PROCESSOR __attribute__((target_clones("avx512f", "avx2", "default")))

#define ALWAYS_INLINE __attribute__((always_inline))

namespace sangam {

using Half = uint16_t;  // The upper half of a float32: bfloat16.

template <typename N>
constexpr TF_DataType kType = sizeof(N) == sizeof(float) ? TF_FLOAT : TF_BFLOAT16;

inline float wide(float x) { return x; }
inline float wide(Half x) { return __builtin_bit_cast(float, static_cast<uint32_t>(x) << 16); }

template <typename N>
N narrow(float x);
template <>
inline float narrow<float>(float x) { return x; }
// Rounds to the nearest, ties to even; rounding alone would turn a NaN of all ones into zero.
template <>
inline Half narrow<Half>(float x) {
  uint32_t bits = __builtin_bit_cast(uint32_t, x);
  uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  return static_cast<Half>(x == x ? rounded : 0x7fc0);
}

// Defines NAME for both number types, each for every processor; a template itself cannot have clones.
#define FOR_BOTH(NAME)                                                                \
  FOR_EACH_PROCESSOR void NAME(NAME##_arguments<float> a) { NAME##_of<float>(a); } \
  FOR_EACH_PROCESSOR void NAME(NAME##_arguments<Half> a) { NAME##_of<Half>(a); }

struct Status {
  TF_Status* status = TF_NewStatus();
  ~Status() { TF_DeleteStatus(status); }
  bool ok() const { return TF_GetCode(status) == TF_OK; }
};

class Tensor {
 public:
  explicit Tensor(TF_Tensor* tensor = nullptr) : tensor_(tensor) {}
  Tensor(Tensor&& other) noexcept : tensor_(std::exchange(other.tensor_, nullptr)) {}
  ~Tensor() {
    if (tensor_ != nullptr) TF_DeleteTensor(tensor_);
  }
  template <typename T>
  T* data() const { return static_cast<T*>(TF_TensorData(tensor_)); }
  int64_t dim(int axis) const { return TF_Dim(tensor_, axis); }
  TF_DataType type() const { return TF_TensorType(tensor_); }
  int64_t size() const { return TF_TensorElementCount(tensor_); }
  int64_t bytes() const { return static_cast<int64_t>(TF_TensorByteSize(tensor_)); }

 private:
  TF_Tensor* tensor_;
};

// The inputs and outputs of one call of a kernel.
class Call {
 public:
  explicit Call(TF_OpKernelContext* context) : context_(context) {}

  Tensor input(int index) {
    TF_Tensor* tensor = nullptr;
    TF_GetInput(context_, index, &tensor, status_.status);
    return Tensor(tensor);
  }

  // The value of the variable in the first input, to be read or changed in part, as by TensorFlow's own scatter.
  Tensor variable() {
    TF_Tensor* tensor = nullptr;
    TF_GetInputTensorFromVariable(
        context_, 0, /*lock_held=*/false, /*isVariantType=*/false, /*sparse=*/true,
        [](TF_OpKernelContext*, TF_Tensor* from, TF_Tensor* to) {  // If a reader still holds the value.
          std::memcpy(TF_TensorData(to), TF_TensorData(from), TF_TensorByteSize(from));
          TF_DeleteTensor(from);
          TF_DeleteTensor(to);
        },
        &tensor, status_.status);
    return Tensor(tensor);
  }

  Tensor output(int index, TF_DataType type, std::initializer_list<int64_t> dims) {
    int64_t elements = 1;
    for (int64_t dim : dims) elements *= dim;
    return Tensor(TF_AllocateOutput(context_, index, type, dims.begin(), static_cast<int>(dims.size()),
                                    elements * TF_DataTypeSize(type), status_.status));
  }

  // Whether there was no error so far; else the step fails with it.
  bool ok() {
    if (status_.ok()) return true;
    TF_OpKernelContext_Failure(context_, status_.status);
    return false;
  }

  void fail(TF_Code code, const std::string& message) {
    TF_SetStatus(status_.status, code, message.c_str());
    TF_OpKernelContext_Failure(context_, status_.status);
  }

 private:
  TF_OpKernelContext* context_;
  Status status_;
};

// Runs the kernel's version for its number type.
template <void (*of_floats)(void*, Call&), void (*of_halves)(void*, Call&)>
void either(void* state, TF_OpKernelContext* context) {
  Call call(context);
  TF_DataType type = call.input(0).type();
  if (!call.ok()) return;
  (type == TF_FLOAT ? of_floats : of_halves)(state, call);
}

template <typename N>
std::vector<N*> pointers(std::vector<Tensor>& tensors) {
  std::vector<N*> found;
  for (Tensor& tensor : tensors) found.push_back(tensor.data<N>());
  return found;
}

inline std::vector<Tensor> inputs(Call& call, int first, int count) {
  std::vector<Tensor> found;
  for (int index = 0; index < count; ++index) found.push_back(call.input(first + index));
  return found;
}

inline std::vector<Tensor> outputs(Call& call, int first, int count, TF_DataType type, int64_t rows, int64_t width) {
  std::vector<Tensor> made;
  for (int index = 0; index < count && call.ok(); ++index) made.push_back(call.output(first + index, type, {rows, width}));
  return made;
}

inline void* no_state(TF_OpKernelConstruction*) { return nullptr; }
inline void none_to_destroy(void*) {}

inline int32_t int_attribute(TF_OpKernelConstruction* construction, const char* name) {
  Status status;
  int32_t value = 0;
  TF_OpKernelConstruction_GetAttrInt32(construction, name, &value, status.status);
  if (!status.ok()) TF_OpKernelConstruction_Failure(construction, status.status);
  return value;
}

inline TF_DataType type_attribute(TF_OpKernelConstruction* construction, const char* name) {
  Status status;
  TF_DataType value = TF_FLOAT;
  TF_OpKernelConstruction_GetAttrType(construction, name, &value, status.status);
  if (!status.ok()) TF_OpKernelConstruction_Failure(construction, status.status);
  return value;
}

#define NUMBERS "N: {float, bfloat16}"  // Number types of a kernel of `either`.

inline std::vector<int32_t> int_attributes(TF_OpKernelConstruction* construction, const char* name) {
  Status status;
  int32_t count = 0, bytes = 0;
  TF_OpKernelConstruction_GetAttrSize(construction, name, &count, &bytes, status.status);
  std::vector<int32_t> values(status.ok() ? count : 0);
  if (status.ok()) TF_OpKernelConstruction_GetAttrInt32List(construction, name, values.data(), count, status.status);
  if (!status.ok()) TF_OpKernelConstruction_Failure(construction, status.status);
  return values;
}

// Declares an operation, without shape inference (Python sets the shapes), and its CPU kernel. Called once, when the
// library is loaded; TensorFlow aborts on an invalid declaration, which is always an error in this code.
struct Operation {
  TF_OpDefinitionBuilder* definition;
  std::string name;
  explicit Operation(const char* operation) : definition(TF_NewOpDefinitionBuilder(operation)), name(operation) {}
  Operation& input(const char* spec) { return TF_OpDefinitionBuilderAddInput(definition, spec), *this; }
  Operation& output(const char* spec) { return TF_OpDefinitionBuilderAddOutput(definition, spec), *this; }
  Operation& attribute(const char* spec) { return TF_OpDefinitionBuilderAddAttr(definition, spec), *this; }
  Operation& stateful() { return TF_OpDefinitionBuilderSetIsStateful(definition, true), *this; }
  bool kernel(void* (*create)(TF_OpKernelConstruction*), void (*compute)(void*, TF_OpKernelContext*),
              void (*destroy)(void*)) {
    Status status;
    TF_OpDefinitionBuilderSetShapeInferenceFunction(
        definition, [](TF_ShapeInferenceContext* context, TF_Status* result) {
          TF_ShapeInferenceContextSetUnknownShape(context, result);
        });
    TF_RegisterOpDefinition(definition, status.status);
    TF_RegisterKernelBuilder(name.c_str(), TF_NewKernelBuilder(name.c_str(), "CPU", create, compute, destroy),
                             status.status);
    return status.ok();
  }
};

}  // namespace sangam
