// Rows by number in a variable: read in part, and updated in place. They are scattered in memory, so the next rows are
// prefetched while one is computed.
#include <algorithm>

#include "trainer_module/native/kernel.h"

namespace sangam {
namespace {

constexpr int64_t kAhead = 8;  // Rows to prefetch ahead.
constexpr int64_t kLine = 16;  // Floats in a cache line.
constexpr int64_t kBooks = 2;  // Numbers of a row's bookkeeping.

// The numbers of rows to read or to change.
const int64_t* checked(const Tensor& numbers, const Tensor& rows) {
  const auto *begin = numbers.data<int64_t>(), *end = begin + numbers.size();
  int64_t count = rows.dim(0);
  const auto* wrong = std::find_if(begin, end, [count](int64_t number) { return number < 0 || number >= count; });
  if (wrong != end) refuse("numbers", "not a row", *wrong, "rows are in [0, ", count, ")");
  return begin;
}

ALWAYS_INLINE inline void fetch(const float* row, int64_t floats) {
  for (int64_t at = 0; at < floats; at += kLine) __builtin_prefetch(row + at);
  __builtin_prefetch(row + floats - 1);
}

FOR_EACH_PROCESSOR
void read(const float* rows, int64_t width, const int64_t* numbers, int64_t count, float* out, int64_t columns) {
  for (int64_t n = 0; n < count; ++n) {
    if (n + kAhead < count) fetch(rows + numbers[n + kAhead] * width, columns);
    const float* __restrict from = rows + numbers[n] * width;
    float* __restrict to = out + n * columns;
#pragma omp simd
    for (int64_t c = 0; c < columns; ++c) to[c] = from[c];
  }
}

struct Columns {
  int32_t columns;
  explicit Columns(TF_OpKernelConstruction* construction) : columns(int_attribute(construction, "COLUMNS")) {}
};

void read_kernel(const Columns& of, Call& call) {
  Tensor numbers = call.input(1, "numbers", {kAny}), rows = call.variable("rows", {kAny, at_least(of.columns)});
  const int64_t* its = checked(numbers, rows);
  Tensor out = call.output(0, TF_FLOAT, {numbers.size(), of.columns});
  read(rows.data<float>(), rows.dim(1), its, numbers.size(), out.data<float>(), of.columns);
}

// Copies the part of a variable that belongs to keys, from row 1.
void copy_part(const NoState&, Call& call) {
  TF_DataType type = call.type_of_output(0);
  int64_t end = *call.input(1, "end", {}).data<int64_t>();
  if (end < 1) refuse("end", "not behind row 0", end, "at least ", 1);
  Tensor from = call.variable_of_any_shape("variable", 0, type);
  if (from.num_dims() < 1 || from.dim(0) < end) refuse("variable", "too few rows", from.dim(0), "at least ", end);
  int64_t width = from.size() / from.dim(0);
  Tensor out = call.output(0, type, {(end - 1) * width});
  int64_t bytes = width * static_cast<int64_t>(TF_DataTypeSize(type));
  std::memcpy(out.data<char>(), from.data<char>() + bytes, (end - 1) * bytes);
}

// The arguments of an update.
struct Update {
  float* rows;
  int64_t width;
  const int64_t* numbers;
  int64_t count;
  const float* gradients;
  int64_t dim;
  const float* settings;
  ALWAYS_INLINE float* row(int64_t n) const {
    if (n + kAhead < count) fetch(rows + numbers[n + kAhead] * width, width);
    return rows + numbers[n] * width;
  }
};

// The formula of `embedding.row_optimizers.adam`, in the same order of operations; rows are [w | m | v].
FOR_EACH_PROCESSOR
void adam(const Update& update) {
  auto [corrected, beta1, rest1, beta2, rest2, epsilon] = *reinterpret_cast<const float(*)[6]>(update.settings);
  const int64_t dim = update.dim;
  for (int64_t n = 0; n < update.count; ++n) {
    float* __restrict w = update.row(n);
    const float* __restrict g = update.gradients + n * dim;
#pragma omp simd
    for (int64_t d = 0; d < dim; ++d) {
      float m = beta1 * w[dim + d] + rest1 * g[d];
      float v = beta2 * w[2 * dim + d] + rest2 * (g[d] * g[d]);
      w[d] = w[d] - corrected * m / (__builtin_sqrtf(v) + epsilon);
      w[dim + d] = m;
      w[2 * dim + d] = v;
    }
  }
}

// The formula of `embedding.row_optimizers.RowwiseAdagradUpdate`; rows are [w | a].
FOR_EACH_PROCESSOR
void rowwise_adagrad(const Update& update) {
  const float rate = update.settings[0];
  const int64_t dim = update.dim;
  for (int64_t n = 0; n < update.count; ++n) {
    float* __restrict w = update.row(n);
    const float* __restrict g = update.gradients + n * dim;
    float squares = 0.0f;
#pragma omp simd reduction(+ : squares)
    for (int64_t d = 0; d < dim; ++d) squares += g[d] * g[d];
    w[dim] += squares / static_cast<float>(dim);
    float moves = rate / __builtin_sqrtf(w[dim]);
#pragma omp simd
    for (int64_t d = 0; d < dim; ++d) w[d] -= moves * g[d];
  }
}

// A row has `parts` parts of the gradient's width, and `more` numbers.
template <void (*update)(const Update&), int parts, int more, int num_settings>
void update_kernel(const NoState&, Call& call) {
  Tensor numbers = call.input(1, "numbers", {kAny});
  int64_t count = numbers.size();
  Tensor gradients = call.input(2, "gradients", {count, at_least(1)}),
         settings = call.input(3, "settings", {num_settings}),
         rows = call.variable("rows", {kAny, parts * gradients.dim(1) + more});
  update({rows.data<float>(), rows.dim(1), checked(numbers, rows), count, gradients.data<float>(),
          gradients.dim(1), settings.data<float>()});
}

Operation update_of(const char* name) {
  return Operation(name).input("rows: resource").input("numbers: int64").input("gradients: float").input("settings: float")
      .stateful();
}

// Merges a step's usage of each row's id into its books: an event older than the newest one changes no time, and
// occurrences add up, to at most the largest number. Row 0 has no id.
void merge_books(const NoState&, Call& call) {
  Tensor numbers = call.input(1, "numbers", {kAny}), newest = call.input(2, "newest", {numbers.size()}),
         occurrences = call.input(3, "occurrences", {numbers.size()}),
         books = call.variable("books", {kAny, kBooks}, 0, TF_INT32);
  const int64_t* its = checked(numbers, books);
  int32_t* all = books.data<int32_t>();
  for (int64_t n = 0; n < numbers.size(); ++n) {
    if (n + kAhead < numbers.size()) __builtin_prefetch(all + its[n + kAhead] * kBooks);
    if (its[n] == 0) continue;
    int32_t *of_row = all + its[n] * kBooks, more = occurrences.data<int32_t>()[n];
    of_row[0] = std::max(of_row[0], newest.data<int32_t>()[n]);
    of_row[1] = std::min(of_row[1], INT32_MAX - more) + more;
  }
}

[[maybe_unused]] const bool registered =
    Operation("SangamReadRows").input("rows: resource").input("numbers: int64").output("part: float")
        .attribute("COLUMNS: int >= 1").stateful().kernel<Columns, read_kernel>() &&
    Operation("SangamCopyRows").input("variable: resource").input("end: int64").output("part: N")
        .attribute("N: {float, int64, int32, bool}").stateful().kernel<NoState, copy_part>() &&
    Operation("SangamMergeBooks").input("books: resource").input("numbers: int64").input("newest: int32")
        .input("occurrences: int32").stateful().kernel<NoState, merge_books>() &&
    update_of("SangamAdamRows").kernel<NoState, update_kernel<adam, 3, 0, 6>>() &&
    update_of("SangamRowwiseAdagradRows").kernel<NoState, update_kernel<rowwise_adagrad, 1, 1, 1>>();

}  // namespace
}  // namespace sangam
