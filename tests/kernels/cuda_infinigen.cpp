// InfiniGen on the GPU's code against the reference in double.

#include <doctest/doctest.h>

#include <limits>

#include "kernels/infinigen/cuda.h"
#include "tests/support/cuda_test.h"
#include "tests/support/kernel_cases.h"

using namespace kvlane::kernels;
using namespace kvlane::kernels::testing;

namespace {

// A tensor on the device, `skew` elements past an aligned address.
class DeviceTensor {
 public:
  DeviceTensor(const Buffer& host, Format format, int skew)
      : offset_(size(skew) * bytes_of(format)), bytes_([&] {
          std::vector<std::uint8_t> all(offset_ + host.bytes());
          const auto* at = static_cast<const std::uint8_t*>(host.data());
          std::copy(at, at + host.bytes(), all.begin() + static_cast<std::ptrdiff_t>(offset_));
          return all;
        }()) {}
  const void* data() const { return bytes_.data() + offset_; }

 private:
  std::size_t offset_;
  DeviceArray<std::uint8_t> bytes_;
};

void check_project(Random& random, int tokens, int heads, int kv_heads, int head_dim, int kept,
                   Format format, int skew = 0) {
  CAPTURE(tokens);
  CAPTURE(head_dim);
  CAPTURE(kept);
  CAPTURE(to_string(format));
  const std::size_t vectors = size(tokens * heads), elements = vectors * size(kept);
  const Buffer x = normal_tensor(random, vectors * size(head_dim), format);
  std::vector<float> skews(size(kv_heads * head_dim * head_dim));
  for (float& s : skews) s = 0.125f * random.normal();
  std::vector<std::int32_t> channels(size(kv_heads * kept));
  for (std::int32_t& c : channels) c = random.below(head_dim);
  Buffer expected(elements * bytes_of(format));
  InfinigenProject args{tokens, heads,    kv_heads,     head_dim,        kept,
                        format, x.data(), skews.data(), channels.data(), expected.data()};
  ref::infinigen_project(args);
  const DeviceTensor device_x(x, format, skew);
  const DeviceArray<float> device_skew(skews);
  const DeviceArray<std::int32_t> device_channels(channels);
  const DeviceArray<std::uint8_t> partial(elements * bytes_of(format));
  args.x = device_x.data();
  args.skew = device_skew.data();
  args.channels = device_channels.data();
  args.partial = partial.data();
  cuda::infinigen_project(args, nullptr);
  CHECK(worst_error(partial.host().data(), expected.data(), format, elements) <=
        allowed_error(format, size(head_dim)));
}

struct Scored {
  std::vector<float> scores;
  std::int32_t take;
};

// Scores start as 0xff.
Scored score(InfinigenScore args, const std::vector<std::int32_t>& tokens, const Buffer& query,
             const Buffer& keys, int skew) {
  const DeviceArray<std::int32_t> device_tokens(tokens), take(1);
  const DeviceTensor device_query(query, args.format, skew), device_keys(keys, args.format, skew);
  std::vector<float> poison(size(args.sequences * args.kv_heads * args.width));
  for (float& place : poison) std::memset(&place, 0xff, 4);
  const DeviceArray<float> scores(poison);
  args.kv_tokens = device_tokens.data();
  args.query = device_query.data();
  args.keys = device_keys.data();
  args.scores = scores.data();
  args.take = take.data();
  const cuda::DeviceBuffer workspace(cuda::infinigen_workspace(args));
  cuda::infinigen_score(args, workspace.workspace(), nullptr);
  return Scored{scores.host(), take.host()[0]};
}

void check_score(Random& random, int sequences, int kv_heads, int group, int kept, int width,
                 Format format, int cap, int skew = 0) {
  CAPTURE(group);
  CAPTURE(kept);
  CAPTURE(width);
  CAPTURE(to_string(format));
  std::vector<std::int32_t> tokens(size(sequences));
  for (std::int32_t& n : tokens) n = random.between(0, width);
  if (!tokens.empty()) tokens.back() = width;
  const std::size_t places = size(sequences * kv_heads * width);
  const Buffer query = normal_tensor(random, size(sequences * kv_heads * group * kept), format);
  const Buffer keys = normal_tensor(random, places * size(kept), format);
  InfinigenScore args;
  args.sequences = sequences;
  args.query_heads = kv_heads * group;
  args.kv_heads = kv_heads;
  args.channels_kept = kept;
  args.width = width;
  args.format = format;
  args.kv_tokens = tokens.data();
  args.query = query.data();
  args.keys = keys.data();
  args.scale = 1.5f / std::sqrt(static_cast<float>(kept));
  args.cap = cap;
  Buffer expected(places * 4);
  args.scores = expected.as<float>();
  // A logit within fp32's error of the threshold may fall on either side.
  std::int32_t most = 0, least = 0;
  args.alpha = 3.0001f;
  args.take = &most;
  ref::infinigen_score(args);
  args.alpha = 2.9999f;
  args.take = &least;
  ref::infinigen_score(args);
  args.alpha = 3;
  const Scored ours = score(args, tokens, query, keys, skew);
  CHECK(ours.take >= least);
  CHECK(ours.take <= most);
  // A weight's relative error is the error of its logit: |logit| 2^-24 sqrt(kept).
  CHECK(worst_error(ours.scores.data(), expected.data(), Format::fp32, places) <= 1e-4);
}

}  // namespace

TEST_CASE("infinigen: partial vectors, odd shapes in many orders") {
  INFO("seed ", run_seed());
  Random random(101);
  for_each_order(orders(10), [&] {
    for (Format format : {Format::fp32, Format::fp16, Format::bf16}) {
      check_project(random, random.between(1, 5), 4, 2, 64, random.between(1, 64), format);
    }
    check_project(random, 3, 3, 3, random.between(2, 70), 2, Format::bf16, 1);
    check_project(random, 1, 1, 1, 136, 33, Format::fp16);
  });
  check_project(random, 0, 1, 1, 16, 4, Format::fp32);
}

TEST_CASE("infinigen: partial vectors of many tokens, as when prefilling") {
  INFO("seed ", run_seed());
  Random random(102);
  for_each_order(
      2, [&] { check_project(random, 130, 4, 4, 48, 20, Format::bf16); }, 2);
  check_project(random, 70, 8, 4, 20, 9, Format::fp32, 1);
#if !defined(KVLANE_CUDA_HOST)
  check_project(random, 20001, 8, 8, 128, 38, Format::bf16);
#endif
}

TEST_CASE("infinigen: scores and rows to take, odd shapes in many orders") {
  INFO("seed ", run_seed());
  Random random(103);
  int round = 0;
  for_each_order(orders(12), [&] {
    const Format formats[] = {Format::fp32, Format::fp16, Format::bf16};
    const int groups[] = {1, 3, 8};
    ++round;  // every format meets every group
    for (int i = 0; i < 3; ++i) {
      check_score(random, random.between(1, 3), 2, groups[(i + round) % 3],
                  8 * random.between(1, 4), random.between(1, 300), formats[i], 0);
    }
    check_score(random, 2, 1, 4, random.between(1, 40), random.between(1, 200), Format::bf16, 5, 1);
    check_score(random, 1, 1, 11, 24, 70, Format::fp16, 0, 3);
    check_score(random, 1, 1, 2, 128, 140, Format::bf16, 0);
    check_score(random, 1, 1, 2, 250, 90, Format::fp32, 0);
  });
}

TEST_CASE("infinigen: scores of several chunks a row") {
  INFO("seed ", run_seed());
  Random random(104);
  for_each_order(orders(3), [&] { check_score(random, 1, 1, 2, 16, 2500, Format::bf16, 100); });
  for_each_order(
      1, [&] { check_score(random, 1, 2, 4, 32, 4101, Format::bf16, 0); }, 6);
}

TEST_CASE("infinigen: the threshold counts, the cap and the length limit") {
  // Logits 0, -1, ... -9 for one head: alpha 4 wants 4 (x > -4).
  InfinigenScore args;
  args.sequences = args.query_heads = args.kv_heads = args.channels_kept = 1;
  args.width = 10;
  args.format = Format::fp32;
  Buffer query(4), keys(40);
  query.as<float>()[0] = 1;
  for (int t = 0; t < 10; ++t) keys.as<float>()[t] = static_cast<float>(-t);
  CHECK(score(args, {10}, query, keys, 0).take == 4);
  args.cap = 3;
  CHECK(score(args, {10}, query, keys, 0).take == 3);
  args.cap = 0;
  args.alpha = 100;
  CHECK(score(args, {10}, query, keys, 0).take == 10);
  args.alpha = 0;  // nothing lies above the maximum: still one row
  CHECK(score(args, {10}, query, keys, 0).take == 1);
  CHECK(score(args, {0}, query, keys, 0).take == 0);
  CHECK(score(args, {-3}, query, keys, 0).take == 0);  // clamped
  args.width = 0;
  CHECK(score(args, {0}, query, keys, 0).take == 0);
}

TEST_CASE("infinigen: NaN and infinite logits have the reference's results") {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (float odd : {std::nanf(""), kInfinity, -kInfinity}) {
    for (int from : {0, 1024, 1499}) {  // all of head 0, a whole chunk of it, its last token
      CAPTURE(odd);
      InfinigenScore args;
      args.sequences = args.channels_kept = 1;
      args.query_heads = args.kv_heads = 2;
      args.width = 1500;
      args.format = Format::fp32;
      Buffer query(8), keys(2 * 1500 * 4), expected(2 * 1500 * 4);
      query.as<float>()[0] = query.as<float>()[1] = 1;
      for (int t = 0; t < 3000; ++t) keys.as<float>()[t] = static_cast<float>(t % 7);
      for (int t = from; t < 1500; ++t) keys.as<float>()[t] = odd;
      const std::vector<std::int32_t> tokens = {1500};
      std::int32_t take = 0;
      args.kv_tokens = tokens.data();
      args.query = query.data();
      args.keys = keys.data();
      args.scores = expected.as<float>();
      args.take = &take;
      ref::infinigen_score(args);
      const Scored ours = score(args, tokens, query, keys, 0);
      CHECK(worst_error(ours.scores.data(), expected.data(), Format::fp32, 3000) <= 1e-4);
      CHECK(ours.take == take);
    }
  }
}

TEST_CASE("infinigen: bad arguments are named") {
  InfinigenScore args;
  args.query_heads = args.kv_heads = args.channels_kept = 1;
  std::int32_t take = 7;
  CHECK_THROWS_AS(cuda::infinigen_score(args, {}, nullptr), std::invalid_argument);
  args.take = &take;
  args.alpha = -1;
  CHECK_THROWS_AS(cuda::infinigen_score(args, {}, nullptr), std::invalid_argument);
  args.alpha = 1;
  args.channels_kept = 257;
  CHECK_THROWS_WITH_AS(cuda::infinigen_score(args, {}, nullptr), "more than 256 kept channels",
                       std::invalid_argument);
  InfinigenProject project;
  project.kv_heads = project.heads = project.head_dim = 1;
  CHECK_THROWS_AS(cuda::infinigen_project(project, nullptr), std::invalid_argument);
}
