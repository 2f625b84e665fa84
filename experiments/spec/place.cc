#include "experiments/spec/place.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace lockstep {
namespace {

// True when `path` is `root` or lies below it: "a.b" and "a[0]" are below "a", "ab" is not.
bool Within(const std::string& path, const std::string& root) {
  if (root.empty()) return true;
  if (path.compare(0, root.size(), root) != 0) return false;
  return path.size() == root.size() || path[root.size()] == '.' || path[root.size()] == '[';
}

}  // namespace

std::string SpecError::ToString() const {
  if (place.line > 0) {
    return absl::StrCat(place.file, ":", place.line, ":", place.column, ": ", message);
  }
  if (place.column > 0) {
    return absl::StrCat(place.file, ", character ", place.column, ": ", message);
  }
  if (place.file.empty()) return message;
  return absl::StrCat(place.file, ": ", message);
}

std::string JoinPath(const std::string& path, const std::string& name) {
  return path.empty() ? name : absl::StrCat(path, ".", name);
}

std::string IndexedPath(const std::string& path, int index) {
  return absl::StrCat(path, "[", index, "]");
}

std::string PathPattern(const std::string& path) {
  std::string pattern;
  bool in_index = false;
  for (const char c : path) {
    if (c == '[') in_index = true;
    if (!in_index) pattern.push_back(c);
    if (c == ']') in_index = false;
  }
  return pattern;
}

void Places::Erase(const std::string& path) {
  for (auto it = places_.begin(); it != places_.end();) {
    it = Within(it->first, path) ? places_.erase(it) : std::next(it);
  }
  for (auto it = unreadable_.begin(); it != unreadable_.end();) {
    it = Within(*it, path) ? unreadable_.erase(it) : std::next(it);
  }
}

void Places::Move(const std::string& from, const std::string& to) {
  if (from == to) return;
  const auto moved = [&](const std::string& path) {
    return Within(path, from) ? to + path.substr(from.size()) : path;
  };
  std::map<std::string, SpecPlace> places;
  for (auto& [path, place] : places_) places.emplace(moved(path), std::move(place));
  places_ = std::move(places);
  std::set<std::string> unreadable;
  for (const std::string& path : unreadable_) unreadable.insert(moved(path));
  unreadable_ = std::move(unreadable);
}

SpecPlace Places::Find(const std::string& path) const {
  std::string around = path;
  while (!around.empty()) {
    const auto it = places_.find(around);
    if (it != places_.end()) return it->second;
    const size_t cut = around.find_last_of(".[");
    around.resize(cut == std::string::npos ? 0 : cut);
  }
  return {.file = file_, .line = 1, .column = 1};
}

bool Places::Unreadable(const std::string& path) const {
  for (const std::string& bad : unreadable_) {
    if (Within(path, bad) || Within(bad, path)) return true;
  }
  return false;
}

}  // namespace lockstep
