#include "sim/report/chrome_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

#include "sim/base/check.h"
#include "sim/port/compute.h"
#include "sim/report/json_writer.h"
#include "sim/report/trace_words.h"

namespace kvlane {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 16U;

// Viewers keep nanoseconds: an arrow ends this far inside its slice, so that rounding cannot move
// it out.
constexpr Duration kInside{2000};

// "12.345678" microseconds: exact, by integers.
void append_us(fmt::memory_buffer& out, Duration d) {
  const std::int64_t ps = d.count();
  KVLANE_CHECK(ps >= 0, "a trace time before the run: {} ps", ps);
  fmt::format_to(std::back_inserter(out), "{}", ps / 1'000'000);
  if (const std::int64_t fraction = ps % 1'000'000; fraction != 0) {
    fmt::format_to(std::back_inserter(out), ".{:06}", fraction);
  }
}

struct TrackKey {
  TrackKind kind;
  std::uint32_t id;
  auto operator<=>(const TrackKey&) const = default;
};

// Where a slice lies: what an arrow needs to know of it.
struct Place {
  int tid = 0;
  TimePoint begin, end;
  TimePoint entry() const { return begin + std::min((end - begin) / 2, kInside); }
  TimePoint exit() const { return end - std::min((end - begin) / 2, kInside); }
};

}  // namespace

// Joins events with commas and hands them on in pieces.
struct ChromeTrace::Output {
  Writer writer;
  fmt::memory_buffer buffer;
  bool first = true;
  bool finished = false;
  std::uint64_t next_flow = 1;

  fmt::memory_buffer& event() {
    KVLANE_CHECK(!finished, "a trace record after finish()");
    if (buffer.size() >= kBufferBytes) flush();
    const std::string_view separator = first ? "\n" : ",\n";
    buffer.append(separator.data(), separator.data() + separator.size());
    first = false;
    return buffer;
  }
  void flush() {
    writer(std::string_view(buffer.data(), buffer.size()));
    buffer.clear();
  }
};

class ChromeTrace::StrategySink final : public TraceSink {
 public:
  StrategySink(Output& output, int pid, const std::string& name, TraceNames names)
      : output_(output), pid_(pid), names_(std::move(names)) {
    metadata("process_name", 0, "name", json_quoted(name));
    metadata("process_sort_index", 0, "sort_index", fmt::format("{}", pid));
  }

  void record(const TraceRecord& record) override;

 private:
  struct Row {
    int tid;
    TimePoint busy_until{};
  };
  struct RequestState {
    TimePoint since{};
    bool joined = false;
  };
  // The way of one layer's KV: drawn when the first decode iteration that uses it is known.
  struct LayerPath {
    Place produced, left, arrived;
    bool has_produced = false, has_wire = false;
  };
  struct Fetch {  // rows that came on demand for (iteration, layer)
    Place asked, left, arrived;
  };
  using LayerKey = std::pair<std::uint32_t, std::uint32_t>;               // request, layer
  using AskKey = std::tuple<std::uint32_t, std::uint32_t, std::int32_t>;  // and iteration

  void metadata(std::string_view what, int tid, std::string_view field, std::string_view value);
  int track(TrackKind kind, std::uint32_t id, TimePoint begin, TimePoint end);
  Place slice(TrackKey on, const TraceRecord& record, std::string_view name,
              std::string_view category, std::string_view colour);
  void instant(int tid, TimePoint at, std::string_view name);
  void arrow(const Place& made, const Place& left, const Place& arrived, const Place& used);
  void arrow_point(char phase, std::uint64_t id, int tid, TimePoint at);
  void milestone(const TraceRecord& record);
  void compute(const TraceRecord& record);
  void transfer(const TraceRecord& record);
  void iteration(const TraceRecord& record);
  void draw_fetches(const TraceRecord& attention, const Place& used);
  std::string track_name(TrackKind kind, std::uint32_t id, std::size_t row) const;

  Output& output_;
  int pid_;
  TraceNames names_;
  int next_tid_ = 1;
  std::map<TrackKey, std::vector<Row>> rows_;
  std::map<std::uint32_t, RequestState> requests_;
  std::map<LayerKey, LayerPath> paths_;
  std::map<AskKey, Place> asked_;
  std::map<std::pair<std::int32_t, std::uint32_t>, std::vector<Fetch>>
      fetched_;  // iteration, layer
};

void ChromeTrace::StrategySink::metadata(std::string_view what, int tid, std::string_view field,
                                         std::string_view value) {
  fmt::format_to(std::back_inserter(output_.event()),
                 R"({{"ph":"M","pid":{},"tid":{},"name":"{}","args":{{"{}":{}}}}})", pid_, tid,
                 what, field, value);
}

std::string ChromeTrace::StrategySink::track_name(TrackKind kind, std::uint32_t id,
                                                  std::size_t row) const {
  const bool nic = kind == TrackKind::nic_tx || kind == TrackKind::nic_rx;
  const std::vector<std::string>& table = nic ? names_.endpoints : names_.gpus;
  std::string name = track_label(kind, id, id < table.size() ? table[id] : "");
  // The first row carries the name; rows of what overlaps with it are numbered.
  if (row > 0) name += fmt::format(" ({})", row + 1);
  return name;
}

// The row of the track that is free from `begin` on and was busy last; a new one if none is.
int ChromeTrace::StrategySink::track(TrackKind kind, std::uint32_t id, TimePoint begin,
                                     TimePoint end) {
  std::vector<Row>& rows = rows_[{kind, id}];
  Row* best = nullptr;
  for (Row& row : rows) {
    if (row.busy_until <= begin && (best == nullptr || row.busy_until > best->busy_until))
      best = &row;
  }
  if (best == nullptr) {
    const std::size_t row = rows.size();
    rows.push_back({next_tid_++});
    best = &rows.back();
    metadata("thread_name", best->tid, "name", json_quoted(track_name(kind, id, row)));
    metadata("thread_sort_index", best->tid, "sort_index",
             fmt::format("{}", sort_index(kind, id, row)));
  }
  best->busy_until = end;
  return best->tid;
}

Place ChromeTrace::StrategySink::slice(TrackKey on, const TraceRecord& record,
                                       std::string_view name, std::string_view category,
                                       std::string_view colour) {
  const int tid = track(on.kind, on.id, record.begin, record.end);
  fmt::memory_buffer& out = output_.event();
  fmt::format_to(std::back_inserter(out), R"({{"ph":"X","pid":{},"tid":{},"ts":)", pid_, tid);
  append_us(out, record.begin.time_since_epoch());
  fmt::format_to(std::back_inserter(out), R"(,"dur":)");
  append_us(out, record.end - record.begin);
  fmt::format_to(std::back_inserter(out), R"(,"name":{},"cat":"{}")", json_quoted(name), category);
  if (!colour.empty()) fmt::format_to(std::back_inserter(out), R"(,"cname":"{}")", colour);
  fmt::format_to(std::back_inserter(out), R"(,"args":{{)");
  const char* comma = "";
  const auto argument = [&](std::string_view key, std::int64_t value) {
    fmt::format_to(std::back_inserter(out), R"({}"{}":{})", comma, key, value);
    comma = ",";
  };
  if (record.request.is_valid()) argument("request", record.request.value());
  if (record.layer.is_valid()) argument("layer", record.layer.value());
  if (record.iteration >= 0) argument("iteration", record.iteration);
  if (record.bytes.count() != 0) argument("bytes", record.bytes.count());
  if (record.value != 0) argument("value", record.value);
  fmt::format_to(std::back_inserter(out), "}}}}");
  return {tid, record.begin, record.end};
}

void ChromeTrace::StrategySink::instant(int tid, TimePoint at, std::string_view name) {
  fmt::memory_buffer& out = output_.event();
  fmt::format_to(std::back_inserter(out), R"({{"ph":"i","s":"t","pid":{},"tid":{},"ts":)", pid_,
                 tid);
  append_us(out, at.time_since_epoch());
  fmt::format_to(std::back_inserter(out), R"(,"name":{},"cat":"request"}})", json_quoted(name));
}

// An arrow from what made some KV, over the two ends of the wire, to what used it; none where that
// would go back in time (KV that was on its way before, such as a cached prefix).
void ChromeTrace::StrategySink::arrow(const Place& made, const Place& left, const Place& arrived,
                                      const Place& used) {
  const std::array<TimePoint, 4> at{made.exit(), left.entry(), arrived.exit(),
                                    std::max(used.entry(), arrived.exit())};
  if (!std::is_sorted(at.begin(), at.end()) || at[3] > used.exit()) return;
  const std::uint64_t id = output_.next_flow++;
  arrow_point('s', id, made.tid, at[0]);
  arrow_point('t', id, left.tid, at[1]);
  arrow_point('t', id, arrived.tid, at[2]);
  arrow_point('f', id, used.tid, at[3]);
}

// s starts an arrow, t takes it through a slice, f ends it. One name and category: viewers match
// both.
void ChromeTrace::StrategySink::arrow_point(char phase, std::uint64_t id, int tid, TimePoint at) {
  fmt::memory_buffer& out = output_.event();
  fmt::format_to(std::back_inserter(out),
                 R"({{"ph":"{}",{}"id":{},"pid":{},"tid":{},"name":"kv","cat":"kv","ts":)", phase,
                 phase == 'f' ? R"("bp":"e",)" : "", id, pid_, tid);
  append_us(out, at.time_since_epoch());
  fmt::format_to(std::back_inserter(out), "}}");
}

void ChromeTrace::StrategySink::record(const TraceRecord& record) {
  KVLANE_CHECK(record.begin <= record.end, "a trace record that ends before it begins");
  switch (record.kind) {
    case TraceKind::compute:
      return compute(record);
    case TraceKind::copy: {
      const bool load = record.detail == static_cast<std::uint8_t>(CopyDirection::host_to_device);
      slice({load ? TrackKind::pcie_h2d : TrackKind::pcie_d2h, record.gpu.value()}, record,
            copy_name(record), "pcie", "");
      return;
    }
    case TraceKind::transfer:
      return transfer(record);
    case TraceKind::iteration:
      return iteration(record);
    case TraceKind::local_blocks: {
      fmt::memory_buffer& out = output_.event();
      fmt::format_to(std::back_inserter(out), R"({{"ph":"C","pid":{},"tid":0,"ts":)", pid_);
      append_us(out, record.end.time_since_epoch());
      fmt::format_to(std::back_inserter(out),
                     R"(,"name":"local blocks, request {}","args":{{"blocks":{}}}}})",
                     record.request.value(), record.value);
      return;
    }
    case TraceKind::selection:
    case TraceKind::layer_handed_over:
      return;  // metrics, not occupation of anything
    case TraceKind::arrived:
    case TraceKind::prefill_started:
    case TraceKind::prefill_finished:
    case TraceKind::token:
    case TraceKind::mandatory_arrived:
    case TraceKind::switched_to_full:
    case TraceKind::joined:
    case TraceKind::released:
      return milestone(record);
  }
}

// A request's life as slices between its milestones.
void ChromeTrace::StrategySink::milestone(const TraceRecord& record) {
  const std::uint32_t id = record.request.value();
  const bool is_new = requests_.find(id) == requests_.end();
  RequestState& state = requests_[id];
  if (is_new) state.since = record.begin;
  const auto until_now = [&](const std::string& name) {
    if (record.begin > state.since) {
      TraceRecord span;
      span.request = record.request;
      span.iteration = record.iteration;
      span.begin = state.since;
      span.end = record.begin;
      slice({TrackKind::request, id}, span, name, "request", "");
      state.since = record.begin;
    }
  };
  const auto mark = [&](std::string_view name) {
    instant(track(TrackKind::request, id, state.since, state.since), record.begin, name);
  };
  switch (record.kind) {
    case TraceKind::prefill_started:
      return until_now("waiting for prefill");
    case TraceKind::prefill_finished:
      return until_now("prefill");
    case TraceKind::token:
      if (record.iteration <= 1) return until_now("prefill to first token");
      if (record.iteration == 2) return until_now("stage transition (TTST)");
      return until_now(fmt::format("token {}", record.iteration));
    case TraceKind::mandatory_arrived:
      return mark("decode may start");
    case TraceKind::switched_to_full:
      return mark("auto-switch: sent as a whole");
    case TraceKind::joined:
      state.joined = true;
      return mark("joins the batch");
    case TraceKind::released: {
      const auto first = paths_.lower_bound({id, 0});
      const auto last = paths_.upper_bound({id, 0xffffffffU});
      paths_.erase(first, last);
      requests_.erase(id);
      return;
    }
    default:
      return;
  }
}

void ChromeTrace::StrategySink::compute(const TraceRecord& record) {
  const auto kind = static_cast<WorkKind>(record.detail);
  const Place place = slice({compute_track(record), record.gpu.value()}, record,
                            compute_name(record), "compute", "");
  if (kind == WorkKind::prefill_layer && record.request.is_valid() && record.layer.is_valid()) {
    LayerPath& path = paths_[{record.request.value(), record.layer.value()}];
    path.produced = place;
    path.has_produced = true;
  } else if (kind == WorkKind::decode_attention) {
    draw_fetches(record, place);
  }
}

void ChromeTrace::StrategySink::transfer(const TraceRecord& record) {
  const std::string name = transfer_name(record);
  const Place left = slice({TrackKind::nic_tx, record.source.value()}, record, name,
                           lane_category(record), lane_colour(record));
  const Place arrived = slice({TrackKind::nic_rx, record.destination.value()}, record, name,
                              lane_category(record), lane_colour(record));
  if (!record.request.is_valid() || !record.layer.is_valid()) return;
  const std::uint32_t request = record.request.value();
  const std::uint32_t layer = record.layer.value();
  if (record.lane == Lane::proactive) {
    // The last transfer of the layer that came in time is the one that the arrow goes along.
    const auto state = requests_.find(request);
    if (state != requests_.end() && state->second.joined) return;
    LayerPath& path = paths_[{request, layer}];
    path.left = left;
    path.arrived = arrived;
    path.has_wire = true;
  } else if (record.lane == Lane::control && record.iteration >= 0) {
    asked_[{request, layer, record.iteration}] = arrived;
  } else if (record.lane == Lane::on_demand) {
    const auto asked = asked_.find({request, layer, record.iteration});
    if (asked == asked_.end()) return;
    fetched_[{record.iteration, layer}].push_back({asked->second, left, arrived});
    asked_.erase(asked);
  }
}

void ChromeTrace::StrategySink::draw_fetches(const TraceRecord& attention, const Place& used) {
  const auto it = fetched_.find({attention.iteration, attention.layer.value()});
  if (it == fetched_.end()) return;
  for (const Fetch& fetch : it->second) arrow(fetch.asked, fetch.left, fetch.arrived, used);
  fetched_.erase(it);
}

void ChromeTrace::StrategySink::iteration(const TraceRecord& record) {
  const std::uint32_t decoder = record.gpu.is_valid() ? record.gpu.value() : 0;
  const Place place =
      slice({TrackKind::iteration, decoder}, record,
            fmt::format("decode iteration {}, batch {}", record.iteration, record.value),
            "iteration", "");
  // Arrows of the requests whose first iteration this is: their KV is used from here on.
  for (auto it = paths_.begin(); it != paths_.end();) {
    const LayerPath& path = it->second;
    const auto state = requests_.find(it->first.first);
    const bool uses = state != requests_.end() && state->second.joined;
    if (!uses) {
      ++it;
      continue;
    }
    if (path.has_produced && path.has_wire) arrow(path.produced, path.left, path.arrived, place);
    it = paths_.erase(it);
  }
  // What was asked for in older iterations has been used or will not be.
  std::erase_if(asked_, [&](const auto& e) { return std::get<2>(e.first) < record.iteration; });
  std::erase_if(fetched_, [&](const auto& e) { return e.first.first < record.iteration; });
}

ChromeTrace::ChromeTrace(Writer writer) : output_(std::make_unique<Output>()) {
  output_->writer = std::move(writer);
  const std::string_view head = R"({"displayTimeUnit":"ms","traceEvents":[)";
  output_->buffer.append(head.data(), head.data() + head.size());
}

ChromeTrace::~ChromeTrace() = default;

TraceSink& ChromeTrace::add_strategy(const std::string& name, TraceNames names) {
  const int pid = static_cast<int>(sinks_.size()) + 1;
  sinks_.push_back(std::make_unique<StrategySink>(*output_, pid, name, std::move(names)));
  return *sinks_.back();
}

void ChromeTrace::finish() {
  const std::string_view tail = "\n]}\n";
  output_->buffer.append(tail.data(), tail.data() + tail.size());
  output_->flush();
  output_->finished = true;
}

}  // namespace kvlane
