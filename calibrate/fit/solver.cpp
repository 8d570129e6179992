#include "calibrate/fit/solver.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <limits>
#include <unsupported/Eigen/NonLinearOptimization>

#include "sim/base/check.h"
#include "sim/gpu/portable_math.h"

namespace kvlane::calibrate {
namespace {

using Logs = std::function<void(const std::vector<double>&, std::vector<double>&)>;

constexpr double kStep = 1e-6;      // of unknowns that are of order 1
constexpr int kEvaluations = 2000;  // a start; a Jacobian takes one per unknown

// Where the scale flattens towards a bound the search stops a little before it.
constexpr double kNearBound = 0.005;

// sign(r) s sqrt(2 (sqrt(1 + (r/s)^2) - 1)): its square is the soft L1 loss of r.
double soften(double r) {
  const double q = r / kLossScale;
  return r * std::sqrt(2 / (std::sqrt(1 + q * q) + 1));  // the same without cancellation
}

// Between 0 and 1, growing.
double squash(double x) { return 1 / (1 + portable::exp(std::clamp(-x, -50.0, 50.0))); }
double stretch(double share) { return portable::log(share / (1 - share)); }

double to_value(const Unknown& unknown, double x) {
  return unknown.low * portable::pow(unknown.high / unknown.low, squash(x));
}
double share_of(const Unknown& unknown, double value) {
  return portable::log(value / unknown.low) / portable::log(unknown.high / unknown.low);
}

struct Problem {
  using Scalar = double;
  // Names that Eigen asks for.
  enum { InputsAtCompileTime = Eigen::Dynamic, ValuesAtCompileTime = Eigen::Dynamic };  // NOLINT
  using InputType = Eigen::VectorXd;
  using ValueType = Eigen::VectorXd;
  using JacobianType = Eigen::MatrixXd;

  const std::vector<Unknown>& unknowns;
  std::size_t rows;
  const Logs& logs;

  int inputs() const { return static_cast<int>(unknowns.size()); }
  int values() const { return static_cast<int>(rows); }

  std::vector<double> constants(const InputType& x) const {
    std::vector<double> all;
    for (std::size_t i = 0; i < unknowns.size(); ++i) {
      all.push_back(to_value(unknowns[i], x[static_cast<Eigen::Index>(i)]));
    }
    return all;
  }

  int operator()(const InputType& x, ValueType& residuals) const {
    std::vector<double> out(rows);
    logs(constants(x), out);
    for (std::size_t i = 0; i < rows; ++i) {
      residuals[static_cast<Eigen::Index>(i)] = soften(out[i]);
    }
    return 0;
  }

  // Forward differences with a step that does not vanish where x does, as NumericalDiff's would.
  int df(const InputType& x, JacobianType& jacobian) const {
    ValueType here(values()), there(values());
    (*this)(x, here);
    for (Eigen::Index j = 0; j < x.size(); ++j) {
      InputType moved = x;
      moved[j] += kStep;
      (*this)(moved, there);
      jacobian.col(j) = (there - here) / kStep;
    }
    return 0;
  }
};

struct Ending {
  bool converged;
  const char* words;
};

Ending ending(Eigen::LevenbergMarquardtSpace::Status status) {
  using namespace Eigen::LevenbergMarquardtSpace;
  switch (status) {
    case RelativeReductionTooSmall:
      return {true, "the sum of squares no longer falls"};
    case RelativeErrorTooSmall:
      return {true, "the constants no longer move"};
    case RelativeErrorAndReductionTooSmall:
      return {true, "neither the sum of squares falls nor the constants move"};
    case CosinusTooSmall:
      return {true, "the residuals are orthogonal to the Jacobian"};
    case FtolTooSmall:
    case XtolTooSmall:
    case GtolTooSmall:
      return {true, "rounding ends the search"};
    case TooManyFunctionEvaluation:
      return {false, "too many evaluations"};
    case UserAsked:
      return {false, "stopped"};
    case ImproperInputParameters:
      return {false, "improper input"};
    case NotStarted:
    case Running:
      break;
  }
  return {false, "not run"};
}

void for_each_start(const std::vector<Unknown>& unknowns, std::vector<double>& start,
                    const std::function<void()>& visit) {
  if (start.size() == unknowns.size()) return visit();
  for (const double value : unknowns[start.size()].starts) {
    start.push_back(value);
    for_each_start(unknowns, start, visit);
    start.pop_back();
  }
}

}  // namespace

Solution solve(const std::vector<Unknown>& unknowns, std::size_t rows, const Logs& logs) {
  KVLANE_CHECK(rows >= unknowns.size() && !unknowns.empty(), "{} rows for {} unknowns", rows,
               unknowns.size());
  const Problem problem{unknowns, rows, logs};
  Solution best;
  best.cost = std::numeric_limits<double>::infinity();
  std::vector<double> start;
  for_each_start(unknowns, start, [&] {
    Eigen::VectorXd x(static_cast<Eigen::Index>(unknowns.size()));
    for (std::size_t i = 0; i < unknowns.size(); ++i) {
      x[static_cast<Eigen::Index>(i)] =
          stretch(std::clamp(share_of(unknowns[i], start[i]), 0.01, 0.99));
    }
    Eigen::LevenbergMarquardt<const Problem> solver(problem);
    solver.parameters.maxfev = kEvaluations;
    solver.parameters.ftol = solver.parameters.xtol = 1e-7;
    const Ending end = ending(solver.minimize(x));
    const double cost = solver.fvec.squaredNorm() / 2;
    if (!(cost < best.cost)) return;
    best = {problem.constants(x), {}, {}, cost, end.converged, end.words};
  });
  for (std::size_t i = 0; i < best.values.size(); ++i) {
    const double share = share_of(unknowns[i], best.values[i]);
    best.at_low.push_back(share < kNearBound);
    best.at_high.push_back(share > 1 - kNearBound);
  }
  if (best.values.empty()) best.status = "the residuals are not finite";
  return best;
}

}  // namespace kvlane::calibrate
