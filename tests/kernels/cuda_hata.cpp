// HATA on the GPU's code: codes are the signs of the products but where fp32 cannot tell, scores
// are the reference's bit for bit.

#include <doctest/doctest.h>

#include <bit>
#include <limits>

#include "kernels/hata/cuda.h"
#include "tests/support/cuda_test.h"
#include "tests/support/kernel_cases.h"

using namespace kvlane::kernels;
using namespace kvlane::kernels::testing;

namespace {

std::vector<std::uint8_t> bytes_of_buffer(const Buffer& buffer) {
  const auto* at = static_cast<const std::uint8_t*>(buffer.data());
  return {at, at + buffer.bytes()};
}

// `skew`: elements of x past an aligned address.
void check_encode(Random& random, int tokens, int heads, int kv_heads, int head_dim, Format format,
                  bool with_norms, int skew = 0, bool with_nan = false) {
  CAPTURE(tokens);
  CAPTURE(heads);
  CAPTURE(head_dim);
  CAPTURE(to_string(format));
  const std::size_t vectors = size(tokens * heads), width = size(head_dim);
  Buffer all = normal_tensor(random, size(skew) + vectors * width, format);
  auto* x = static_cast<std::byte*>(all.data()) + size(skew) * bytes_of(format);
  if (with_nan) store(x, format, 0, std::nanf(""));
  std::vector<float> weights(size(kv_heads) * width * 128);
  for (float& w : weights) w = random.normal();
  std::vector<HataCode> expected(vectors);
  std::vector<std::uint16_t> expected_norms(vectors);
  HataEncode args{tokens,         heads,           kv_heads,
                  head_dim,       format,          x,
                  weights.data(), expected.data(), with_norms ? expected_norms.data() : nullptr};
  ref::hata_encode(args);
  const DeviceArray<std::uint8_t> device_x(bytes_of_buffer(all));
  const DeviceArray<float> device_weights(weights);
  const DeviceArray<HataCode> codes(vectors);
  const DeviceArray<std::uint16_t> norms(vectors);
  HataEncode device = args;
  device.x = device_x.data() + size(skew) * bytes_of(format);
  device.weights = device_weights.data();
  device.codes = codes.data();
  device.norms = with_norms ? norms.data() : nullptr;
  cuda::hata_encode(device, nullptr);
  const std::vector<HataCode> ours = codes.host();
  for (std::size_t v = 0; v < vectors; ++v) {
    for (std::size_t word = 0; word < 2; ++word) {
      for (std::uint64_t odd = ours[v].word[word] ^ expected[v].word[word]; odd != 0;
           odd &= odd - 1) {
        const std::size_t j = 64 * word + static_cast<std::size_t>(std::countr_zero(odd));
        // The sum of |terms| bounds what fp32 can get wrong.
        double sum = 0, terms = 0;
        const std::size_t kv_head = v % size(heads) / size(heads / kv_heads);
        for (std::size_t i = 0; i < width; ++i) {
          const double term = static_cast<double>(load(x, format, v * width + i)) *
                              static_cast<double>(weights[(kv_head * width + i) * 128 + j]);
          sum += term;
          terms += std::fabs(term);
        }
        CAPTURE(v);
        CAPTURE(j);
        CHECK(std::fabs(sum) <= terms * static_cast<double>(width) * 0x1p-24);
      }
    }
  }
  if (!with_norms) return;
  const std::vector<std::uint16_t> our_norms = norms.host();
  for (std::size_t v = 0; v < vectors; ++v) {
    if (std::isnan(from_fp16(expected_norms[v]))) {
      CHECK(std::isnan(from_fp16(our_norms[v])));
    } else {
      CHECK(std::abs(our_norms[v] - expected_norms[v]) <= 1);  // a step of fp16
    }
  }
}

void check_score(Random& random, int sequences, int kv_heads, int group, int width,
                 bool with_norms) {
  CAPTURE(group);
  CAPTURE(width);
  const std::size_t keys = size(sequences * kv_heads * width);
  std::vector<std::int32_t> tokens(size(sequences));
  for (std::int32_t& n : tokens) n = random.between(0, width);
  if (!tokens.empty()) tokens.back() = width;
  std::vector<HataCode> key_codes(keys), query_codes(size(sequences * kv_heads * group));
  for (HataCode& code : key_codes) code = {{random.engine()(), random.engine()()}};
  for (HataCode& code : query_codes) {  // columns where all agree and where they do not
    code = {{random.engine()() | random.engine()(), random.engine()() & random.engine()()}};
  }
  std::vector<std::uint16_t> norms(keys);
  for (std::uint16_t& norm : norms) norm = to_fp16(std::fabs(random.normal()) * 10);
  if (keys > 3) {
    norms[0] = 0x7e00;         // NaN
    norms[1] = 0x7c00;         // infinity
    norms[keys - 1] = 0x0001;  // the smallest
  }
  Buffer expected(keys * 4);
  HataScore args{sequences,
                 kv_heads * group,
                 kv_heads,
                 width,
                 tokens.data(),
                 query_codes.data(),
                 key_codes.data(),
                 with_norms ? norms.data() : nullptr,
                 expected.as<float>()};
  ref::hata_score(args);
  const DeviceArray<std::int32_t> device_tokens(tokens);
  const DeviceArray<HataCode> device_queries(query_codes), device_keys(key_codes);
  const DeviceArray<std::uint16_t> device_norms(norms);
  // What no kernel writes must stay as it is: the places past a sequence's end.
  std::vector<float> poison(keys);
  for (float& place : poison) std::memset(&place, 0xff, 4);
  const DeviceArray<float> scores(poison);
  args.kv_tokens = device_tokens.data();
  args.query_codes = device_queries.data();
  args.key_codes = device_keys.data();
  args.key_norms = with_norms ? device_norms.data() : nullptr;
  args.scores = scores.data();
  cuda::hata_score(args, nullptr);
  const std::vector<float> ours = scores.host();
  std::size_t different = 0;
  for (std::size_t i = 0; i < keys; ++i) {
    const float b = expected.as<float>()[i];
    const bool same = std::bit_cast<unsigned>(ours[i]) == std::bit_cast<unsigned>(b) ||
                      (std::isnan(ours[i]) && std::isnan(b));
    if (!same) ++different;
  }
  CHECK(different == 0);
}

}  // namespace

TEST_CASE("hata: codes and norms, odd shapes in many orders") {
  INFO("seed ", run_seed());
  Random random(91);
  for_each_order(orders(10), [&] {
    for (Format format : {Format::fp32, Format::fp16, Format::bf16}) {
      check_encode(random, random.between(1, 7), 4, 2, 64, format, random.below(2) == 0);
    }
    check_encode(random, 3, 3, 1, random.between(1, 70), Format::bf16, true, 1);
    check_encode(random, 1, 1, 1, 144, Format::fp32, true);
    check_encode(random, 2, 2, 2, 16, Format::fp16, true, 0, true);
  });
  check_encode(random, 0, 2, 1, 16, Format::fp32, true);
}

TEST_CASE("hata: codes of many vectors, as when prefilling") {
  INFO("seed ", run_seed());
  Random random(92);
  // 4 multiprocessors in the executor: 8 tiles of 32 are many. On a GPU the small shapes are few.
  for_each_order(
      2, [&] { check_encode(random, 133, 2, 1, 72, Format::bf16, true); }, 2);
  check_encode(random, 130, 4, 2, 33, Format::fp32, true, 3);
#if !defined(KVLANE_CUDA_HOST)
  check_encode(random, 6001, 8, 8, 128, Format::bf16, true);
#endif
}

TEST_CASE("hata: scores bit for bit, odd shapes in many orders") {
  INFO("seed ", run_seed());
  Random random(93);
  for_each_order(orders(12), [&] {
    for (int group : {1, 2, 3, 4, 5, 8, 31}) {
      check_score(random, random.between(1, 3), random.between(1, 2), group, random.between(1, 300),
                  random.below(2) == 0);
    }
    check_score(random, 1, 1, random.between(1, 70), 1, true);
    check_score(random, 1, 2, 4, 2077, true);
  });
  check_score(random, 0, 2, 2, 10, true);
  check_score(random, 2, 2, 2, 0, true);
  check_score(random, 1, 1, 4096, 3, true);
}

TEST_CASE("hata: scores, one large shape of several chunks a row") {
  INFO("seed ", run_seed());
  Random random(94);
  for_each_order(
      1, [&] { check_score(random, 2, 8, 4, 20001, true); }, 6);
}

TEST_CASE("hata: lengths that only the device sees are clamped; bad arguments are named") {
  const DeviceArray<std::int32_t> tokens(std::vector<std::int32_t>{-1, 9});  // of 2
  const DeviceArray<HataCode> queries(std::vector<HataCode>(2)), keys(std::vector<HataCode>(4));
  const DeviceArray<float> scores(std::vector<float>(4, -5));
  HataScore args{2, 1, 1, 2, tokens.data(), queries.data(), keys.data(), nullptr, scores.data()};
  cuda::hata_score(args, nullptr);
  CHECK(scores.host() == std::vector<float>{-5, -5, 1, 1});
  args.query_heads = 0;
  CHECK_THROWS_AS(cuda::hata_score(args, nullptr), std::invalid_argument);
  args.query_heads = 1;
  args.key_codes =
      reinterpret_cast<const HataCode*>(reinterpret_cast<const unsigned char*>(keys.data()) + 8);
  CHECK_THROWS_WITH_AS(cuda::hata_score(args, nullptr),
                       "key codes at an address that is not a multiple of 16",
                       std::invalid_argument);
  HataEncode encode;
  encode.tokens = encode.heads = encode.kv_heads = encode.head_dim = 1;
  CHECK_THROWS_AS(cuda::hata_encode(encode, nullptr), std::invalid_argument);
}
