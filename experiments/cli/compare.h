// compare.h: `lockstep compare`: from a spec to verdict, table, report and files.
// Every error before the first run leaves nothing behind; after that there always is a readable
// result: state complete, aborted (Ctrl-C) or failed (a member was lost).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "experiments/spec/spec.h"

namespace lockstep {

struct CompareArguments {
  std::optional<std::string> spec;  // name or path; absent: quickstart
  SpecOptions options;
  std::string out;                   // folder; empty: runs/<time>-<name>
  std::string listen = "127.0.0.1";  // HOST[:PORT] of coordinator and members; no port: any free
  bool dry_run = false;              // say what would be done, and do nothing
  bool plain = false;
  bool json = false;           // run.json on standard output instead of the table
  std::string command;         // as the user typed it, for the record
  std::string nccl_library;    // empty: libnccl.so.2, where the loader finds it
  std::string cublas_library;  // empty: libcublas.so.13, or .12, likewise
  std::string program_dir;     // holds `worker` and `ps_server`
};

// Returns the process's exit code. Messages go to standard error, the result to standard output.
int Compare(const CompareArguments& arguments);

}  // namespace lockstep
