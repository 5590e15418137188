// Common code of the kernels: RAII wrappers of TensorFlow's C interface, which is stable across compilers and compiles
// in a second, unlike the C++ one.
#pragma once

#include <cstdint>
#include <cstring>
#include <exception>
#include <initializer_list>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "tensorflow/c/kernels.h"
#include "tensorflow/c/kernels_experimental.h"
#include "tensorflow/c/ops.h"
#include "tensorflow/c/tf_status.h"
#include "tensorflow/c/tf_tensor.h"

// One build for all processors: the loader selects the widest version that this one supports. Builds with sanitizers,
// which start after the loader, have one version.
#ifndef FOR_EACH_PROCESSOR
#define FOR_EACH_PROCESSOR __attribute__((target_clones("avx512f", "avx2", "default")))
#endif

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

// Ends a kernel's call, or its construction, with an error.
struct Failure {
  TF_Code code;
  std::string what;
};

[[noreturn, gnu::cold, gnu::noinline]] inline void fail(TF_Code code, const std::string& what) {
  throw Failure{code, what};
}

[[noreturn, gnu::cold, gnu::noinline]] inline void refuse(const std::string& place, const char* what,
                                                          const std::string& got, const std::string& allowed) {
  fail(TF_INVALID_ARGUMENT, place + ": " + what + " (got " + got + "); " + allowed);
}

[[noreturn, gnu::cold, gnu::noinline]] inline void refuse(const std::string& place, const char* what, int64_t got,
                                                          const char* needs, int64_t wanted, const char* after = "") {
  refuse(place, what, std::to_string(got), needs + std::to_string(wanted) + after);
}

inline void raise_unless_ok(const Status& status) {
  if (!status.ok()) fail(TF_GetCode(status.status), TF_Message(status.status));
}

// Runs code of an operation; reports what it throws: no exception may leave a function that TensorFlow calls.
template <typename Code, typename Report>
void guarded(const char* operation, const Code& code, const Report& report) noexcept {
  auto tell = [&](TF_Code kind, const std::string& what) {
    Status status;
    TF_SetStatus(status.status, kind, (std::string(operation) + ": " + what).c_str());
    report(status.status);
  };
  try {
    code();
  } catch (const Failure& failure) {
    tell(failure.code, failure.what);
  } catch (const std::bad_alloc&) {
    tell(TF_RESOURCE_EXHAUSTED, "out of memory");
  } catch (const std::exception& error) {
    tell(TF_INTERNAL, error.what());
  }
}

class Tensor {
 public:
  explicit Tensor(TF_Tensor* tensor = nullptr) : tensor_(tensor) {}
  Tensor(Tensor&& other) noexcept : tensor_(std::exchange(other.tensor_, nullptr)) {}
  Tensor& operator=(Tensor&& other) noexcept {
    std::swap(tensor_, other.tensor_);
    return *this;
  }
  ~Tensor() {
    if (tensor_ != nullptr) TF_DeleteTensor(tensor_);
  }
  template <typename T>
  T* data() const { return static_cast<T*>(TF_TensorData(tensor_)); }
  int num_dims() const { return TF_NumDims(tensor_); }
  int64_t dim(int axis) const { return TF_Dim(tensor_, axis); }
  TF_DataType type() const { return TF_TensorType(tensor_); }
  int64_t size() const { return TF_TensorElementCount(tensor_); }
  int64_t bytes() const { return static_cast<int64_t>(TF_TensorByteSize(tensor_)); }

 private:
  TF_Tensor* tensor_;
};

// A shape that an input needs; each dimension is exact, or `at_least` a size.
using Dims = std::initializer_list<int64_t>;
constexpr int64_t at_least(int64_t size) { return -1 - size; }
constexpr int64_t kAny = at_least(0);

// The name of an input, and its place if the input is a list.
struct Name {
  const char* text;
  int64_t place;
  Name(const char* text, int64_t place = -1) : text(text), place(place) {}
  std::string whole() const { return place < 0 ? text : text + ("[" + std::to_string(place) + "]"); }
};

[[noreturn, gnu::cold, gnu::noinline]] inline void refuse_shape(const Tensor& tensor, Name name, Dims wanted) {
  auto text_of = [](const int64_t* dims, int64_t count) {
    std::string text = "[";
    for (int64_t axis = 0; axis < count; ++axis) {
      int64_t dim = dims[axis];
      text += axis > 0 ? ", " : "";
      text += dim == kAny ? "any" : dim < 0 ? "at least " + std::to_string(at_least(dim)) : std::to_string(dim);
    }
    return text + "]";
  };
  std::vector<int64_t> got;
  for (int axis = 0; axis < tensor.num_dims(); ++axis) got.push_back(tensor.dim(axis));
  refuse(name.whole(), "wrong shape", text_of(got.data(), got.size()),
         "needs " + text_of(wanted.begin(), wanted.size()));
}

inline void check_shape(const Tensor& tensor, Name name, Dims wanted) {
  bool fits = tensor.num_dims() == static_cast<int>(wanted.size());
  int axis = 0;
  for (const int64_t* dim = wanted.begin(); fits && dim < wanted.end(); ++dim, ++axis)
    fits = *dim < 0 ? tensor.dim(axis) >= at_least(*dim) : tensor.dim(axis) == *dim;
  if (!fits) refuse_shape(tensor, name, wanted);
}

// The inputs and outputs of one call of a kernel. Errors are thrown.
class Call {
 public:
  explicit Call(TF_OpKernelContext* context) : context_(context) {}

  TF_DataType type_of(int index) { return input_of_any_shape(index).type(); }

  Tensor input(int index, Name name, Dims wanted) {
    Tensor found = input_of_any_shape(index);
    check_shape(found, name, wanted);
    return found;
  }

  // The number of rows of a matrix.
  int64_t rows_of(int index, Name name) { return input(index, name, {at_least(1), kAny}).dim(0); }

  // A list of matrices of one shape; the first one decides what is not exact.
  std::vector<Tensor> inputs(int first, const char* name, int64_t count, int64_t rows, int64_t columns) {
    std::vector<Tensor> found;
    for (int64_t place = 0; place < count; ++place) {
      found.push_back(input(static_cast<int>(first + place), {name, place}, {rows, columns}));
      rows = found[0].dim(0), columns = found[0].dim(1);
    }
    return found;
  }

  // The value of a variable, to be read or changed in part, as by TensorFlow's own scatter.
  Tensor variable(const char* name, Dims wanted, int index = 0, TF_DataType type = TF_FLOAT) {
    Tensor found = variable_of_any_shape(name, index, type);
    check_shape(found, name, wanted);
    return found;
  }

  Tensor variable_of_any_shape(const char* name, int index, TF_DataType type) {
    TF_Tensor* tensor = nullptr;
    TF_GetInputTensorFromVariable(
        context_, index, /*lock_held=*/false, /*isVariantType=*/false, /*sparse=*/true,
        [](TF_OpKernelContext*, TF_Tensor* from, TF_Tensor* to) {  // If a reader still holds the value.
          std::memcpy(TF_TensorData(to), TF_TensorData(from), TF_TensorByteSize(from));
          TF_DeleteTensor(from);
          TF_DeleteTensor(to);
        },
        &tensor, status_.status);
    Tensor found(tensor);
    raise_unless_ok(status_);
    if (tensor == nullptr) fail(TF_NOT_FOUND, std::string(name) + ": not a variable");
    if (found.type() != type) refuse(name, "wrong type", found.type(), "needs ", type);
    return found;
  }

  Tensor output(int index, TF_DataType type, Dims dims) {
    int64_t elements = 1;
    for (int64_t dim : dims) elements *= dim;
    Tensor made(TF_AllocateOutput(context_, index, type, dims.begin(), static_cast<int>(dims.size()),
                                  elements * TF_DataTypeSize(type), status_.status));
    raise_unless_ok(status_);
    return made;
  }

  // An input and an output of its shape, which is the same memory if nothing else reads the input.
  std::pair<Tensor, Tensor> input_and_output(int index, Name name, Dims wanted, int output) {
    std::vector<int64_t> dims;
    {
      Tensor found = input(index, name, wanted);  // Released: a tensor that is held is not forwarded.
      for (int axis = 0; axis < found.num_dims(); ++axis) dims.push_back(found.dim(axis));
    }
    int forwarded = -1;
    Tensor its(TF_ForwardInputOrAllocateOutput(context_, &index, 1, output, dims.data(), static_cast<int>(dims.size()),
                                               &forwarded, status_.status));
    raise_unless_ok(status_);
    return {input_of_any_shape(index), std::move(its)};
  }

  std::vector<Tensor> outputs(int first, int64_t count, TF_DataType type, int64_t rows, int64_t columns) {
    std::vector<Tensor> made;
    for (int64_t place = 0; place < count; ++place)
      made.push_back(output(static_cast<int>(first + place), type, {rows, columns}));
    return made;
  }

  TF_DataType type_of_output(int index) { return TF_ExpectedOutputDataType(context_, index); }

 private:
  Tensor input_of_any_shape(int index) {
    TF_Tensor* tensor = nullptr;
    TF_GetInput(context_, index, &tensor, status_.status);
    Tensor found(tensor);
    raise_unless_ok(status_);
    return found;
  }

  TF_OpKernelContext* context_;
  Status status_;
};

// Runs the kernel's version for its number type.
template <typename State, void (*of_floats)(const State&, Call&), void (*of_halves)(const State&, Call&)>
void either(const State& state, Call& call) {
  (call.type_of(0) == TF_FLOAT ? of_floats : of_halves)(state, call);
}

template <typename N>
std::vector<N*> pointers(std::vector<Tensor>& tensors) {
  std::vector<N*> found;
  for (Tensor& tensor : tensors) found.push_back(tensor.data<N>());
  return found;
}

inline int32_t int_attribute(TF_OpKernelConstruction* construction, const char* name) {
  Status status;
  int32_t value = 0;
  TF_OpKernelConstruction_GetAttrInt32(construction, name, &value, status.status);
  raise_unless_ok(status);
  return value;
}

inline TF_DataType type_attribute(TF_OpKernelConstruction* construction, const char* name) {
  Status status;
  TF_DataType value = TF_FLOAT;
  TF_OpKernelConstruction_GetAttrType(construction, name, &value, status.status);
  raise_unless_ok(status);
  return value;
}

#define NUMBERS "N: {float, bfloat16}"  // Number types of a kernel of `either`.

// An attribute of as many numbers as an operation has matrices, or parts; none is less than `least`.
inline std::vector<int32_t> int_attributes(TF_OpKernelConstruction* construction, const char* name, int32_t wanted,
                                           int32_t least) {
  Status status;
  int32_t count = 0, bytes = 0;
  TF_OpKernelConstruction_GetAttrSize(construction, name, &count, &bytes, status.status);
  raise_unless_ok(status);
  if (count != wanted) refuse(name, "wrong number of values", count, "needs ", wanted);
  std::vector<int32_t> values(count);
  TF_OpKernelConstruction_GetAttrInt32List(construction, name, values.data(), count, status.status);
  raise_unless_ok(status);
  for (int32_t value : values)
    if (value < least) refuse(name, "too small", value, "at least ", least);
  return values;
}

struct NoState {
  explicit NoState(TF_OpKernelConstruction*) {}
};

// The functions that TensorFlow calls: a state per node of a graph, made from its attributes, and a computation.
template <typename State, void (*compute)(const State&, Call&)>
struct Kernel {
  static inline const char* operation = "";

  static void* create(TF_OpKernelConstruction* construction) noexcept {
    State* made = nullptr;
    guarded(operation, [&] { made = new State(construction); },
            [&](TF_Status* status) { TF_OpKernelConstruction_Failure(construction, status); });
    return made;
  }

  static void run(void* state, TF_OpKernelContext* context) noexcept {
    guarded(operation,
            [&] {
              Call call(context);
              compute(*static_cast<const State*>(state), call);
            },
            [&](TF_Status* status) { TF_OpKernelContext_Failure(context, status); });
  }

  static void destroy(void* state) noexcept { delete static_cast<State*>(state); }
};

// Declares an operation, without shape inference (Python sets the shapes), and its CPU kernel. Called once, when the
// library is loaded; TensorFlow aborts on an invalid declaration, which is always an error in this code.
struct Operation {
  TF_OpDefinitionBuilder* definition;
  const char* name;
  explicit Operation(const char* operation) : definition(TF_NewOpDefinitionBuilder(operation)), name(operation) {}
  Operation& input(const char* spec) { return TF_OpDefinitionBuilderAddInput(definition, spec), *this; }
  Operation& output(const char* spec) { return TF_OpDefinitionBuilderAddOutput(definition, spec), *this; }
  Operation& attribute(const char* spec) { return TF_OpDefinitionBuilderAddAttr(definition, spec), *this; }
  Operation& stateful() { return TF_OpDefinitionBuilderSetIsStateful(definition, true), *this; }
  // An operation has its own `compute`.
  template <typename State, void (*compute)(const State&, Call&)>
  bool kernel() {
    using Its = Kernel<State, compute>;
    Its::operation = name;
    Status status;
    TF_OpDefinitionBuilderSetShapeInferenceFunction(
        definition, [](TF_ShapeInferenceContext* context, TF_Status* result) {
          TF_ShapeInferenceContextSetUnknownShape(context, result);
        });
    TF_RegisterOpDefinition(definition, status.status);
    TF_KernelBuilder* builder = TF_NewKernelBuilder(name, "CPU", Its::create, Its::run, Its::destroy);
    TF_RegisterKernelBuilder(name, builder, status.status);
    return status.ok();
  }
};

}  // namespace sangam
