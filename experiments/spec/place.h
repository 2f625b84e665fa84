// place.h: where a setting of an experiment was written, and what is wrong with it.
// A path names a field as `--set` does: "train.steps", "variant[1].ps.servers[0]"; "" is the spec.
// Lines and columns count from 1. Pure: no I/O, no threads.
#pragma once

#include <map>
#include <set>
#include <string>

namespace lockstep {

// Line 0: a command-line override; `file` is then its text, e.g. "--set workers=4", and `column`
// counts the characters of its path=value part (0: the whole of it).
struct SpecPlace {
  std::string file;
  int line = 0;
  int column = 0;
};

struct SpecError {
  SpecPlace place;
  std::string message;
  // "quickstart.textproto:12:3: message" or "--set workers=x, character 9: message";
  // without a place the message alone.
  std::string ToString() const;
};

// "a.b" from "a" and "b"; "b" when `path` is empty.
std::string JoinPath(const std::string& path, const std::string& name);
std::string IndexedPath(const std::string& path, int index);
// Without the indices: "variant.ps.servers", the form rules are written in.
std::string PathPattern(const std::string& path);

// The places of all written fields.
class Places {
 public:
  explicit Places(std::string file) : file_(std::move(file)) {}

  void Set(const std::string& path, const SpecPlace& place) { places_[path] = place; }
  // Forgets `path` and everything below it: an override has replaced it.
  void Erase(const std::string& path);
  // What was `from`, with everything below it, is `to` now. REQUIRES: nothing is at `to`.
  void Move(const std::string& from, const std::string& to);
  // Remembers that a value for `path` was written but could not be read: it is not also missing.
  void MarkUnreadable(const std::string& path) { unreadable_.insert(path); }

  // The place of `path` or of the nearest block around it that was written.
  SpecPlace Find(const std::string& path) const;
  bool Contains(const std::string& path) const { return places_.contains(path); }
  // True for `path`, for anything above it and for anything below it.
  bool Unreadable(const std::string& path) const;

 private:
  std::string file_;
  std::map<std::string, SpecPlace> places_;
  std::set<std::string> unreadable_;
};

}  // namespace lockstep
