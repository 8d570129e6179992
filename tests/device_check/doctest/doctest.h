#pragma once
// The part of doctest's interface that tests of CUDA kernels use, for machines that have CUDA and a
// compiler only: tests/device_check finds this header, everything else the real one. No options, no
// subcases; one thread. doctest_selftest.cpp shows that what fails is seen.

#include <cmath>
#include <cstdio>
#include <exception>
#include <functional>
#include <limits>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

#if defined(__clang__)
// `Decompose{} << a == b` below: the comparison is meant to come last.
#pragma clang diagnostic ignored "-Woverloaded-shift-op-parentheses"
#endif

namespace doctest {
namespace detail {

struct TestCase {
  void (*body)();
  const char* name;
};
inline std::vector<TestCase>& cases() {
  static std::vector<TestCase> all;
  return all;
}
struct Registration {
  Registration(void (*body)(), const char* name) { cases().push_back({body, name}); }
};

struct State {
  int checks = 0, failed = 0;
  std::vector<std::function<std::string()>> infos;  // asked only when something fails
  std::vector<std::string> unwound;  // of scopes that an exception left, the innermost first
};
inline State& state() {
  static State one;
  return one;
}

template <class T>
concept Printable = requires(std::ostream& stream, const T& value) {
  stream << value;
};
template <class T>
concept Range = requires(const T& range) {
  range.begin();
  range.end();
};

template <class T>
std::string text(const T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    return value ? "true" : "false";
  } else if constexpr (std::is_null_pointer_v<T>) {
    return "nullptr";
  } else if constexpr (std::is_enum_v<T>) {
    return std::to_string(static_cast<long long>(value));
  } else if constexpr (Printable<T>) {
    std::ostringstream stream;
    if constexpr (std::is_floating_point_v<T>)
      stream.precision(std::numeric_limits<T>::max_digits10);
    stream << value;
    return stream.str();
  } else if constexpr (Range<T>) {
    constexpr int kMost = 16;
    std::string out = "{";
    int count = 0;
    for (const auto& element : value) {
      if (count == kMost) return out + ", ...}";
      out += (count++ > 0 ? ", " : "") + text(element);
    }
    return out + '}';
  } else {
    return "{?}";
  }
}

struct Outcome {
  bool holds = false;
  std::string values;  // of both sides, where there are two
};

// CHECK(a == b): `Decompose{} << a == b` keeps a, then compares.
template <class T>
struct Left {
  const T& value;
#define KVLANE_DOCTEST_COMPARISON(op)                        \
  template <class R>                                         \
  Outcome operator op(const R& right) const {                \
    if (value op right) return {true, ""};                   \
    return {false, text(value) + " " #op " " + text(right)}; \
  }
  KVLANE_DOCTEST_COMPARISON(==)
  KVLANE_DOCTEST_COMPARISON(!=)
  KVLANE_DOCTEST_COMPARISON(<)
  KVLANE_DOCTEST_COMPARISON(<=)
  KVLANE_DOCTEST_COMPARISON(>)
  KVLANE_DOCTEST_COMPARISON(>=)
#undef KVLANE_DOCTEST_COMPARISON
  operator Outcome() const {  // NOLINT(google-explicit-constructor): CHECK(flag)
    return {static_cast<bool>(value), text(value)};
  }
};
struct Decompose {
  template <class T>
  Left<T> operator<<(const T& value) const {
    return {value};
  }
};

inline void report(const char* file, int line, const std::string& what) {
  State& now = state();
  ++now.failed;
  std::printf("%s:%d: ERROR: %s\n", file, line, what.c_str());
  for (const auto& info : now.infos) std::printf("  with %s\n", info().c_str());
  for (const std::string& info : now.unwound) std::printf("  with %s\n", info.c_str());
  now.unwound.clear();
  std::fflush(stdout);
}

struct EndOfCase {};  // thrown by REQUIRE and FAIL

inline bool judge(const Outcome& outcome, const char* file, int line, const char* expression) {
  ++state().checks;
  if (outcome.holds) return true;
  std::string what = std::string(expression) + " does not hold";
  if (!outcome.values.empty()) what += ", values: " + outcome.values;
  report(file, line, what);
  return false;
}

// How a call that should throw a T ended. `message`: what what() has to be; null: anything.
template <class T, class Body>
void judge_throw(Body&& body, const char* message, const char* file, int line,
                 const char* expression) {
  ++state().checks;
  std::string what = std::string(expression) + " threw ";
  try {
    try {
      body();
      what += "nothing";
    } catch (const T& error) {
      state().unwound.clear();  // of scopes within the call
      if (message == nullptr) return;
      if constexpr (std::is_base_of_v<std::exception, T>) {
        if (std::string(message) == error.what()) return;
        what += "with: " + std::string(error.what()) + "; expected: " + message;
      }
    }
  } catch (const std::exception& error) {
    what += "another exception: " + std::string(error.what());
  } catch (...) {
    what += "something that is no exception";
  }
  state().unwound.clear();
  report(file, line, what);
}

template <class Text>
class Info {
 public:
  explicit Info(Text make) { state().infos.emplace_back(std::move(make)); }
  ~Info() {
    State& now = state();
    if (std::uncaught_exceptions() > uncaught_) now.unwound.push_back(now.infos.back()());
    now.infos.pop_back();
  }
  Info(const Info&) = delete;
  Info& operator=(const Info&) = delete;

 private:
  int uncaught_ = std::uncaught_exceptions();
};

template <class... Parts>
std::string joined(const Parts&... parts) {
  return (text(parts) + ... + std::string());
}

}  // namespace detail

// x == Approx(y).epsilon(e): |x - y| < e (1 + max(|x|, |y|)), as doctest's.
class Approx {
 public:
  explicit Approx(double value) : value_(value) {}
  Approx& epsilon(double epsilon) {
    epsilon_ = epsilon;
    return *this;
  }
  friend bool operator==(double x, const Approx& a) {
    return std::fabs(x - a.value_) <
           a.epsilon_ * (1 + std::fmax(std::fabs(x), std::fabs(a.value_)));
  }
  friend std::ostream& operator<<(std::ostream& stream, const Approx& a) {
    return stream << "Approx(" << detail::text(a.value_) << ')';
  }

 private:
  double value_;
  double epsilon_ = static_cast<double>(std::numeric_limits<float>::epsilon()) * 100;
};

class Context {
 public:
  Context(int, char**) {}
  // 1 when a check failed.
  int run() {
    int failed_cases = 0;
    detail::State& now = detail::state();
    for (const detail::TestCase& test : detail::cases()) {
      const int before = now.failed;
      try {
        test.body();
      } catch (const detail::EndOfCase&) {
        now.unwound.clear();
      } catch (const std::exception& error) {
        detail::report(test.name, 0, "exception: " + std::string(error.what()));
      } catch (...) {
        detail::report(test.name, 0, "something was thrown that is no exception");
      }
      if (now.failed == before) continue;
      ++failed_cases;
      std::printf("failed: %s\n", test.name);
    }
    std::printf("test cases: %zu, %d failed; checks: %d, %d failed\n", detail::cases().size(),
                failed_cases, now.checks, now.failed);
    return now.failed > 0 || detail::cases().empty() ? 1 : 0;
  }
};

}  // namespace doctest

#define KVLANE_DOCTEST_JOIN2(a, b) a##b
#define KVLANE_DOCTEST_JOIN(a, b) KVLANE_DOCTEST_JOIN2(a, b)

#define KVLANE_DOCTEST_CASE(function, name)                                                       \
  static void function();                                                                         \
  static const doctest::detail::Registration KVLANE_DOCTEST_JOIN(function, _registered)(function, \
                                                                                        name);    \
  static void function()
#define TEST_CASE(name) KVLANE_DOCTEST_CASE(KVLANE_DOCTEST_JOIN(kvlane_test_case_, __LINE__), name)

#define KVLANE_DOCTEST_JUDGE(...)                                                         \
  doctest::detail::judge(doctest::detail::Decompose{} << __VA_ARGS__, __FILE__, __LINE__, \
                         #__VA_ARGS__)
#define CHECK(...) static_cast<void>(KVLANE_DOCTEST_JUDGE(__VA_ARGS__))
#define REQUIRE(...) \
  (KVLANE_DOCTEST_JUDGE(__VA_ARGS__) ? void() : throw doctest::detail::EndOfCase{})

#define CHECK_THROWS_AS(expression, type)                                                       \
  doctest::detail::judge_throw<type>([&] { static_cast<void>(expression); }, nullptr, __FILE__, \
                                     __LINE__, #expression)
#define CHECK_THROWS_WITH_AS(expression, message, type)                                         \
  doctest::detail::judge_throw<type>([&] { static_cast<void>(expression); }, message, __FILE__, \
                                     __LINE__, #expression)

// Until the end of the scope.
#define INFO(...)                                  \
  const doctest::detail::Info KVLANE_DOCTEST_JOIN( \
      kvlane_info_, __LINE__)([&] { return doctest::detail::joined(__VA_ARGS__); })
#define CAPTURE(expression) INFO(#expression " := ", expression)
