#include "calibrate/measure/session.h"

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "sim/gpu/kernel_work.h"

namespace kvlane::calibrate {
namespace {

struct Known {
  KernelWork work;
  double seconds = 0;
};

// The time of more of the same, in proportion to what grows most: no less than it takes.
double scaled(const Known& known, const KernelWork& work) {
  const auto ratio = [](double now, double then) { return then > 0 ? now / then : 0; };
  return known.seconds *
         std::max({ratio(work.flops, known.work.flops), ratio(work.bytes, known.work.bytes)});
}

// By the measured shape that promises least: launches make small ones promise too much, and so does
// one that was disturbed. None: nothing to go by.
std::optional<double> expected(const std::vector<Known>& known, const KernelWork& work) {
  std::optional<double> least;
  for (const Known& one : known) {
    const double seconds = scaled(one, work);
    if (!least || seconds < *least) least = seconds;
  }
  return least;
}

class Session {
 public:
  Session(Device& device, const SessionOptions& options)
      : device_(device), options_(options), machine_(device.machine()) {}

  SessionResult run(const std::vector<Sample>& shapes) {
    const double begin = options_.now();
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      const double share = static_cast<double>(i) / static_cast<double>(shapes.size());
      const double spare = options_.budget * share - (options_.now() - begin);
      timer_ = options_.timer;
      // Behind time, on a busy machine or one with a vast cache: the fewest repetitions, then less.
      if (spare < 0) timer_.patience = 0;
      if (spare < -options_.budget / 20) timer_.fewest = std::min(timer_.fewest, 2);
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
    std::vector<Known>& known = known_[shape.kernel + '/' + shape.variant];
    const std::optional<double> promised = expected(known, work);
    if (promised && *promised > options_.timer.too_long) {
      keep_extrapolated(shape, *promised);
      return true;
    }
    Call call;
    try {
      call = device_.prepare(shape);
    } catch (const std::exception& error) {
      result_.refused.emplace(shape.kernel, error.what());
      return true;
    }
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
    world.waited = [&] { return device_.waited(); };
    world.stopped = options_.stopped;
    Timing timing;
    try {
      timing = time_call(world, timer_);
    } catch (const std::exception& error) {
      result_.fault = shape_text(shape) + ": " + error.what();
      return false;
    }
    if (timing.end == Timing::End::stopped) return false;
    if (timing.end == Timing::End::too_long) {
      keep_extrapolated(shape, promised.value_or(timing.median));
      return true;
    }
    Sample sample = complete(shape);
    sample.seconds = timing.median;
    sample.conditions.seconds_p25 = timing.p25;
    sample.conditions.seconds_p75 = timing.p75;
    sample.conditions.repetitions = timing.repetitions;
    known.push_back({work, timing.median});
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
    how.multiprocessors = machine_.multiprocessors;
    how.memory_bytes = machine_.memory_bytes;
    how.cache_bytes = machine_.cache_bytes;
    return sample;
  }

  Device& device_;
  const SessionOptions& options_;
  const Machine machine_;
  TimerOptions timer_;
  std::map<std::string, std::vector<Known>> known_;  // by kernel and variant
  SessionResult result_;
};

}  // namespace

SessionResult measure_shapes(Device& device, const std::vector<Sample>& shapes,
                             const SessionOptions& options) {
  return Session(device, options).run(shapes);
}

}  // namespace kvlane::calibrate
