// number.h: the one place where a number of a run file becomes text of the page, so that it reads
// the same in the table and in the chart (which takes its texts from the table) and rounds as in
// the verdict (analyse/format.h). Number and unit are joined by a no-break space. Units: bytes in
// SI (1 MB = 10^6), times in microseconds in, milliseconds out, shares 0..1 in, % out. A value that
// is not finite reads kNotMeasured. Pure.
#pragma once

#include <string>
#include <vector>

namespace lockstep {

inline constexpr char kNotMeasured[] = "–";

// 12345.6 -> "12,346".
std::string FormatCount(double value);
// Three significant digits, whole numbers from 100 on: 0.0213, 3.14, 12.3, 432, 1,185; 0 -> "0".
std::string FormatValue(double value);
// 432000 -> "432".
std::string FormatMilliseconds(double microseconds);
// Parts of a whole, which comes last: rounded to the whole's digits so that what is printed adds up
// exactly: {5880, 2114.6, 1215.4} -> {"5.88", "2.11", "1.22", "9.21"}.
std::vector<std::string> FormatStackMilliseconds(const std::vector<double>& parts_us);
// 510012 -> "0.510 MB"; below 1,000 -> "340 B".
std::string FormatBytes(double bytes);
// Two significant digits: 0.0213 -> "2.1 %".
std::string FormatShare(double share);
// 0.0024 -> "+0.24 %"; a true minus sign, "0 %" for none.
std::string FormatSignedShare(double share);
// 83.4 -> "1 min 23 s".
std::string FormatDuration(double seconds);

}  // namespace lockstep
