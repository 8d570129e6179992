#include "calibrate/live/role/scenario_work.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "calibrate/live/compute/modeled_compute.h"
#include "calibrate/live/role/role.h"
#include "calibrate/live/role/role_compute.h"

namespace kvlane::live {
namespace {

constexpr int kRounds = 30;  // of work that takes little
constexpr int kFewest = 4;   // and of work that takes long
constexpr std::uint32_t kLayersApart = 7;
constexpr double kLongSeconds = 20;  // of one piece in all rounds

bool of_prefill(WorkKind kind) {
  return kind == WorkKind::prefill_layer || kind == WorkKind::prefill_head ||
         kind == WorkKind::build_metadata || kind == WorkKind::quantise;
}

struct Piece {
  Work work;
  GpuId gpu;
  std::string name;  // of the GPU
  int rounds = kRounds;
  std::vector<double> seconds;
};

// Runs one piece and looks at its record.
class Timer final : public TraceSink {
 public:
  Timer(WallLoop& loop, RoleCompute& compute) : loop_(loop), compute_(compute), run_(loop) {
    run_.start_at(loop.clock());
    compute_.begin_run(run_, *this);
  }
  ~Timer() override { compute_.end_run(); }
  void record(const TraceRecord& r) override { last_ = to_seconds(r.end - r.begin); }
  double seconds(GpuId gpu, const Work& work) {
    over_ = false;
    compute_.post(gpu, Stream::compute, work,
                  {[](void* self, std::uint64_t) {
                     auto& timer = *static_cast<Timer*>(self);
                     timer.over_ = true;
                     timer.loop_.stop();
                   },
                   this, 0});
    while (!over_) loop_.run();
    return last_;
  }

 private:
  WallLoop& loop_;
  RoleCompute& compute_;
  RunLoop run_;
  double last_ = 0;
  bool over_ = false;
};

double median_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

WorkLists work_lists(const Scenario& scenario) {
  WorkLists lists;
  for (const InstanceGroup& group : scenario.instances) {
    lists.emplace(group.gpu.name, std::make_shared<WorkList>(scenario.model));
  }
  return lists;
}

KernelTables as_tables(const WorkLists& lists) { return {lists.begin(), lists.end()}; }

KernelTables time_work(const Scenario& scenario, const LiveOptions& options, ComputeKind kind,
                       const WorkLists& lists) {
  const Places places = places_of(scenario);
  const std::vector<std::unique_ptr<CostModel>> models = make_cost_models(scenario);
  const std::vector<const CostModel*> by_gpu = gpu_models(scenario, models);
  const GpuId prefill = places.gpus[places.prefills.front().index()].front();
  const GpuId decode = places.gpus[places.decode.index()].front();
  WallLoop loop(spin_of(kind));
  RoleCompute compute(loop, scenario, models, {prefill, decode}, kind, options);
  std::vector<Piece> pieces;
  for (const auto& [name, list] : lists) {
    for (const Work& work : list->chosen()) {
      if (work.kind == WorkKind::gather_host) continue;  // the host's, by its bytes
      pieces.push_back({work, of_prefill(work.kind) ? prefill : decode, name, kRounds, {}});
    }
  }
  Timer timer(loop, compute);
  for (Piece& piece : pieces) {
    timer.seconds(piece.gpu, piece.work);  // makes its calls
    const double once = timer.seconds(piece.gpu, piece.work);
    piece.rounds = std::clamp(static_cast<int>(kLongSeconds / kRounds / std::max(once, 1e-6)),
                              kFewest, kRounds);
  }
  const auto layers = static_cast<std::uint32_t>(scenario.model.layers.size());
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      Piece& piece = pieces[i];
      if (round >= piece.rounds) continue;
      Work work = piece.work;
      if (work.layer.is_valid() && work.layer.index() < layers) {
        // Another for each piece, too, and rounds apart: those of the same kernels would find each
        // other's operands in the caches.
        const auto shift =
            static_cast<std::uint32_t>(round) + static_cast<std::uint32_t>(i) * kLayersApart;
        const LayerId other((work.layer.value() + shift) % layers);
        const auto& specs = scenario.model.layers;
        if (specs[other.index()] == specs[work.layer.index()]) work.layer = other;
      }
      piece.seconds.push_back(timer.seconds(piece.gpu, work));
    }
  }
  std::map<std::string, std::shared_ptr<WorkTimes>> times;
  for (const Piece& piece : pieces) {
    auto& table = times[piece.name];
    if (!table) table = std::make_shared<WorkTimes>(scenario.model);
    const double formula = to_seconds(by_gpu[piece.gpu.index()]->duration(piece.work));
    const double measured = median_of(piece.seconds);
    if (formula > 0 && measured > 0) table->add(piece.work, measured / formula);
  }
  return {times.begin(), times.end()};
}

}  // namespace kvlane::live
