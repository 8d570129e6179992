// Samples as JSON lines: what is read, what is written, and the place in every complaint.

#include "sim/scenario/sample_file.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

#include "tests/unit/scenario/support.h"

using namespace kvlane;
using kvlane::test::error_of;

namespace {

const std::string kLine =
    R"({"machine": "H100-SXM", "source": "bench 1a2b", "licence": "MIT", "variant": "lib-1", )"
    R"("kernel": "gemm", "shape": {"m": 1, "n": 256, "k": 512}, "dtype": "bf16", )"
    R"("seconds": 2.5e-06})";

std::string with(std::string text, const std::string& old, const std::string& now) {
  const auto at = text.find(old);
  REQUIRE(at != std::string::npos);
  return text.replace(at, old.size(), now);
}

// "s.jsonl:LINE:COLUMN: ", the column being that of `part` in kLine.
std::string place(int line, const std::string& part) {
  const auto at = kLine.find(part);
  REQUIRE(at != std::string::npos);
  return "s.jsonl:" + std::to_string(line) + ':' + std::to_string(at + 1) + ": ";
}

std::string error(const std::string& text) {
  return error_of([&] { parse_samples(text, "s.jsonl"); });
}

bool starts(const std::string& text, const std::string& beginning) {
  CAPTURE(text);
  CAPTURE(beginning);
  const bool does = text.rfind(beginning, 0) == 0;
  CHECK(does);
  return does;
}

}  // namespace

TEST_CASE("a line is read field by field") {
  const std::vector<Sample> samples = parse_samples(
      kLine + "\n\n" +
          R"({"seconds": 1, "dtype": "", "shape": {"bytes": 4096, "queue_pairs": 2}, )"
          R"("kernel": "nic_message", "variant": "", "licence": "", "source": "", "machine": "x", )"
          R"("model": "m-7b", "set_aside": "duplicate"})" +
          "\r\n",
      "s.jsonl");
  REQUIRE(samples.size() == 2);
  const Sample first{"H100-SXM",    "bench 1a2b", "MIT",  "lib-1", "gemm",
                     {1, 256, 512}, "bf16",       2.5e-6, "",      ""};
  CHECK(samples[0] == first);
  const Sample second{"x", "", "", "", "nic_message", {4096, 2}, "", 1.0, "m-7b", "duplicate"};
  CHECK(samples[1] == second);
}

TEST_CASE("no lines are no samples") {
  CHECK(parse_samples("", "s.jsonl").empty());
  CHECK(parse_samples("\n \t\r\n", "s.jsonl").empty());
}

TEST_CASE("the shape is written in the kernel's order, absent fields are not") {
  const Sample sample{"H100-SXM",    "bench 1a2b", "MIT",  "lib-1", "gemm",
                      {1, 256, 512}, "bf16",       2.5e-6, "",      ""};
  CHECK(sample_line(sample) == kLine + '\n');
}

TEST_CASE("what is written is read back the same, for every kernel") {
  // Doubles whose shortest decimal form is long, and the ends of their range.
  const double times[] = {0.1 + 0.2,
                          1.0 / 3.0,
                          2.95556e-06,
                          5e-324,
                          std::numeric_limits<double>::max(),
                          std::nextafter(1.0, 2.0),
                          1.0,
                          1e22};
  std::string text;
  std::vector<Sample> all;
  for (const std::string& kernel : sample_kernels()) {
    for (const double time : times) {
      Sample sample{"a \"quoted\" name\\",
                    "tab\t, \xc3\xa9",
                    "CC-BY-4.0",
                    "\x01",
                    kernel,
                    {},
                    "fp8",
                    time,
                    "",
                    ""};
      for (std::size_t i = 0; i < sample_dimensions(kernel).size(); ++i) {
        sample.shape.push_back(static_cast<std::int64_t>(i) + 1);
      }
      if (kernel.starts_with("serving")) sample.model = "meta-llama/Llama-3.1-8B";
      if (time == 1.0) sample.set_aside = "throttled";
      text += sample_line(sample);
      all.push_back(sample);
    }
  }
  CHECK(parse_samples(text, "s.jsonl") == all);
}

TEST_CASE("a text that is no UTF-8 is written so that it can be read") {
  Sample sample = parse_samples(kLine, "s.jsonl").front();
  sample.variant = "\xff-1";
  CHECK(parse_samples(sample_line(sample), "s.jsonl").front().variant == "\xef\xbf\xbd-1");
}

TEST_CASE("texts are written as nlohmann's JSON does and numbers as fmt does") {
  const unsigned seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  Sample sample = parse_samples(kLine, "s.jsonl").front();
  const auto written = [&](const std::string& key) {
    const std::string line = sample_line(sample);
    const std::size_t from = line.find("\"" + key + "\": ") + key.size() + 4;
    return line.substr(from, line.find(key == "seconds" ? "}\n" : ", \"licence\"", from) - from);
  };
  // Bytes that begin, go on and end UTF-8 at the borders of its table, and any.
  const std::string borders =
      "\"\\\b\f\n\r\t\x1f\x7f\x80\x8f\x90\x9f\xa0\xbf\xc1\xc2\xdf\xe0\xec\xed\xef\xf0\xf4\xf5";
  for (int round = 0; round < 5000; ++round) {
    std::string text(random() % 6, '\0');
    for (char& c : text) {
      c = random() % 4 == 0 ? static_cast<char>(random()) : borders[random() % borders.size()];
    }
    sample.source = text;
    CHECK(written("source") ==
          nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  }
  sample.source = "s";
  for (int round = 0; round < 20000; ++round) {
    // Any positive double; every other one near the turns between the two notations.
    sample.seconds = std::bit_cast<double>(random() >> 1U);
    if (round % 2 == 0) {
      sample.seconds = std::pow(10.0, static_cast<int>(random() % 26) - 7) *
                       static_cast<double>(random() % 1000 + 1) / 100;
    }
    if (!std::isfinite(sample.seconds)) continue;
    CHECK(written("seconds") == fmt::format("{}", sample.seconds));
  }
}

TEST_CASE("sizes at their borders") {
  const auto reads = [](const std::string& text) { return error(text) == "no error"; };
  CHECK(reads(with(kLine, "\"m\": 1", "\"m\": 1000000000000000")));
  CHECK_FALSE(reads(with(kLine, "\"m\": 1", "\"m\": 1000000000000001")));
  CHECK_FALSE(reads(with(kLine, "\"m\": 1", "\"m\": 0")));
  CHECK_FALSE(reads(with(kLine, "\"m\": 1", "\"m\": 18446744073709551615")));
  CHECK_FALSE(reads(with(kLine, "\"m\": 1", "\"m\": 99999999999999999999")));
  const std::string prefix = with(
      with(kLine, "\"gemm\"", "\"prefix_attention\""), R"({"m": 1, "n": 256, "k": 512})",
      R"({"sequences": 1, "new_tokens": 16, "cached_tokens": 0, "query_heads": 8, "kv_heads": 2, )"
      R"("head_width": 128})");
  CHECK(reads(prefix));
  CHECK_FALSE(reads(with(prefix, "\"new_tokens\": 16", "\"new_tokens\": 0")));
  CHECK_FALSE(reads(with(prefix, "\"cached_tokens\": 0", "\"cached_tokens\": -1")));
}

TEST_CASE("a missing key is named, with its line") {
  for (const char* key :
       {"machine", "source", "licence", "variant", "kernel", "shape", "dtype", "seconds"}) {
    const std::string renamed = with(kLine, '"' + std::string(key) + "\":", "\"model\":");
    // `shape` and `seconds` become a model that is no text, which is another complaint.
    const std::string what = error(kLine + '\n' + renamed);
    if (key == std::string("shape") || key == std::string("seconds")) {
      CHECK(what.find("s.jsonl:2:") == 0);
      continue;
    }
    CHECK(what == "s.jsonl:2:1: no `" + std::string(key) + "`; expected it in every sample");
  }
  const std::string no_time = with(kLine, R"(, "seconds": 2.5e-06)", "");
  CHECK(error(no_time) == "s.jsonl:1:1: no `seconds`; expected it in every sample");
  const std::string no_shape = with(kLine, R"( "shape": {"m": 1, "n": 256, "k": 512},)", "");
  CHECK(error(no_shape) == "s.jsonl:1:1: no `shape`; expected it in every sample");
}

TEST_CASE("an unknown key, kernel or dimension") {
  starts(error(with(kLine, "\"dtype\"", "\"dtypo\"")),
         place(1, "\"dtype\"") + "unknown key `dtypo`; expected machine, ");
  starts(error(with(kLine, "\"gemm\"", "\"gem\"")),
         place(1, "\"kernel\"") + "unknown kernel `gem`; expected one of gemm, ");
  CHECK(error(with(kLine, "\"n\":", "\"N\":")) ==
        place(1, "\"n\":") + "dimension `N` of gemm; expected m, n, k");
  CHECK(error(with(kLine, ", \"k\": 512", "")) ==
        place(1, "\"shape\"") + "no `k` in the shape of gemm; expected m, n, k");
  CHECK(error(with(kLine, "\"n\": 256", "\"m\": 256")) != "no error");  // m a second time
}

TEST_CASE("values of another kind") {
  starts(error(with(kLine, "\"H100-SXM\"", "100")),
         place(1, "\"machine\"") + "`machine` is no text; ");
  starts(error(with(kLine, "2.5e-06", "\"2.5e-06\"")),
         place(1, "\"seconds\"") + "`seconds` is no number; ");
  starts(error(with(kLine, R"({"m": 1, "n": 256, "k": 512})", "[1, 256, 512]")),
         place(1, "\"shape\"") + "`shape` is no object; ");
  starts(error(with(kLine, "256", "256.5")), place(1, "\"n\": 256") + "`n`: 256.5; ");
  starts(error(with(kLine, "256", "\"256\"")), place(1, "\"n\": 256") + "`n`: \"256\"; ");
}

TEST_CASE("times that no clock shows") {
  const std::string at = place(1, "\"seconds\"");
  CHECK(error(with(kLine, "2.5e-06", "0")) == at + "0 s; expected a time above zero");
  CHECK(error(with(kLine, "2.5e-06", "-1e-9")) == at + "-1e-09 s; expected a time above zero");
  CHECK(error(with(kLine, "2.5e-06", "NaN")) != "no error");
  CHECK(error(with(kLine, "2.5e-06", "1e999")) ==
        "s.jsonl:1:1: not a JSON object; expected a sample");
  CHECK(error(with(kLine, "2.5e-06", "null")) != "no error");
}

TEST_CASE("lines that are no objects, counted with the blank ones") {
  for (const char* line : {"[]", "1", "{", "machine", "{} {}", "\"\xff\""}) {
    CAPTURE(line);
    starts(error(kLine + "\n\n" + line + '\n' + kLine), "s.jsonl:3:");
  }
  // The JSON library would stop reading at a zero byte.
  CHECK(error(kLine + '\n' + kLine + std::string(1, '\0') + "]") ==
        "s.jsonl:2:" + std::to_string(kLine.size() + 1) +
            ": a zero byte; expected a sample as JSON");
  // An object over two lines is none.
  starts(error(with(kLine, ", \"source\"", ",\n\"source\"")), "s.jsonl:1:");
  starts(error(kLine + kLine), "s.jsonl:1:");
  starts(error(with(kLine, "\"dtype\": \"bf16\"", "\"dtype\": \"bf16\", \"dtype\": \"bf16\"")),
         "s.jsonl:1:");
}

TEST_CASE("sample file: how it was taken goes there and back; imported lines have none of it") {
  Sample sample = parse_samples(kLine, "s.jsonl").front();
  CHECK(sample.conditions == Conditions{});
  CHECK(sample_line(sample) == kLine + '\n');
  Conditions& how = sample.conditions;
  how.seconds_p25 = 2.25e-6;
  how.seconds_p75 = 3e-6;
  how.repetitions = 7;
  how.commit = "abc1234567+";
  how.driver = "Linux 6.1";
  how.clock_state = "governor \"performance\"";
  how.problem = "measured under load: 3.00 above 0.50";
  how.load_average_1min = 3;
  how.threads = 2;
  how.multiprocessors = 92;
  how.memory_bytes = 8'000'000'000;
  how.cache_bytes = 8 << 20;
  const std::string line = sample_line(sample);
  CHECK(line.find(R"("load_average_1min": 3)") != std::string::npos);
  CHECK(line.find(R"("multiprocessors": 92)") != std::string::npos);
  CHECK(parse_samples(line, "s.jsonl").front() == sample);
  const auto added = [](const std::string& text) {
    return error(with(kLine, "2.5e-06}", "2.5e-06, " + text + "}"));
  };
  CHECK(starts(added(R"("repetitions": -1)"), "s.jsonl:1:"));
  CHECK(starts(added(R"("threads": 2.5)"), "s.jsonl:1:"));
  CHECK(starts(added(R"("multiprocessors": "92")"), "s.jsonl:1:"));
  CHECK(starts(added(R"("load_average_1min": -1)"), "s.jsonl:1:"));
  CHECK(starts(added(R"("seconds_p25": 0)"), "s.jsonl:1:"));
  CHECK(starts(added(R"("driver": 7)"), "s.jsonl:1:"));
}
