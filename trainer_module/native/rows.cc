// Rows by number in a variable: read in part, and updated in place. They are scattered in memory, so the next rows are
// prefetched while one is computed.
#include <algorithm>

#include "trainer_module/native/kernel.h"

namespace sangam {
namespace {

constexpr int64_t kAhead = 8;  // Rows to prefetch ahead.
constexpr int64_t kLine = 16;  // Floats in a cache line.

// Whether all numbers are valid row numbers; else the step fails.
bool are_rows(Call& call, const Tensor& rows, const Tensor& numbers) {
  const auto *begin = numbers.data<int64_t>(), *end = begin + numbers.size();
  int64_t count = rows.dim(0);
  if (std::all_of(begin, end, [count](int64_t number) { return number >= 0 && number < count; })) return true;
  call.fail(TF_INVALID_ARGUMENT, "rows: numbers are not all in [0, " + std::to_string(count) + ")");
  return false;
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
};

void* columns(TF_OpKernelConstruction* construction) {
  return new Columns{int_attribute(construction, "COLUMNS")};
}

void destroy_columns(void* state) { delete static_cast<Columns*>(state); }

void read_kernel(void* state, TF_OpKernelContext* context) {
  Call call(context);
  int64_t columns = static_cast<Columns*>(state)->columns;
  Tensor numbers = call.input(1), rows = call.variable();
  if (!call.ok() || !are_rows(call, rows, numbers)) return;
  Tensor out = call.output(0, TF_FLOAT, {numbers.size(), columns});
  if (!call.ok()) return;
  read(rows.data<float>(), rows.dim(1), numbers.data<int64_t>(), numbers.size(), out.data<float>(), columns);
}

// A step's usage of each row's id, merged into the row's bookkeeping as by `embedding.bookkeeping.merged_books`; null
// if rows have none.
struct Seen {
  const int32_t *newest, *occurrences;
  ALWAYS_INLINE void merge(int64_t n, float* its_books) const {
    if (newest == nullptr) return;
    int32_t books[2];
    std::memcpy(books, its_books, sizeof(books));
    books[0] = std::max(books[0], newest[n]);
    books[1] = std::min(books[1], INT32_MAX - occurrences[n]) + occurrences[n];
    std::memcpy(its_books, books, sizeof(books));
  }
};

// The arguments of an update.
struct Update {
  float* rows;
  int64_t width;
  const int64_t* numbers;
  int64_t count;
  const float* gradients;
  int64_t dim;
  const float* settings;
  Seen seen;
  ALWAYS_INLINE float* row(int64_t n) const {
    if (n + kAhead < count) fetch(rows + numbers[n + kAhead] * width, width);
    return rows + numbers[n] * width;
  }
};

// The formula of `embedding.row_optimizers.adam`, in the same order of operations; rows are [w | m | v | books].
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
    update.seen.merge(n, w + 3 * dim);
  }
}

// The formula of `embedding.row_optimizers.RowwiseAdagradUpdate`; rows are [w | a | books].
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
    update.seen.merge(n, w + dim + 1);
  }
}

template <void (*update)(const Update&)>
void update_kernel(void*, TF_OpKernelContext* context) {
  Call call(context);
  Tensor numbers = call.input(1), gradients = call.input(2), settings = call.input(3), newest = call.input(4),
         occurrences = call.input(5), rows = call.variable();
  if (!call.ok() || !are_rows(call, rows, numbers)) return;
  Seen seen{nullptr, nullptr};
  if (newest.size() > 0) seen = {newest.data<int32_t>(), occurrences.data<int32_t>()};
  update({rows.data<float>(), rows.dim(1), numbers.data<int64_t>(), numbers.size(), gradients.data<float>(),
          gradients.dim(1), settings.data<float>(), seen});
}

Operation update_of(const char* name) {
  return Operation(name).input("rows: resource").input("numbers: int64").input("gradients: float").input("settings: float")
      .input("newest: int32").input("occurrences: int32").stateful();
}

[[maybe_unused]] const bool registered =
    Operation("SangamReadRows").input("rows: resource").input("numbers: int64").output("part: float")
        .attribute("COLUMNS: int >= 1").stateful().kernel(columns, read_kernel, destroy_columns) &&
    update_of("SangamAdamRows").kernel(no_state, update_kernel<adam>, none_to_destroy) &&
    update_of("SangamRowwiseAdagradRows").kernel(no_state, update_kernel<rowwise_adagrad>, none_to_destroy);

}  // namespace
}  // namespace sangam
