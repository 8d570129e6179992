// The CPU kernels' benchmarks: each beside what it is held against, in the same run, on the same
// threads and memory, and checked first. Lines as docs/contracts.md names them.

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/decode_attention/kernel.h"
#include "kernels/hack/kernel.h"
#include "kernels/hata/kernel.h"
#include "kernels/kv_gather/kernel.h"
#include "kernels/sparse_attention/kernel.h"
#include "kernels/topk/kernel.h"
#include "tests/bench/contract_report.h"
#include "tests/bench/kernel_inputs.h"
#include "tests/bench/memory_rate.h"

namespace kvlane::bench {
namespace {

using namespace kvlane::kernels;

template <class Body>
double seconds_of(Body&& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

[[noreturn]] void wrong(const std::string& name) {
  fmt::print(stderr, "{}: the result is wrong; nothing was timed\n", name);
  std::exit(1);
}

// Largest difference relative to the largest value, bf16.
double difference(const std::vector<std::uint16_t>& a, const std::vector<std::uint16_t>& b) {
  double worst = 0, largest = 1e-30;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double x = from_bf16(a[i]), y = from_bf16(b[i]);
    if (!std::isfinite(x)) return std::numeric_limits<double>::infinity();
    worst = std::max(worst, std::fabs(x - y));
    largest = std::max(largest, std::fabs(y));
  }
  return worst / largest;
}

std::vector<std::uint16_t> queries(int sequences) {
  std::mt19937 engine(1);
  std::normal_distribution<float> normal;
  std::vector<std::uint16_t> query(static_cast<std::size_t>(sequences) * LargeKv::kQueryHeads *
                                   LargeKv::kWidth);
  for (std::uint16_t& value : query) value = to_bf16(normal(engine));
  return query;
}

constexpr int kSequences = 16;

void add_read(const std::string& name, const Memory& memory, std::size_t bytes, Cpu& cpu) {
  add_benchmark(name, kRival, static_cast<double>(bytes), [&memory, bytes, &cpu] {
    return seconds_of([&] { benchmark::DoNotOptimize(read_all(memory.data(), bytes, cpu)); });
  });
}

struct Attention {
  LargeKv kv;
  HalfOfRows runs, single;
  std::vector<std::uint16_t> query, out;

  Attention(std::size_t working_set, Cpu& cpu)
      : kv(2 * working_set, kSequences, cpu),
        runs(kv, 8),
        single(kv, 1),
        query(queries(kSequences)),
        out(query.size()) {}

  // Over the first `tokens` of each sequence.
  DecodeAttention decode(const std::vector<std::int32_t>& tokens) {
    return {kSequences,
            LargeKv::kQueryHeads,
            query.data(),
            kv.cache,
            tokens.data(),
            1 / std::sqrt(128.0f),
            0,
            0,
            out.data()};
  }
  SparseAttention sparse(const HalfOfRows& rows) {
    return {kSequences,
            LargeKv::kQueryHeads,
            query.data(),
            kv.cache,
            kv.tokens.data(),
            rows.index.data(),
            nullptr,
            rows.width,
            1 / std::sqrt(128.0f),
            0,
            out.data()};
  }
};

void add_attention(Attention& data, std::vector<std::int32_t>& half, Cpu& cpu) {
  const std::vector<std::int32_t> few(kSequences, 300);
  const auto checked = [&](const std::string& name, auto&& ours, auto&& reference) {
    ours();
    const std::vector<std::uint16_t> result = data.out;
    reference();
    if (!(difference(result, data.out) < 0x1p-7)) wrong(name);
  };
  checked(
      "decode_attention", [&] { cpu::decode_attention(data.decode(few), cpu); },
      [&] { ref::decode_attention(data.decode(few)); });
  half.assign(kSequences, data.kv.tokens[0] / 2);
  const double bytes = static_cast<double>(kSequences) * half[0] * LargeKv::kHeads * 512;
  add_benchmark("decode_attention", kOurs, bytes, [&data, &half, &cpu] {
    return seconds_of([&] { cpu::decode_attention(data.decode(half), cpu); });
  });
  add_read("decode_attention", data.kv.rows, static_cast<std::size_t>(bytes), cpu);
  for (const auto& [name, rows] : {std::pair{"sparse_attention/4096", &data.runs},
                                   std::pair{"sparse_attention/512", &data.single}}) {
    HalfOfRows small = *rows;
    std::vector<std::int32_t> counts(kSequences * LargeKv::kHeads, 200);
    SparseAttention args = data.sparse(small);
    args.index_count = counts.data();
    checked(
        name, [&] { cpu::sparse_attention(args, cpu); }, [&] { ref::sparse_attention(args); });
    const double selected = static_cast<double>(rows->index.size()) * 512;
    add_benchmark(name, kOurs, selected, [&data, rows = rows, &cpu] {
      return seconds_of([&] { cpu::sparse_attention(data.sparse(*rows), cpu); });
    });
    add_read(name, data.kv.rows, static_cast<std::size_t>(selected), cpu);
  }
}

void add_gather(Attention& data, const Memory& packed, Cpu& cpu) {
  for (const auto& [name, rows] :
       {std::pair{"kv_gather/4096", &data.runs}, std::pair{"kv_gather/512", &data.single}}) {
    const std::size_t bytes = rows->index.size() * 512;
    const auto gather = [&data, &packed, rows = rows, &cpu] {
      const KvGather args{kSequences, data.kv.cache, data.kv.tokens.data(), rows->index.data(),
                          nullptr,    rows->width,   packed.data()};
      cpu::kv_gather(args, cpu);
    };
    gather();
    for (std::size_t i = 0; i < rows->index.size(); i += 997) {
      const std::size_t pair = i / static_cast<std::size_t>(rows->width);
      const std::size_t row =
          data.kv.cache.row(static_cast<int>(pair) / LargeKv::kHeads,
                            static_cast<int>(pair) % LargeKv::kHeads, rows->index[i]);
      if (std::memcmp(static_cast<const char*>(packed.data()) + i * 512,
                      static_cast<const char*>(data.kv.rows.data()) + row * 512, 512) != 0) {
        wrong(name);
      }
    }
    add_benchmark(name, kOurs, 2.0 * static_cast<double>(bytes),
                  [gather] { return seconds_of(gather); });
    add_benchmark(name, kRival, 2.0 * static_cast<double>(bytes), [&data, &packed, bytes, &cpu] {
      return seconds_of([&] { copy_all(packed.data(), data.kv.rows.data(), bytes, cpu); });
    });
  }
}

struct Hata {
  Memory codes, norms, scores;
  std::vector<HataCode> query;
  std::vector<std::int32_t> tokens;
  int width;

  Hata(std::size_t working_set, Cpu& cpu)
      : codes(working_set / 18 * 16), norms(working_set / 18 * 2), scores(working_set / 18 * 4) {
    fill_bf16(codes, cpu);
    fill_bf16(norms, cpu);
    // The same bits as fp16: finite, too.
    width = static_cast<int>(working_set / 18 / (kSequences * LargeKv::kHeads));
    tokens.assign(kSequences, width);
    std::mt19937_64 engine(2);
    query.resize(kSequences * LargeKv::kQueryHeads);
    for (HataCode& code : query) code = {{engine(), engine()}};
  }
  HataScore score(int n_tokens = 0) {
    if (n_tokens > 0) tokens.assign(kSequences, n_tokens);
    return {kSequences,
            LargeKv::kQueryHeads,
            LargeKv::kHeads,
            width,
            tokens.data(),
            query.data(),
            static_cast<const HataCode*>(codes.data()),
            static_cast<const std::uint16_t*>(norms.data()),
            static_cast<float*>(scores.data())};
  }
};

void add_hata(Hata& data, Cpu& cpu) {
  cpu::hata_score(data.score(100), cpu);
  std::vector<float> ours;
  const auto take = [&] {
    std::vector<float> taken;
    for (std::size_t pair = 0; pair < kSequences * LargeKv::kHeads; ++pair) {
      const float* row = static_cast<const float*>(data.scores.data()) +
                         pair * static_cast<std::size_t>(data.width);
      taken.insert(taken.end(), row, row + 100);
    }
    return taken;
  };
  ours = take();
  ref::hata_score(data.score(100));
  if (ours != take()) wrong("hata_score");
  data.score(data.width);
  const double keys = static_cast<double>(data.width) * kSequences * LargeKv::kHeads;
  add_benchmark("hata_score", kOurs, keys * 18,
                [&data, &cpu] { return seconds_of([&] { cpu::hata_score(data.score(), cpu); }); });
  add_read("hata_score", data.codes, data.codes.bytes(), cpu);
}

void add_topk(std::vector<std::vector<float>>& inputs) {
  std::mt19937 engine(3);
  std::normal_distribution<float> normal;
  for (std::size_t n : {10000u, 100000u, 1000000u}) {
    inputs.emplace_back(n);
    for (float& score : inputs.back()) score = normal(engine);
  }
  for (std::size_t which = 0; which < inputs.size(); ++which) {
    const std::vector<float>& scores = inputs[which];
    const std::size_t n = scores.size(), k = n / 10;
    const std::string name = fmt::format("topk/{}", n);
    const auto ours = [&scores, n, k](std::vector<std::int32_t>& index, Cpu& cpu) {
      std::int32_t count = 0;
      cpu::topk({1, static_cast<int>(n), scores.data(), nullptr, static_cast<int>(k), index.data(),
                 &count},
                cpu);
    };
    {
      Cpu cpu(1);
      std::vector<std::int32_t> index(k), expected(k);
      std::int32_t count = 0;
      ours(index, cpu);
      ref::topk({1, static_cast<int>(n), scores.data(), nullptr, static_cast<int>(k),
                 expected.data(), &count});
      if (index != expected) wrong(name);
    }
    const auto rounds = static_cast<int>(2000000 / n);
    add_benchmark(name, kOurs, static_cast<double>(n) * rounds, [ours, rounds, k] {
      Cpu cpu(1);
      std::vector<std::int32_t> index(k);
      ours(index, cpu);
      return seconds_of([&] {
        for (int i = 0; i < rounds; ++i) ours(index, cpu);
      });
    });
    // Only the k-th value: no positions, ties as they fall.
    add_benchmark(name, kRival, static_cast<double>(n) * rounds, [&scores, rounds, n, k] {
      std::vector<float> copy(n);
      return seconds_of([&] {
        for (int i = 0; i < rounds; ++i) {
          std::copy(scores.begin(), scores.end(), copy.begin());
          std::nth_element(copy.begin(), copy.begin() + static_cast<std::ptrdiff_t>(k - 1),
                           copy.end(), std::greater<>());
          benchmark::DoNotOptimize(copy[k - 1]);
        }
      });
    });
  }
}

// 4 sequences of 16K tokens: HACK's kernel beside the one that dequantises, over the same store.
struct Hack {
  static constexpr int kSequences = 4, kTokens = 16384;
  HackShape shape{2, 64, 4, LargeKv::kHeads, LargeKv::kWidth, Format::bf16, kTokens};
  Memory store;
  std::vector<std::uint16_t> query, out;
  std::vector<std::int32_t> tokens;

  explicit Hack(Cpu& cpu)
      : store(kSequences * hack_sequence_bytes(shape)),
        query(queries(kSequences)),
        out(query.size()),
        tokens(kSequences, kTokens) {
    const Memory keys(std::size_t{kSequences} * kTokens * LargeKv::kHeads * LargeKv::kWidth * 2);
    const Memory values(keys.bytes());
    fill_bf16(keys, cpu);
    fill_bf16(values, cpu);
    const std::vector<std::int32_t> none(kSequences, 0);
    cpu::hack_append(
        {shape, kSequences, none.data(), tokens.data(), keys.data(), values.data(), store.data()},
        cpu);
  }
  HackAttention attention() {
    return {shape,        kSequences,    LargeKv::kQueryHeads,  query.data(),
            store.data(), tokens.data(), 1 / std::sqrt(128.0f), out.data()};
  }
};

void add_hack(Hack& data, Cpu& cpu) {
  const auto checked = [&](auto&& ours, auto&& reference, double allowed) {
    ours(data.attention(), cpu);
    const std::vector<std::uint16_t> result = data.out;
    reference(data.attention());
    if (!(difference(result, data.out) < allowed)) wrong("hack_vs_dequant");
  };
  data.tokens.assign(Hack::kSequences, 300);
  // Codes of 8 bits may fall on either side of a tie: one step of 256.
  checked(cpu::hack_attention, ref::hack_attention, 1.0 / 64);
  checked(cpu::hack_dequantise_attention, ref::hack_dequantise_attention, 1.0 / 64);
  data.tokens.assign(Hack::kSequences, Hack::kTokens);
  const double rows = double{Hack::kSequences} * Hack::kTokens * LargeKv::kHeads;
  fmt::print(stderr, "hack_vs_dequant: {:.3f} of the bytes of bf16\n",
             static_cast<double>(hack_sent_bytes(data.shape, Hack::kTokens)) /
                 (double{Hack::kTokens} * LargeKv::kHeads * 512));
  add_benchmark("hack_vs_dequant", kOurs, rows, [&data, &cpu] {
    return seconds_of([&] { cpu::hack_attention(data.attention(), cpu); });
  });
  add_benchmark("hack_vs_dequant", kRival, rows, [&data, &cpu] {
    return seconds_of([&] { cpu::hack_dequantise_attention(data.attention(), cpu); });
  });
}

// decode_vs_torch: one call over what tests/bench/decode_vs_torch.py names; prints its seconds. The
// script holds both against each other and takes turns.
int decode_for_torch(int sequences, int tokens, const std::string& query_file,
                     const std::string& rows_file, const std::string& out_file, int rounds) {
  const auto read = [](const std::string& path, void* to, std::size_t bytes) {
    std::FILE* file = std::fopen(path.c_str(), "rb");
    if (file == nullptr || std::fread(to, 1, bytes, file) != bytes) {
      fmt::print(stderr, "{}: cannot be read\n", path);
      std::exit(2);
    }
    std::fclose(file);
  };
  Cpu cpu(usable_processors(), true);
  LargeKv kv(static_cast<std::size_t>(sequences) * static_cast<std::size_t>(tokens) *
                 LargeKv::kHeads * 512,
             sequences, cpu);
  std::vector<std::uint16_t> query(static_cast<std::size_t>(sequences) * LargeKv::kQueryHeads *
                                   128);
  std::vector<std::uint16_t> out(query.size());
  read(query_file, query.data(), query.size() * 2);
  read(rows_file, kv.rows.data(), kv.rows.bytes());
  for (int round = 0; round < rounds; ++round) {
    const double seconds = seconds_of([&] {
      cpu::decode_attention({sequences, LargeKv::kQueryHeads, query.data(), kv.cache,
                             kv.tokens.data(), 1 / std::sqrt(128.0f), 0, 0, out.data()},
                            cpu);
    });
    fmt::print("{:.9f}\n", seconds);
  }
  std::FILE* file = std::fopen(out_file.c_str(), "wb");
  if (file == nullptr || std::fwrite(out.data(), 2, out.size(), file) != out.size()) return 2;
  return std::fclose(file) == 0 ? 0 : 2;
}

int run(int argc, char** argv) {
  if (argc == 8 && std::string(argv[1]) == "--decode-for-torch") {
    return decode_for_torch(std::stoi(argv[2]), std::stoi(argv[3]), argv[4], argv[5], argv[6],
                            std::stoi(argv[7]));
  }
  ContractReporter reporter;
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  const int threads = usable_processors();
  Cpu cpu(threads, true);
  const std::size_t working_set = 4 * last_level_cache();
  fmt::print(stderr, "{} threads; last-level cache {} MiB, working sets {} MiB\n", threads,
             last_level_cache() >> 20, working_set >> 20);
  Attention attention(working_set, cpu);
  std::vector<std::int32_t> half;
  add_attention(attention, half, cpu);
  const Memory packed(working_set + (1 << 20));
  add_gather(attention, packed, cpu);
  Hata hata(working_set, cpu);
  add_hata(hata, cpu);
  std::vector<std::vector<float>> rows;
  add_topk(rows);
  Hack hack(cpu);
  add_hack(hack, cpu);
  benchmark::RunSpecifiedBenchmarks(&reporter);
  return reporter.print({"decode_attention", "hata_score", "sparse_attention/4096",
                         "sparse_attention/512", "kv_gather/4096", "kv_gather/512", "topk/10000",
                         "topk/100000", "topk/1000000", "hack_vs_dequant"})
             ? 0
             : 1;
}

}  // namespace
}  // namespace kvlane::bench

int main(int argc, char** argv) { return kvlane::bench::run(argc, argv); }
