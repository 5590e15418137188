// What the kernels here share: TensorFlow's C interface with owners of its objects. It is stable across compilers and
// compiles in a second, unlike its C++ one.
#pragma once

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>
#include <utility>

#include "tensorflow/c/kernels.h"
#include "tensorflow/c/ops.h"
#include "tensorflow/c/tf_status.h"
#include "tensorflow/c/tf_tensor.h"

// One build for all processors: the loader takes the widest that this one has.
#define FOR_EACH_PROCESSOR __attribute__((target_clones("avx512f", "avx2", "default")))

namespace sangam {

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

  Tensor output(int index, TF_DataType type, std::initializer_list<int64_t> dims) {
    int64_t elements = 1;
    for (int64_t dim : dims) elements *= dim;
    return Tensor(TF_AllocateOutput(context_, index, type, dims.begin(), static_cast<int>(dims.size()),
                                    elements * TF_DataTypeSize(type), status_.status));
  }

  // Whether all went well so far; else the step fails with what happened.
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

inline int32_t int_attribute(TF_OpKernelConstruction* construction, const char* name) {
  Status status;
  int32_t value = 0;
  TF_OpKernelConstruction_GetAttrInt32(construction, name, &value, status.status);
  if (!status.ok()) TF_OpKernelConstruction_Failure(construction, status.status);
  return value;
}

// Declares an operation whose outputs' shapes Python states, and its kernel for CPUs. Called once, when the library is
// loaded; TensorFlow aborts if the declaration is wrong, which only a change of this code can make it.
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
