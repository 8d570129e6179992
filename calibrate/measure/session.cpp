#include "calibrate/measure/session.h"

#include <algorithm>
#include <map>
#include <optional>

#include "sim/gpu/kernel_work.h"

namespace kvlane::calibrate {
namespace {

struct Known {
  KernelWork work;
  double seconds = 0;
};

// The time of more of the same, in proportion to what grows most.
double scaled(const Known& known, const KernelWork& work) {
  const auto ratio = [](double now, double then) { return then > 0 ? now / then : 0; };
  return known.seconds *
         std::max({ratio(work.flops, known.work.flops), ratio(work.bytes, known.work.bytes)});
}

class Session {
 public:
  Session(Device& device, const SessionOptions& options)
      : device_(device), options_(options), machine_(device.machine()) {}

  SessionResult run(const std::vector<Sample>& shapes) {
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      if (options_.progress) options_.progress(i, shapes.size());
      if (options_.stopped() || !one(shapes[i])) {
        result_.stopped = true;
        break;
      }
    }
    return std::move(result_);
  }

 private:
  // False: stopped.
  bool one(const Sample& shape) {
    const KernelWork work = kernel_work(shape).value_or(KernelWork{});
    std::optional<Known>& largest = largest_[shape.kernel + '/' + shape.variant];
    if (largest && scaled(*largest, work) > options_.timer.too_long) {
      keep_extrapolated(shape, scaled(*largest, work));
      return true;
    }
    const Call call = device_.prepare(shape);
    if (!call) {
      ++result_.too_large;
      return true;
    }
    TimerWorld world;
    world.call = [&] { return device_.run(call); };
    world.flush = [&] {
      if (options_.cold) device_.flush();
    };
    world.now = options_.now;
    world.stopped = options_.stopped;
    const Timing timing = time_call(world, options_.timer);
    if (timing.end == Timing::End::stopped) return false;
    if (timing.end == Timing::End::too_long) {
      keep_extrapolated(shape, largest ? scaled(*largest, work) : timing.median);
      return true;
    }
    Sample sample = complete(shape);
    sample.seconds = timing.median;
    sample.conditions.seconds_p25 = timing.p25;
    sample.conditions.seconds_p75 = timing.p75;
    sample.conditions.repetitions = timing.repetitions;
    if (!largest || timing.median > largest->seconds) largest = Known{work, timing.median};
    result_.samples.push_back(std::move(sample));
    return true;
  }

  void keep_extrapolated(const Sample& shape, double seconds) {
    Sample sample = complete(shape);
    sample.seconds = seconds;
    sample.set_aside = kExtrapolated;
    result_.samples.push_back(std::move(sample));
  }

  Sample complete(const Sample& shape) const {
    Sample sample = shape;
    sample.machine = machine_.name;
    sample.source = std::string(kOwnSource) + ' ' + options_.commit;
    sample.licence = "own measurement";
    const std::string library = device_.library(shape.kernel);
    sample.variant = shape.variant.empty() ? library : shape.variant + ": " + library;
    Conditions& how = sample.conditions;
    how.commit = options_.commit;
    how.driver = machine_.driver;
    how.clock_state = machine_.clock_state;
    how.problem = options_.problem;
    how.load_average_1min = options_.load_average;
    how.threads = machine_.threads;
    how.memory_bytes = machine_.memory_bytes;
    how.cache_bytes = machine_.cache_bytes;
    return sample;
  }

  Device& device_;
  const SessionOptions& options_;
  const Machine machine_;
  std::map<std::string, std::optional<Known>> largest_;  // by kernel and variant
  SessionResult result_;
};

}  // namespace

SessionResult measure_shapes(Device& device, const std::vector<Sample>& shapes,
                             const SessionOptions& options) {
  return Session(device, options).run(shapes);
}

}  // namespace kvlane::calibrate
