// outline.h: a spec's text as a tree of names and values that remembers where each stood.
// The grammar is that of the Protobuf text format without extensions, on Protobuf's own tokenizer.
// TextFormat::Parser stops at the first error; this reader goes on after a syntax error at the next
// line that starts with a name, so that one mistake does not hide others.
// Errors: all of them, in `Outline::errors`, lines and columns from 1. Pure: no I/O, no threads.
#pragma once

#include <string>
#include <vector>

namespace lockstep {

struct OutlineField;

struct OutlineValue {
  bool block = false;                // { fields } or < fields >
  std::string text;                  // of a scalar, as it was written
  std::vector<OutlineField> fields;  // of a block
  int line = 0;
  int column = 0;
};

struct OutlineField {
  std::string name = {};
  int line = 0;
  int column = 0;
  bool list = false;        // written with [ ]
  bool unreadable = false;  // its value is among the errors
  std::vector<OutlineValue> values = {};
};

struct OutlineError {
  int line = 0;
  int column = 0;
  std::string message;
};

struct Outline {
  std::vector<OutlineField> fields = {};
  std::vector<OutlineError> errors = {};
};

// The fields of a message: `name: value` again and again.
Outline ReadFields(const std::string& text);
// One value or list, as it stands right of a colon: fields[0], which has no name.
Outline ReadValue(const std::string& text);

}  // namespace lockstep
