// Recorded traces: the shipped one against the counts of an independent reader
// (tests/fixtures/selection/gemma3_c2_counts.csv), round trips, and broken files.
#include <doctest/doctest.h>
#include <rapidcheck.h>
#include <zlib.h>

#include <algorithm>
#include <numeric>

#include "select_support.h"
#include "sim/base/input_error.h"
#include "sim/select/replay.h"

using namespace kvlane;

namespace {

constexpr const char* kShipped = "scenarios/workloads/gemma3_c2_4096_ig_global.kvsel.gz";

std::vector<std::uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }
std::vector<std::uint8_t> shipped() { return bytes_of(select_test::file_text(kShipped)); }

std::vector<std::uint8_t> gzip(const std::string& raw) {
  z_stream stream{};
  REQUIRE(deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string copy = raw;
  std::vector<std::uint8_t> out(deflateBound(&stream, copy.size()) + 64);
  stream.next_in = reinterpret_cast<Bytef*>(copy.data());
  stream.avail_in = static_cast<uInt>(copy.size());
  stream.next_out = out.data();
  stream.avail_out = static_cast<uInt>(out.size());
  REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

const std::string kHeader =
    R"({"format":"kvlane-selection-1","model":"m","selector":"ig","prompt_tokens":8,"steps":1,)"
    R"("n_layers":3,"layers":[2],"kv_heads":1,"dense_layers":[0,1]})";

std::string with(const std::string& from, const std::string& to) {
  std::string header = kHeader;
  const auto at = header.find(from);
  REQUIRE(at != std::string::npos);
  return header.replace(at, from.size(), to);
}

std::string error_of(const std::vector<std::uint8_t>& file) {
  try {
    read_selection_trace(file, "t.kvsel.gz");
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}
std::string error_of(const std::string& header, const std::string& body) {
  return error_of(gzip(header + "\n" + body));
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("replay: the shipped trace has the counts of the independent reader") {
  const SelectionTrace trace = read_selection_trace(shipped(), kShipped);
  CHECK(trace.model == "gemma-3-270m-q4_k_m");
  CHECK(trace.prompt_tokens == 4096);
  CHECK(trace.layers == std::vector<std::int64_t>{5, 11, 17});
  const KvLayout layout(select_test::gemma3(), 4096, 1024, 2, false);
  const auto demand = replay_demand(trace, layout, 64);
  REQUIRE(demand->steps() == 64);
  CHECK(demand->block_count() == 1024);
  CHECK_FALSE(demand->selects(0));
  CHECK(demand->own_queries(5).empty());

  std::istringstream in(select_test::file_text("tests/fixtures/selection/gemma3_c2_counts.csv"));
  int rows = 0;
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] < '0' || line[0] > '9') continue;
    std::replace(line.begin(), line.end(), ',', ' ');
    std::istringstream fields(line);
    std::size_t layer = 0;
    std::int64_t step = 0, read = 0, prompt = 0, first = 0;
    fields >> layer >> step >> read >> prompt >> first;
    REQUIRE(demand->selects(layer));
    CHECK(demand->attended(layer, step) == read);
    CHECK(demand->selected(layer, step) == prompt);
    const auto counts = demand->counts(layer, step);
    CHECK(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}) == prompt);
    std::int64_t fresh = 0;
    for (const BlockCount& b : demand->first_selected(layer, step)) fresh += b.rows;
    CHECK(fresh == first);
    ++rows;
  }
  CHECK(rows == 3 * 64);
  for (const std::size_t layer : {5U, 11U, 17U}) {
    std::vector<std::uint32_t> sum(1024);
    for (std::int64_t s = 0; s < 64; ++s) {
      for (std::size_t m = 0; m < 1024; ++m) sum[m] += demand->counts(layer, s)[m];
    }
    CHECK(std::equal(sum.begin(), sum.end(), demand->totals(layer).begin()));
  }
}

TEST_CASE("replay: a profile is the mean of the traces") {
  const SelectionTrace a = read_selection_trace(shipped(), kShipped);
  SelectionTrace b = a;
  for (auto& step : b.rows) step[0][0] = {0, 9};  // layer 5: blocks 0 and 2, once a step
  const KvLayout layout(select_test::gemma3(), 4096, 1024, 2, false);
  const auto demand = replay_demand(a, layout);
  const SelectionTrace* traces[] = {&a, &b};
  const auto profile = profile_of_traces(traces, layout);
  CHECK(profile.blocks == 1024);
  CHECK(profile.weight[0].empty());
  for (std::size_t m = 0; m < 1024; ++m) {
    const float other = m == 0 || m == 2 ? 64.0F : 0.0F;
    CHECK(profile.weight[5][m] ==
          doctest::Approx((static_cast<float>(demand->totals(5)[m]) + other) / 2));
    CHECK(profile.weight[11][m] == doctest::Approx(static_cast<float>(demand->totals(11)[m])));
  }
}

TEST_CASE("replay: what the header says of the body is the format's own words, or left out") {
  const std::string body("\x02\x00\x01", 3);  // two rows: 0 and 2
  CHECK(error_of(kHeader, body).empty());
  const auto header = [](const std::string& key, const std::string& words) {
    return with("\"dense_layers\"", "\"" + key + "\":\"" + words + "\",\"dense_layers\"");
  };
  CHECK(error_of(header("order", "step, layer, kv_head"), body).empty());
  CHECK(error_of(header("coding", "varint n, first id, then id[i]-id[i-1]-1"), body).empty());
  for (const char* key : {"row", "order", "coding"}) {
    const std::string error = error_of(header(key, "layer, step"), body);
    CHECK(has(error, std::string("'") + key + "' is `layer, step`; expected `"));
  }
  CHECK(has(error_of(with("\"m\"", "\"a\\u001bb\""), body), "control character"));
  // Every error says what was expected.
  CHECK(has(error_of(kHeader, body + "x"), "1 bytes after the last step; expected "));
  CHECK(has(error_of(with("\"steps\":1", "\"steps\":-1"), body), "; expected a whole number"));
}

TEST_CASE("replay: a trace of another model, length or layer set is refused") {
  const SelectionTrace trace = read_selection_trace(shipped(), kShipped);
  const auto refused = [&](const ModelSpec& model, std::int64_t tokens, bool as_full,
                           std::int64_t steps) {
    try {
      replay_demand(trace, KvLayout(model, tokens, 1024, 2, as_full), steps);
    } catch (const InputError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  CHECK(has(refused(select_test::model(30, 1), 4096, false, 0), "18 layers"));
  CHECK(has(refused(select_test::gemma3(), 4095, false, 0), "4096 prompt tokens"));
  CHECK(has(refused(select_test::gemma3(), 4096, true, 0), "layer 2 selects"));
  CHECK(has(refused(select_test::gemma3(), 4096, false, 65), "64 decode steps"));
  ModelSpec wide = select_test::gemma3();
  for (auto& layer : wide.layers) layer.kv_heads = 2;
  CHECK(has(refused(wide, 4096, false, 0), "1 kv heads"));
  CHECK(refused(select_test::gemma3(), 4096, false, 64).empty());
}

TEST_CASE("replay: written and read again, a trace is the same") {
  rc::check("round trip", [] {
    SelectionTrace trace;
    trace.name = "t";
    trace.model = "model \"x\" \xc3\xa9";
    trace.selector = "ig";
    trace.prompt_tokens = *rc::gen::inRange<std::int64_t>(1, 300);
    trace.steps = *rc::gen::inRange<std::int64_t>(1, 5);
    trace.model_layers = 4;
    trace.layers = {1, 3};
    trace.dense_layers = {0};
    trace.kv_heads = *rc::gen::inRange<std::int64_t>(1, 4);
    trace.rows.resize(static_cast<std::size_t>(trace.steps));
    for (std::size_t s = 0; s < trace.rows.size(); ++s) {
      trace.rows[s].resize(2);
      for (auto& layer : trace.rows[s]) {
        for (std::int64_t h = 0; h < trace.kv_heads; ++h) {
          auto rows = *rc::gen::container<std::vector<std::uint32_t>>(
              rc::gen::inRange<std::uint32_t>(0, static_cast<std::uint32_t>(trace.prompt_tokens) +
                                                     static_cast<std::uint32_t>(s) + 1));
          std::sort(rows.begin(), rows.end());
          rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
          layer.push_back(std::move(rows));
        }
      }
    }
    const SelectionTrace again = read_selection_trace(write_selection_trace(trace), "t");
    RC_ASSERT(again.rows == trace.rows);
    RC_ASSERT(again.layers == trace.layers);
    RC_ASSERT(again.dense_layers == trace.dense_layers);
    RC_ASSERT(again.model == trace.model);
    RC_ASSERT(again.kv_heads == trace.kv_heads);
  });
}

TEST_CASE("replay: cut or corrupted files are input errors, never anything else") {
  const std::vector<std::uint8_t> file = shipped();
  for (std::size_t size = 0; size < file.size(); size += 97) {
    CHECK_FALSE(error_of({file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size)}).empty());
  }
  rc::check("a changed byte is noticed or harmless", [&] {
    std::vector<std::uint8_t> bad = file;
    const auto at = *rc::gen::inRange<std::size_t>(0, bad.size());
    bad[at] = static_cast<std::uint8_t>(bad[at] ^ *rc::gen::inRange(1, 256));
    try {
      read_selection_trace(bad, "bad");
    } catch (const InputError&) {
    }
  });
  auto longer = file;
  longer.push_back(0);
  CHECK(has(error_of(longer), "1 bytes after the gzip stream"));
}

TEST_CASE("replay: what a header and a body may not say") {
  CHECK(error_of(kHeader, std::string("\x02\x00\x07", 3)).empty());            // rows 0 and 8 of 9
  CHECK(has(error_of(kHeader, std::string("\x02\x00\x08", 3)), "at most 7"));  // row 9
  CHECK(has(error_of(kHeader, std::string("\x0a", 1)), "at most 9"));          // 10 rows of 9
  CHECK(has(error_of(kHeader, ""), "ends early"));
  CHECK(has(error_of(kHeader, std::string("\x02\x00", 2)), "ends early"));
  CHECK(has(error_of(kHeader, std::string("\x00\x00", 2)), "1 bytes after the last step"));
  CHECK(has(error_of(kHeader, "\xff\xff\xff\xff\xff\xff"), "varint"));
  CHECK(has(error_of("[]", "x"), "JSON object"));
  CHECK(has(error_of("{", "x"), "JSON object"));
  CHECK(has(error_of(gzip("no line")), "no line end"));
  CHECK(has(error_of(bytes_of("plain text")), "gzip"));
  CHECK(has(error_of(with("selection-1", "selection-2"), "\x01"), "kvlane-selection-2"));
  CHECK(has(error_of(with(R"("steps":1)", R"("steps":0)"), "\x01"), "steps"));
  CHECK(has(error_of(with(R"("steps":1)", R"("steps":1.5)"), "\x01"), "steps"));
  CHECK(has(error_of(with(R"("steps":1)", R"("steps":18446744073709551615)"), "\x01"), "steps"));
  CHECK(has(error_of(with(R"("steps":1)", R"("steps":60000)"), "\x01"), "ends early"));
  CHECK(has(error_of(with(R"("layers":[2])", R"("layers":[3])"), "\x01"), "layers"));
  CHECK(has(error_of(with(R"("layers":[2])", R"("layers":[2,1])"), "\x01"), "layers"));
  CHECK(has(error_of(with(R"("layers":[2])", R"("layers":[])"), "\x01"), "no layer"));
  CHECK(has(error_of(with(R"("model":"m",)", ""), "\x01"), "model"));
}

TEST_CASE("replay: a small file that unpacks to too much is refused") {
  CHECK(has(error_of(gzip(std::string(kLargestTrace + 1, 'x'))), "128 MiB"));
}
