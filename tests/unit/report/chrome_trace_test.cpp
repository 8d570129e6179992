#include "sim/report/chrome_trace.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sim/base/rng.h"
#include "sim/port/compute.h"

using namespace kvlane;
using namespace kvlane::literals;
using Json = nlohmann::json;

namespace {

TimePoint at(Duration d) { return TimePoint(d); }

TraceRecord milestone(TraceKind kind, std::uint32_t request, Duration when, int iteration = -1) {
  TraceRecord r;
  r.kind = kind;
  r.request = RequestId(request);
  r.begin = r.end = at(when);
  r.iteration = iteration;
  return r;
}

TraceRecord work(WorkKind kind, std::uint32_t gpu, std::uint32_t layer, Duration begin,
                 Duration end) {
  TraceRecord r;
  r.kind = TraceKind::compute;
  r.detail = static_cast<std::uint8_t>(kind);
  r.gpu = GpuId(gpu);
  r.layer = LayerId(layer);
  r.begin = at(begin);
  r.end = at(end);
  return r;
}

TraceRecord transfer(Lane lane, TransferOp op, std::uint32_t from, std::uint32_t to,
                     std::uint32_t request, std::uint32_t layer, std::int64_t bytes, Duration begin,
                     Duration end) {
  TraceRecord r;
  r.kind = TraceKind::transfer;
  r.lane = lane;
  r.detail = static_cast<std::uint8_t>(op);
  r.source = EndpointId(from);
  r.destination = EndpointId(to);
  r.request = RequestId(request);
  r.layer = LayerId(layer);
  r.bytes = Bytes(bytes);
  r.begin = at(begin);
  r.end = at(end);
  return r;
}

// One request on GPU 0 (endpoint 0) that decodes on GPU 1 (endpoint 1).
void record_request(TraceSink& sink) {
  sink.record(milestone(TraceKind::arrived, 3, 0_ms));
  sink.record(milestone(TraceKind::prefill_started, 3, 1_ms));
  TraceRecord layer = work(WorkKind::prefill_layer, 0, 12, 1_ms, 5_ms);
  layer.request = RequestId(3);
  sink.record(layer);
  sink.record(milestone(TraceKind::prefill_finished, 3, 5_ms));
  sink.record(milestone(TraceKind::token, 3, 6_ms, 1));
  // Two transfers that share the port.
  sink.record(
      transfer(Lane::proactive, TransferOp::write_with_imm, 0, 1, 3, 12, 3'100'000, 5_ms, 8_ms));
  sink.record(
      transfer(Lane::proactive, TransferOp::write_with_imm, 0, 1, 3, 12, 3'100'000, 6_ms, 9_ms));
  sink.record(milestone(TraceKind::joined, 3, 9_ms, 1));
  TraceRecord ask = transfer(Lane::control, TransferOp::send, 1, 0, 3, 12, 4096, 9_ms, 10_ms);
  ask.iteration = 1;
  sink.record(ask);
  TraceRecord rows = transfer(Lane::on_demand, TransferOp::send, 0, 1, 3, 12, 65536, 10_ms, 11_ms);
  rows.iteration = 1;
  sink.record(rows);
  TraceRecord attention = work(WorkKind::decode_attention, 1, 12, 11_ms, 12_ms);
  attention.iteration = 1;
  sink.record(attention);
  TraceRecord iteration = milestone(TraceKind::iteration, 3, 9_ms, 1);
  iteration.request = RequestId();
  iteration.gpu = GpuId(1);
  iteration.end = at(13_ms);
  iteration.value = 1;
  sink.record(iteration);
  sink.record(milestone(TraceKind::token, 3, 13_ms, 2));
}

std::string trace_of_two() {
  std::string text;
  ChromeTrace trace([&](std::string_view piece) { text += piece; });
  const TraceNames names{{"prefill-0 GPU 0", "decode GPU 0"}, {"prefill-0", "decode"}};
  record_request(trace.add_strategy("full", names));
  record_request(trace.add_strategy("smart \"gen\"", names));
  trace.finish();
  return text;
}

// Picoseconds of a number of microseconds as it stands in the text; doubles would round.
std::int64_t to_ps(double us) { return static_cast<std::int64_t>(us * 1e6 + 0.5); }

// Every arrow starts once, ends once, and each of its points lies in a slice of its track; slices
// of one track do not overlap. The same rules as tests/support/check_trace.py.
void check_rules(const Json& events) {
  std::map<std::pair<int, int>, std::vector<std::pair<std::int64_t, std::int64_t>>> slices;
  for (const auto& e : events) {
    if (e["ph"] == "X")
      slices[{e["pid"], e["tid"]}].push_back({to_ps(e["ts"]), to_ps(e["ts"]) + to_ps(e["dur"])});
  }
  for (auto& [track, list] : slices) {
    std::sort(list.begin(), list.end());
    for (std::size_t i = 1; i < list.size(); ++i) CHECK(list[i - 1].second <= list[i].first);
  }
  std::map<std::int64_t, std::string> phases;
  std::map<std::int64_t, std::int64_t> last;
  for (const auto& e : events) {
    const std::string phase = e["ph"];
    if (phase != "s" && phase != "t" && phase != "f") continue;
    const std::int64_t ts = to_ps(e["ts"]);
    phases[e["id"]] += phase;
    CHECK(last[e["id"]] <= ts);
    last[e["id"]] = ts;
    bool inside = false;
    for (const auto& [begin, end] : slices[{e["pid"], e["tid"]}]) inside |= begin <= ts && ts < end;
    CHECK(inside);
  }
  for (const auto& [id, phase] : phases) CHECK(phase == "sttf");
}

}  // namespace

TEST_CASE("ChromeTrace: valid JSON, a process group a strategy, tracks by name") {
  const Json json = Json::parse(trace_of_two());
  std::map<int, std::string> processes;
  std::map<std::string, int> tracks;
  for (const auto& e : json["traceEvents"]) {
    if (e["ph"] != "M") continue;
    if (e["name"] == "process_name") processes[e["pid"]] = e["args"]["name"];
    if (e["name"] == "thread_name" && e["pid"] == 1) ++tracks[e["args"]["name"]];
  }
  CHECK(processes == std::map<int, std::string>{{1, "full"}, {2, "smart \"gen\""}});
  for (const char* name :
       {"request 3", "decode GPU 0 iterations", "prefill-0 GPU 0 compute", "decode GPU 0 compute",
        "prefill-0 NIC tx", "prefill-0 NIC tx (2)", "decode NIC rx", "decode NIC rx (2)",
        "decode NIC tx", "prefill-0 NIC rx"}) {
    CAPTURE(name);
    CHECK(tracks[name] == 1);
  }
  CHECK(tracks.size() == 10);
}

TEST_CASE("ChromeTrace: names that a person understands, life of a request in slices") {
  const Json json = Json::parse(trace_of_two());
  std::map<std::string, double> durations;  // of process 1
  for (const auto& e : json["traceEvents"]) {
    if (e["ph"] == "X" && e["pid"] == 1) durations[e["name"]] = e["dur"];
  }
  CHECK(durations["waiting for prefill"] == 1000);
  CHECK(durations["prefill"] == 4000);
  CHECK(durations["prefill to first token"] == 1000);
  CHECK(durations["stage transition (TTST)"] == 7000);  // 6 ms to 13 ms
  CHECK(durations["prefill, layer 12, request 3"] == 4000);
  CHECK(durations["proactive WRITE 3.100 MB, layer 12, request 3"] == 3000);
  CHECK(durations["control SEND 4.096 kB, layer 12, request 3"] == 1000);
  CHECK(durations["decode iteration 1, batch 1"] == 4000);
}

TEST_CASE("ChromeTrace: arrows from prefill over the wire to decode, and for rows on demand") {
  const Json json = Json::parse(trace_of_two());
  check_rules(json["traceEvents"]);
  int starts = 0;
  for (const auto& e : json["traceEvents"]) starts += e["ph"] == "s" ? 1 : 0;
  CHECK(starts == 4);  // two strategies: one layer and one fetch each
}

TEST_CASE("ChromeTrace: picoseconds stand behind the point") {
  std::string text;
  ChromeTrace trace([&](std::string_view piece) { text += piece; });
  TraceSink& sink = trace.add_strategy("full", {});
  sink.record(work(WorkKind::host_step, 0, 0, 1'000'000'000'001_ps, 1'000'002'000'003_ps));
  trace.finish();
  CHECK(text.find("\"ts\":1000000.000001,\"dur\":2.000002") != std::string::npos);
  CHECK(text.find("GPU 0 compute") != std::string::npos);  // no name given
  CHECK_THROWS_AS(sink.record(work(WorkKind::host_step, 0, 0, 1_s, 2_s)), std::logic_error);
}

TEST_CASE("ChromeTrace: slices of one row never overlap, whatever the order of records") {
  std::string text;
  ChromeTrace trace([&](std::string_view piece) { text += piece; });
  TraceSink& sink = trace.add_strategy("random", {});
  Rng rng(5, "trace");
  for (int i = 0; i < 2000; ++i) {
    const auto begin = Duration(static_cast<std::int64_t>(rng.below(1'000'000'000)));
    const auto length = Duration(static_cast<std::int64_t>(rng.below(3'000'000)));
    sink.record(transfer(static_cast<Lane>(rng.below(4)), TransferOp::write,
                         static_cast<std::uint32_t>(rng.below(3)), 3, 0, 0, 100, begin,
                         begin + length));
  }
  trace.finish();
  check_rules(Json::parse(text)["traceEvents"]);
}

TEST_CASE("ChromeTrace: hands text on in pieces, memory does not grow with the run") {
  std::size_t largest = 0;
  std::size_t total = 0;
  ChromeTrace trace([&](std::string_view piece) {
    largest = std::max(largest, piece.size());
    total += piece.size();
  });
  TraceSink& sink = trace.add_strategy("full", {});
  for (int i = 0; i < 20'000; ++i) {
    const Duration begin = i * 10_us;
    sink.record(transfer(Lane::proactive, TransferOp::write, 0, 1, 0, 0, 100, begin, begin + 9_us));
  }
  trace.finish();
  CHECK(total > 4'000'000);
  CHECK(largest < 70'000);
}

// Writes the sample for tests/support/check_trace.py when asked to.
TEST_CASE("ChromeTrace: sample for the script" *
          doctest::skip(std::getenv("KVLANE_TRACE_SAMPLE") == nullptr)) {
  std::ofstream(std::getenv("KVLANE_TRACE_SAMPLE")) << trace_of_two();
}
