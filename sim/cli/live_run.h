#pragma once
// `kvlane run --live` and its roles.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "calibrate/live/role/child.h"
#include "calibrate/live/role/decode_role.h"
#include "calibrate/live/role/solo_role.h"
#include "sim/run/run.h"

namespace kvlane::cli {

// A decode role of this process over prefill roles, its own children or others', for run_scenario;
// or both in one process, --transport modeled.
class LiveRun {
 public:
  struct Start {
    std::vector<std::string> peers;  // empty: prefill roles are started here
    std::vector<std::string> words;  // of a prefill role beside --role and --listen
    std::vector<int> prefill_processors;
    std::string enter;  // network namespace of the prefill roles
    std::string listen = "127.0.0.1:0";
    std::string secret;  // of the prefill roles, by their environment
  };
  // Words of a child of this program: `command`, then `more`, then where it runs.
  static std::vector<std::string> child_words(const std::vector<std::string>& command,
                                              const std::vector<std::string>& more,
                                              const Start& start);
  // Connects. `say`: lines for stderr. Arguments outlive it.
  LiveRun(const Scenario& scenario, const live::LiveOptions& options, const Start& start,
          const live::Say& say);
  ~LiveRun();

  // Leaves the strategies that can run live. Before anything is started; InputError where there is
  // none.
  static void choose(const Scenario& scenario, RunOptions& options,
                     std::vector<std::string>& warnings);
  // Who runs them, into the options of run_scenario.
  void take_over(RunOptions& options);
  // Says goodbye and waits for the children. RunError when one of them failed.
  void end();
  LiveFacts facts() const;

 private:
  const Scenario& scenario_;
  std::vector<std::unique_ptr<live::ChildRole>> children_;
  std::unique_ptr<live::DecodeRole> decode_;
  std::unique_ptr<live::SoloRole> solo_;  // in its place, --transport modeled
};

// This program's own path, for children.
std::string own_program();

}  // namespace kvlane::cli
