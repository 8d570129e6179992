#pragma once
// The one line that says which strategy to run here, and from which bandwidth on another.

#include <cstddef>
#include <functional>
#include <optional>
#include <string>

#include "sim/report/result.h"

namespace kvlane {

// `second_token(strategy index, scale)`: its mean time to the second token with every NIC and cable
// scaled. Fastest is by second token, so that strategies with their transfer on the first token and
// those with it on the second compare.
std::string verdict_of(const Scenario& scenario, const Result& result,
                       const std::function<double(std::size_t, double)>& second_token);

// What to add to the verdict of a result with uncertainty: that the models' errors do not separate
// the two earliest second tokens; "" where they do.
std::string separation_of(const Result& result);

// The factor in (1, limit] from which `b` is at least as good as (1 - tolerance) of `a`; bisection
// in log scale to 1 %. None when it never is.
std::optional<double> crossover_scale(const std::function<double(double)>& a,
                                      const std::function<double(double)>& b, double tolerance,
                                      double limit);

}  // namespace kvlane
