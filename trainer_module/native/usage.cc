// Which rows leave a table by the usage of their ids: passes over the keys and the books of all rows, in their order.
#include <algorithm>
#include <memory>
#include <vector>

#include "trainer_module/native/kernel.h"

namespace sangam {
namespace {

constexpr int kTagShift = 52;  // Below a key's tag: its id.
constexpr int32_t kTags = 4096, kBins = 4096, kAges = 512;
constexpr int64_t kNumbers = 4;  // Of a rule: oldest, by_count, place, edge.
constexpr int64_t kBlock = 2048;  // Rows whose bins are found at a time.

// What a pass does with the rows of each table, by tag; see `embedding.eviction`.
struct Rules {
  int32_t oldest[kTags];    // Rows not seen since this minute have expired.
  int32_t by_count[kTags];  // Whether the least frequent leave first, not the least recent.
  int32_t first_bin[kTags];  // Of its histogram among all; negative if none of its rows leaves by capacity.
  int32_t edge[kTags];      // Bin of the last row to leave; negative if none is known.
};

enum Verdict : uint8_t { kStays, kExpired, kLeaves, kUndecided };

struct Block {
  int32_t bins[kBlock];  // Places in all histograms; the last one for rows that none counts.
  uint8_t verdicts[kBlock];
  int32_t tags[kBlock], wide_verdicts[kBlock];  // Of one width, numbers become wider vectors.
};

// Bins are in the order in which rows leave; what lies outside is in the first or the last one. By minute each has 16
// minutes. Up to 6 occurrences, each number has bins of its age: the later half 8 minutes each, the others 256.
FOR_EACH_PROCESSOR
void look(const int64_t* keys, const int32_t* books, int64_t count, int32_t now, const Rules& rules, int32_t none,
          Block& block) {
  constexpr int32_t kHalf = kAges / 2, kFew = kBins / kAges - 1, kOld = 1 << 20;
  const int32_t earliest = static_cast<int32_t>(std::max<int64_t>(int64_t{now} - kOld, INT32_MIN));
#pragma omp simd
  for (int64_t n = 0; n < count; ++n)
    block.tags[n] = static_cast<int32_t>(static_cast<uint64_t>(keys[n]) >> kTagShift);
#pragma omp simd
  for (int32_t n = 0; n < static_cast<int32_t>(count); ++n) {
    int32_t tag = block.tags[n];
    int32_t seen = books[2 * n], occurrences = books[2 * n + 1];
    int32_t age = now - std::max(std::min(seen, now), earliest);
    int32_t later = age >> 3, earlier = kHalf + ((age - 8 * kHalf) >> 8);
    int32_t of_age = kAges - 1 - std::min(later < kHalf ? later : earlier, kAges - 1);
    int32_t of_few = std::max(occurrences, 0) * kAges + of_age;
    int32_t of_many = kFew * kAges + std::min(occurrences - kFew, kAges - 1);
    int32_t by_count = occurrences < kFew ? of_few : of_many;
    int32_t by_minute = kBins - 1 - (std::min(age, 16 * kBins - 1) >> 4);
    int32_t bin = rules.by_count[tag] != 0 ? by_count : by_minute;
    int32_t first = rules.first_bin[tag], edge = rules.edge[tag];
    bool has_expired = seen < rules.oldest[tag], is_counted = first >= 0 && !has_expired;
    block.bins[n] = is_counted ? first + bin : none;
    int32_t by_capacity = bin < edge ? kLeaves : bin == edge ? kUndecided : kStays;
    block.wide_verdicts[n] = has_expired ? kExpired : is_counted ? by_capacity : kStays;
  }
#pragma omp simd
  for (int64_t n = 0; n < count; ++n) block.verdicts[n] = static_cast<uint8_t>(block.wide_verdicts[n]);
}

struct Found {
  std::vector<int64_t> going, undecided;  // Numbers of rows.
};

// Takes the rows that do not stay; few do not, so eight at a time are passed over.
void take(const Block& block, int64_t first, int64_t count, bool is_first, const int64_t* keys, int64_t* expired,
          Found& found) {
  for (int64_t at = 0; at < count; at += 8) {
    uint64_t eight;
    std::memcpy(&eight, block.verdicts + at, sizeof(eight));
    if (eight == 0) continue;
    for (int64_t n = at; n < std::min(at + 8, count); ++n) {
      if (block.verdicts[n] == kLeaves) found.going.push_back(first + n);
      if (block.verdicts[n] == kUndecided) found.undecided.push_back(first + n);
      if (block.verdicts[n] != kExpired || !is_first) continue;
      found.going.push_back(first + n);
      ++expired[static_cast<uint64_t>(keys[n]) >> kTagShift];
    }
  }
}

// Returns the rules, and the number of histograms.
std::pair<std::unique_ptr<Rules>, int64_t> rules_of(const Tensor& given) {
  auto rules = std::make_unique<Rules>();
  std::fill_n(rules->oldest, kTags, INT32_MIN);
  std::fill_n(rules->first_bin, kTags, -1);
  std::fill_n(rules->edge, kTags, -1);
  int64_t places = 0;
  if (given.dim(0) > kTags) refuse("rules", "more than tags", given.dim(0), "at most ", kTags);
  for (int64_t tag = 0; tag < given.dim(0); ++tag) {
    const int64_t* its = given.data<int64_t>() + tag * kNumbers;
    if (its[2] >= kTags) refuse("rules", "no place of a histogram", its[2], "below ", kTags);
    rules->oldest[tag] = static_cast<int32_t>(its[0]), rules->by_count[tag] = its[1] != 0;
    rules->first_bin[tag] = its[2] < 0 ? -1 : static_cast<int32_t>(its[2]) * kBins;
    rules->edge[tag] = static_cast<int32_t>(its[3]);
    places = std::max(places, its[2] + 1);
  }
  return {std::move(rules), places};
}

void pass_kernel(const NoState&, Call& call) {
  int64_t end = *call.input(2, "end", {}).data<int64_t>();
  int32_t now = *call.input(3, "now", {}).data<int32_t>();
  bool is_first = *call.input(4, "is_first", {}).data<bool>();
  Tensor given = call.input(5, "rules", {at_least(1), kNumbers});
  Tensor keys = call.variable("keys", {at_least(end)}, 0, TF_INT64),
         books = call.variable("books", {at_least(end), 2}, 1, TF_INT32);
  auto [rules, places] = rules_of(given);
  Tensor counts = call.output(0, TF_INT64, {places, kBins}), expired = call.output(1, TF_INT64, {given.dim(0)});
  std::vector<int64_t> bins(places * kBins + 1), expired_by_tag(kTags);
  Found found;
  Block block{};
  for (int64_t first = 1; first < end; first += kBlock) {
    int64_t count = std::min(kBlock, end - first);
    const int64_t* its = keys.data<int64_t>() + first;
    look(its, books.data<int32_t>() + 2 * first, count, now, *rules, static_cast<int32_t>(places * kBins), block);
    if (count < kBlock) std::fill(block.verdicts + count, block.verdicts + kBlock, kStays);
    for (int64_t n = 0; is_first && n < count; ++n) ++bins[block.bins[n]];
    take(block, first, count, is_first, its, expired_by_tag.data(), found);
  }
  std::copy_n(bins.begin(), places * kBins, counts.data<int64_t>());
  std::copy_n(expired_by_tag.begin(), given.dim(0), expired.data<int64_t>());
  int index = 2;
  for (const std::vector<int64_t>* numbers : {&found.going, &found.undecided}) {
    Tensor out = call.output(index++, TF_INT64, {static_cast<int64_t>(numbers->size())});
    std::copy(numbers->begin(), numbers->end(), out.data<int64_t>());
  }
}

[[maybe_unused]] const bool registered =
    Operation("SangamUsagePass").input("keys: resource").input("books: resource").input("end: int64")
        .input("now: int32").input("is_first: bool").input("rules: int64").output("bins: int64")
        .output("expired: int64").output("going: int64").output("undecided: int64").stateful()
        .kernel<NoState, pass_kernel>();

}  // namespace
}  // namespace sangam
