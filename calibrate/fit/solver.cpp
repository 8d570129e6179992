#include "calibrate/fit/solver.h"

#include <fmt/format.h>

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <unsupported/Eigen/NonLinearOptimization>
#include <unsupported/Eigen/NumericalDiff>

#include "sim/base/check.h"

namespace kvlane::calibrate {
namespace {

constexpr double kScale = 0.02;  // residuals beyond 2 % weigh linearly

using PredictAll = std::function<void(std::span<const double>, std::span<double>)>;

// Between its bounds on a logarithmic scale, whatever the solver tries.
double inside(const Constant& constant, double x) {
  const double share = 1 / (1 + std::exp(-x));
  return constant.low * std::pow(constant.high / constant.low, share);
}

double outside(const Constant& constant, double value) {
  const double share = std::log(value / constant.low) / std::log(constant.high / constant.low);
  const double inner = std::clamp(share, 0.001, 0.999);
  return std::log(inner / (1 - inner));
}

// Soft L1 as a residual whose square is the loss.
double robust(double r) {
  const double z = r / kScale;
  const double loss = 2 * (std::sqrt(1 + z * z) - 1);
  return std::copysign(std::sqrt(loss), r);
}

struct Problem {
  using Scalar = double;
  using InputType = Eigen::VectorXd;
  using ValueType = Eigen::VectorXd;
  using JacobianType = Eigen::MatrixXd;
  enum { InputsAtCompileTime = Eigen::Dynamic, ValuesAtCompileTime = Eigen::Dynamic };

  const std::vector<Constant>& constants;
  std::span<const double> measured;
  const PredictAll& predict_all;
  mutable std::vector<double> predicted;

  int inputs() const { return static_cast<int>(constants.size()); }
  int values() const { return static_cast<int>(measured.size()); }

  std::vector<double> constants_at(const Eigen::VectorXd& x) const {
    std::vector<double> at;
    for (std::size_t i = 0; i < constants.size(); ++i) {
      at.push_back(inside(constants[i], x[static_cast<Eigen::Index>(i)]));
    }
    return at;
  }

  int operator()(const Eigen::VectorXd& x, Eigen::VectorXd& residuals) const {
    predict_all(constants_at(x), predicted);
    for (std::size_t i = 0; i < measured.size(); ++i) {
      KVLANE_CHECK(predicted[i] > 0 && std::isfinite(predicted[i]), "a prediction of {} s",
                   predicted[i]);
      residuals[static_cast<Eigen::Index>(i)] = robust(std::log(predicted[i] / measured[i]));
    }
    return 0;
  }
};

const char* words_of(Eigen::LevenbergMarquardtSpace::Status status) {
  using namespace Eigen::LevenbergMarquardtSpace;
  switch (status) {
    case RelativeReductionTooSmall:
    case RelativeErrorTooSmall:
    case RelativeErrorAndReductionTooSmall:
    case CosinusTooSmall:
      return "converged";
    case TooManyFunctionEvaluation:
      return "too many evaluations";
    case FtolTooSmall:
    case XtolTooSmall:
    case GtolTooSmall:
      return "converged to rounding";
    case ImproperInputParameters:
      return "improper input";
    default:
      return "stopped";
  }
}

}  // namespace

Solution solve(const std::vector<Constant>& constants, std::span<const double> measured,
               const PredictAll& predict_all) {
  if (measured.size() < 2 * constants.size()) {
    throw std::invalid_argument(
        fmt::format("{} measurements for {} constants", measured.size(), constants.size()));
  }
  Problem problem{constants, measured, predict_all, std::vector<double>(measured.size())};
  Eigen::VectorXd x(static_cast<Eigen::Index>(constants.size()));
  for (std::size_t i = 0; i < constants.size(); ++i) {
    KVLANE_CHECK(constants[i].low > 0 && constants[i].low < constants[i].high, "bounds of {}",
                 constants[i].name);
    x[static_cast<Eigen::Index>(i)] = outside(constants[i], constants[i].start);
  }
  Eigen::NumericalDiff<Problem> with_slopes(problem, 1e-10);
  Eigen::LevenbergMarquardt<Eigen::NumericalDiff<Problem>> solver(with_slopes);
  solver.parameters.maxfev = 2000;
  solver.parameters.ftol = solver.parameters.xtol = 1e-9;
  const auto status = solver.minimize(x);
  Solution solution;
  solution.values = problem.constants_at(x);
  solution.status = words_of(status);
  solution.converged = solution.status.starts_with("converged");
  for (std::size_t i = 0; i < constants.size(); ++i) {
    const double value = solution.values[i];
    if (value < constants[i].low * 1.001 || value > constants[i].high * 0.999) {
      solution.at_bound.push_back(constants[i].name);
    }
  }
  return solution;
}

}  // namespace kvlane::calibrate
