// ring_against_ring.h: one variant under two names, as a real machine measured it: the data of the
// A/A control. samples/s of 60 blocks, each of which ran both in random order.
// Machine: 2 virtual cores (Intel Xeon), Linux 6.18; other builds ran beside, hence two levels.
// Program: release build of commit 47f1dc0; coordinator and 2 workers a run.
// Command: lockstep compare SPEC, whose run.json has these numbers as samples_per_s_by_block, with
//   model { mlp { layers: [64, 256, 256, 10] } } data { digits {} } workers: 2 blocks: 60
//   train { global_batch: 64 steps: 100 optimizer { sgd { learning_rate: 0.1 momentum: 0.9 } } }
//   variant { name: "ring" all_reduce { algorithm: RING } }
//   variant { name: "ring-again" all_reduce { algorithm: RING } }
#pragma once

#include <array>

namespace lockstep::synthetic {

inline constexpr std::array<double, 60> kRing = {
    130768, 130736, 126538, 130318, 129757, 132929, 130735, 73729,  68329,  74508,  73773,  82598,
    80708,  129105, 119982, 133388, 141360, 90691,  123319, 119972, 128419, 72432,  70319,  109149,
    73841,  78075,  74886,  65645,  71175,  67447,  120985, 115701, 129555, 111915, 120029, 126420,
    123421, 130284, 113117, 129023, 108422, 124305, 123564, 129756, 128512, 127015, 131847, 120373,
    125792, 129512, 125602, 122796, 113118, 111700, 115514, 124497, 108878, 116419, 122686, 110525};
inline constexpr std::array<double, 60> kRingAgain = {
    128707, 131949, 100753, 127660, 125467, 130034, 130536, 115034, 72864,  76810,  74728,  72174,
    116758, 102768, 127764, 139760, 140744, 138387, 118057, 117282, 133553, 116913, 76522,  71088,
    75673,  78771,  108479, 75575,  71765,  74557,  80544,  131553, 114003, 121450, 116021, 127643,
    103287, 119649, 126656, 131266, 138451, 127122, 119982, 88580,  121813, 129864, 124778, 127340,
    126028, 128488, 128635, 129300, 133535, 122427, 108983, 118853, 119173, 118475, 91591,  111706};

}  // namespace lockstep::synthetic
