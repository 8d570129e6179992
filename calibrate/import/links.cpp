// Links as others have transcribed them: perftest curves, KV transfers of Mooncake, copies over
// PCIe.

#include <string>

#include "calibrate/import/csv_table.h"
#include "calibrate/import/formats.h"
#include "calibrate/import/sample_maker.h"

namespace kvlane::calibrate {
namespace {

// One row a curve and message size; bandwidth in Gb/s, latency one way in microseconds.
void read_curves(const std::string& path, std::string_view text, const ImportOptions& options,
                 Imported& out) {
  const CsvTable table(text, path);
  SampleMaker make(path, "perftest curves", "facts", options, out);
  const auto at = [&](const char* name) { return table.column(name); };
  const auto curve = at("curve_id"), metric = at("metric"), operation = at("operation"),
             bytes = at("message_bytes"), value = at("value"), unit = at("unit"), link = at("link");
  for (std::size_t r = 0; r < table.size(); ++r) {
    make.row(table.line(r));
    const std::string& what = table.text(r, metric);
    const std::int64_t size = table.size_in(r, bytes);
    if (what == "bandwidth" && table.text(r, unit) == "Gb/s") {
      make.add(table.text(r, curve), table.text(r, operation) + ' ' + table.text(r, link),
               "nic_message", {size, 1}, "",
               static_cast<double>(size) * 8 / (table.positive(r, value) * 1e9));
    } else if (what == "latency_t_typical" && table.text(r, unit) == "us") {
      make.add(table.text(r, curve), table.text(r, operation), "nic_latency", {size}, "",
               table.positive(r, value) / 1e6);
    } else if (what.starts_with("latency_")) {
      make.skip("percentiles of latency");
    } else {
      table.fail(r, metric, "`" + what + "` in `" + table.text(r, unit) + "`",
                 "expected bandwidth in Gb/s or latency_t_typical in us");
    }
  }
}

// Transfers of one request's KV over eight ports (kv_mb in 1e6 bytes), or blocks over EFA.
void read_mooncake(const std::string& path, std::string_view text, const ImportOptions& options,
                   Imported& out) {
  const CsvTable table(text, path);
  SampleMaker make(path, "Mooncake 3b5a594", "Apache-2.0", options, out);
  if (table.has("kv_mb")) {
    const auto size = table.column("kv_mb");
    const auto time = table.column("transfer_ms");
    for (std::size_t r = 0; r < table.size(); ++r) {
      make.row(table.line(r));
      const std::int64_t megabytes = table.integer(r, size);
      if (megabytes > 1'000'000'000)
        table.fail(r, size, "above 1e15 B", "expected MB of one request");
      make.add("H800-8xCX7", "mooncake", "kv_transfer", {megabytes * 1'000'000, 8}, "",
               table.positive(r, time) / 1e3);
    }
    return;
  }
  const auto instance = table.column("instance"), route = table.column("path"),
             block = table.column("block_bytes"), write = table.column("write_GBps");
  for (std::size_t r = 0; r < table.size(); ++r) {
    make.row(table.line(r));
    if (table.blank(r, write)) {
      make.skip("blocks without a write rate");
      continue;
    }
    const std::int64_t bytes = table.size_in(r, block);
    make.add(table.text(r, instance), "mooncake " + table.text(r, route), "kv_transfer", {bytes, 1},
             "", static_cast<double>(bytes) / (table.positive(r, write) * 1e9));
  }
}

void read_pcie(const std::string& path, std::string_view text, const ImportOptions& options,
               Imported& out) {
  const CsvTable table(text, path);
  SampleMaker make(path, "host-device copies", "facts", options, out);
  const auto at = [&](const char* name) { return table.column(name); };
  const auto device = at("device"), direction = at("direction"), memory = at("memory"),
             bytes = at("transfer_bytes"), rate = at("bandwidth_GBps");
  for (std::size_t r = 0; r < table.size(); ++r) {
    make.row(table.line(r));
    if (table.text(r, direction) != "H2D" && table.text(r, direction) != "D2H") {
      make.skip("copies within a device");
      continue;
    }
    const std::int64_t size = table.size_in(r, bytes);
    make.add(machine_name(table.text(r, device)),
             table.text(r, direction) + ' ' + table.text(r, memory), "copy", {size}, "",
             static_cast<double>(size) / (table.positive(r, rate) * 1e9));
  }
}

}  // namespace

ImportFormat perftest_curves_format() {
  return {"perftest-curves", "message rates and latencies by size (CSV)", true, read_curves};
}
ImportFormat mooncake_format() {
  return {"mooncake", "KV transfers by size (CSV)", true, read_mooncake};
}
ImportFormat pcie_format() {
  return {"pcie", "copies between host and device by size (CSV)", true, read_pcie};
}

}  // namespace kvlane::calibrate
