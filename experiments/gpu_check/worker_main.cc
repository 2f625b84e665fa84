// gpu_worker_check: what a GPU makes of a worker's model, in one command of about a minute: every
// piece of work and matrix product against the host, the same bits twice, and the time of a forward
// and backward pass and of one bucket on its way to the host meanwhile. One JSON file and a short
// table. Exit: 0 all right, 1 a result was wrong, 2 usage, 4 the device failed, 77 there is no GPU
// to check, with the reason.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "base/numeric/random.h"
#include "worker/gpu/math_device.h"

namespace lockstep::gpu {
namespace {

using std::chrono::duration;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr int kMissing = 77;
constexpr seconds kOneWait{60};
constexpr int kSteps = 50;
constexpr int kWarmUps = 5;

// The first failure of a call; later ones come of it.
class Checked {
 public:
  explicit Checked(MathDevice* device) : device_(*device) {}
  MathDevice* operator->() { return &device_; }
  bool ok() const { return failure_.ok(); }
  const Answer& failure() const { return failure_; }
  void Take(const Answer& answer) {
    if (failure_.ok()) failure_ = answer;
  }
  float* Floats(int64_t count) {
    std::byte* made = nullptr;
    if (ok()) Take(device_.Allocate(count * 4, &made));
    return reinterpret_cast<float*>(made);
  }
  // Until everything that the queue was given is through.
  void Await(Queue queue) {
    void* event = nullptr;
    Take(device_.MakeEvent(&event));
    if (!ok()) return;
    Take(device_.Record(queue, event));
    const auto end = steady_clock::now() + kOneWait;
    bool passed = false;
    while (ok() && !passed) {
      Take(device_.Query(event, &passed));
      if (steady_clock::now() > end) Take({Refused::kDevice, "not through after 60 s"});
    }
    device_.DestroyEvent(event);
  }
  float* Place(const std::vector<float>& values) {
    float* const made = Floats(static_cast<int64_t>(values.size()));
    if (ok()) Take(device_.Copy(Queue::kCompute, made, values.data(), BytesOf(values)));
    Await(Queue::kCompute);
    return made;
  }
  std::vector<float> Fetch(const float* operands, size_t count) {
    std::vector<float> values(count);
    if (ok()) Take(device_.Copy(Queue::kCompute, values.data(), operands, BytesOf(values)));
    Await(Queue::kCompute);
    return values;
  }

 private:
  static int64_t BytesOf(const std::vector<float>& values) {
    return static_cast<int64_t>(values.size() * sizeof(float));
  }
  MathDevice& device_;
  Answer failure_;
};

struct Report {
  int64_t cases = 0;
  std::vector<std::string> wrong;
  std::vector<std::string> rows;  // JSON
};

std::vector<float> Values(int64_t count, uint64_t stream) {
  Random random(7, stream);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = random.Uniform() - 0.5F;
  return values;
}

void Expect(const std::string& what, const std::vector<float>& actual,
            const std::vector<float>& expected, double tolerance, Report* report) {
  ++report->cases;
  double worst = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double distance =
        std::abs(static_cast<double>(actual[i]) - static_cast<double>(expected[i]));
    worst = std::isnan(distance) ? 1e30 : std::max(worst, distance);
  }
  if (worst > tolerance) {
    report->wrong.push_back(what + ": off by " + std::to_string(worst) + ", at most " +
                            std::to_string(tolerance) + " is right");
  }
}

// In double, rounded once.
std::vector<float> HostProduct(const MatrixProduct& p) {
  std::vector<float> c(static_cast<size_t>(p.m * p.n));
  for (int64_t row = 0; row < p.m; ++row) {
    for (int64_t column = 0; column < p.n; ++column) {
      double sum = 0;
      for (int64_t i = 0; i < p.k; ++i) {
        const float a = p.transpose_a ? p.a[i * p.m + row] : p.a[row * p.k + i];
        const float b = p.transpose_b ? p.b[column * p.k + i] : p.b[i * p.n + column];
        sum += static_cast<double>(a) * static_cast<double>(b);
      }
      c[static_cast<size_t>(row * p.n + column)] = static_cast<float>(sum);
    }
  }
  return c;
}

void CheckProducts(Checked* device, bool tf32, Report* report) {
  for (const int64_t size : {1, 7, 130, 515}) {
    for (int kind = 0; kind < 4 && device->ok(); ++kind) {
      MatrixProduct p = {.transpose_a = (kind & 1) != 0,
                         .transpose_b = (kind & 2) != 0,
                         .m = size,
                         .n = size + 3,
                         .k = 2 * size + 1};
      const std::vector<float> a = Values(p.m * p.k, 1);
      const std::vector<float> b = Values(p.k * p.n, 2);
      p.a = a.data();
      p.b = b.data();
      const std::vector<float> expected = HostProduct(p);
      p.a = device->Place(a);
      p.b = device->Place(b);
      p.c = device->Floats(p.m * p.n);
      std::vector<std::vector<float>> results;
      for (int run = 0; run < 2 && device->ok(); ++run) {
        device->Take((*device)->Multiply(p));
        results.push_back(device->Fetch(p.c, expected.size()));
      }
      if (!device->ok()) return;
      const std::string what = std::string(tf32 ? "TF32" : "STRICT") + " product of " +
                               std::to_string(size) + ", kind " + std::to_string(kind);
      Expect(what, results[0], expected, (tf32 ? 1e-3 : 1e-6) * std::sqrt(static_cast<double>(p.k)),
             report);
      if (results[0] != results[1]) report->wrong.push_back(what + ": other bits the second time");
    }
  }
}

// `make(arrays)`: the work over arrays[0..2], of which the first is its result.
template <typename Make>
void CheckWork(Checked* device, int64_t count, double tolerance, const Make& make, Report* report) {
  std::vector<std::vector<float>> host;
  std::vector<float*> at_host;
  std::vector<float*> at_device;
  for (uint64_t i = 0; i < 3; ++i) {
    host.push_back(Values(count, 10 + i));
    for (float& value : host.back()) value = i == 2 ? std::abs(value) : value;  // second moments
    at_host.push_back(host.back().data());
    at_device.push_back(device->Place(host.back()));
  }
  const Work work = make(at_device);
  if (device->ok()) device->Take((*device)->Run(work));
  const std::vector<float> actual = device->Fetch(at_device[0], host[0].size());
  std::visit(
      [](const auto& one) {
        for (int64_t i = 0; i < one.count(); ++i) one(i);
      },
      make(at_host));
  if (device->ok()) Expect(NameOf(work), actual, host[0], tolerance, report);
}

void CheckWorks(Checked* device, Report* report) {
  using Arrays = std::vector<float*>;
  constexpr int64_t kRows = 300;
  constexpr int64_t kColumns = 257;
  constexpr int64_t kCount = kRows * kColumns;
  const auto same = [&](const auto& make) { CheckWork(device, 2 * kCount, 0, make, report); };
  same([](const Arrays& x) -> Work { return AddBias{kRows, kColumns, x[1], x[0]}; });
  same([](const Arrays& x) -> Work { return SumRows{kRows, kColumns, x[1], x[0]}; });
  same([](const Arrays& x) -> Work { return Relu{kCount, x[1], x[0]}; });
  same([](const Arrays& x) -> Work { return ReluGradient{kCount, x[1], x[2], x[0]}; });
  same([](const Arrays& x) -> Work { return Scale{kCount, 0.3F, x[0]}; });
  const auto arrays = [](const Arrays& x) { return OptimizerArrays{kCount, 3, x[1], x[2], x[0]}; };
  same([&](const Arrays& x) -> Work {
    return SgdUpdate{numeric::SgdRuleOf({.momentum = 0.9F}), arrays(x)};
  });
  same([&](const Arrays& x) -> Work {
    return AdamUpdate<true>{
        numeric::AdamRuleAt<true>(
            {.kind = OptimizerKind::kAdamW, .epsilon = 1, .weight_decay = 0.1F}, 3),
        arrays(x)};
  });
}

// A pass through linear layers of one width, as worker/model/layers.cc asks for it, and each
// gradient's way to the host.
class Passes {
 public:
  static constexpr int kLayers = 17;
  static constexpr int64_t kWidth = 1024;
  static constexpr int64_t kRows = 512;
  static constexpr int64_t kWeights = kWidth * kWidth;

  explicit Passes(Checked* device) : device_(*device) {
    weights_ = device->Place(Values(kWeights, 1));
    x_ = device->Place(Values(kRows * kWidth, 2));
    y_ = device->Floats(kRows * kWidth);
    gradients_ = device->Floats(kLayers * kWeights);
    if (device->ok()) device->Take((*device)->AllocateHost(kLayers * kWeights * 4, &staged_));
    for (void*& event : computed_) {
      if (device->ok()) device->Take((*device)->MakeEvent(&event));
    }
  }
  ~Passes() {
    if (staged_ != nullptr) device_->FreeHost(staged_);
    for (void* const event : computed_) {
      if (event != nullptr) device_->DestroyEvent(event);
    }
  }
  Passes(const Passes&) = delete;
  Passes& operator=(const Passes&) = delete;

  // Milliseconds, the median.
  double Time(bool compute, bool send) {
    std::vector<double> times;
    for (int step = 0; step < kWarmUps + kSteps && device_.ok(); ++step) {
      const auto start = steady_clock::now();
      if (compute) Forward();
      for (int layer = kLayers - 1; layer >= 0 && device_.ok(); --layer) {
        if (compute) Backward(layer);
        if (send) Send(layer);
      }
      device_.Await(Queue::kCompute);
      device_.Await(Queue::kCopy);
      if (step >= kWarmUps) {
        times.push_back(duration<double, std::milli>(steady_clock::now() - start).count());
      }
    }
    if (times.empty()) return 0;
    std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2),
                     times.end());
    return times[times.size() / 2];
  }

 private:
  void Multiply(const MatrixProduct& product) {
    if (device_.ok()) device_.Take(device_->Multiply(product));
  }
  void Forward() {
    for (int layer = 0; layer < kLayers; ++layer) {
      Multiply({.a = x_,
                .b = weights_,
                .c = y_,
                .transpose_b = true,
                .m = kRows,
                .n = kWidth,
                .k = kWidth});
      if (device_.ok()) device_.Take(device_->Run(Relu{kRows * kWidth, y_, y_}));
    }
  }
  void Backward(int layer) {
    Multiply({.a = y_,
              .b = x_,
              .c = gradients_ + layer * kWeights,
              .transpose_a = true,
              .m = kWidth,
              .n = kWidth,
              .k = kRows});
    Multiply({.a = x_, .b = weights_, .c = y_, .m = kRows, .n = kWidth, .k = kWidth});
  }
  void Send(int layer) {
    void* const event = computed_[static_cast<size_t>(layer)];
    device_.Take(device_->Record(Queue::kCompute, event));
    device_.Take(device_->WaitFor(Queue::kCopy, event));
    device_.Take(device_->Copy(Queue::kCopy, staged_ + layer * kWeights * 4,
                               gradients_ + layer * kWeights, kWeights * 4));
  }

  Checked& device_;
  float* weights_ = nullptr;
  float* x_ = nullptr;
  float* y_ = nullptr;
  float* gradients_ = nullptr;
  std::byte* staged_ = nullptr;
  void* computed_[kLayers] = {};
};

void TimePasses(Checked* device, bool tf32, Report* report) {
  Passes passes(device);
  const double compute = passes.Time(true, false);
  const double send = passes.Time(false, true);
  const double both = passes.Time(true, true);
  const double shorter = std::min(compute, send);
  const double hidden = shorter > 0 ? 100 * (compute + send - both) / shorter : 0;
  std::ostringstream row;
  row << "{\"math\": \"" << (tf32 ? "TF32" : "STRICT") << "\", \"layers\": " << Passes::kLayers
      << ", \"width\": " << Passes::kWidth << ", \"batch\": " << Passes::kRows
      << ", \"pass_ms\": " << compute << ", \"delivery_ms\": " << send
      << ", \"overlapped_ms\": " << both << ", \"hidden_percent\": " << hidden << "}";
  report->rows.push_back(row.str());
}

// `cublas`: its file; empty: where the loader finds it.
Answer CheckAll(const std::string& cublas, Report* report, std::string* device_text) {
  for (const bool tf32 : {false, true}) {
    const std::unique_ptr<MathDevice> device = MakeCudaMathDevice();
    std::string version;
    Answer answer = device->FindLibrary(cublas, &version);
    if (answer.ok()) answer = device->Open({.index = 0, .tf32 = tf32, .cublas = cublas});
    if (!answer.ok()) return answer;
    *device_text = device->info().name + ", cuBLAS " + version;
    Checked checked(device.get());
    CheckProducts(&checked, tf32, report);
    if (!tf32) CheckWorks(&checked, report);
    if (checked.ok()) TimePasses(&checked, tf32, report);
    if (!checked.ok()) return checked.failure();
  }
  return {};
}

int Run(const std::string& cublas, const std::string& json) {
  const Answer here = Judge(ReadDriverState(), 1);
  if (!here.ok()) {
    std::cout << "gpu_worker_check: skipped: " << here.message << "\n";
    return kMissing;
  }
  Report report;
  std::string device;
  const Answer answer = CheckAll(cublas, &report, &device);
  std::ostringstream text;
  text << "{\"schema\": \"lockstep.gpu_worker_check/1\", \"device\": \"" << device
       << "\", \"cases\": " << report.cases << ", \"wrong\": " << report.wrong.size()
       << ", \"rows\": [";
  for (size_t i = 0; i < report.rows.size(); ++i) {
    text << (i > 0 ? ",\n " : "\n ") << report.rows[i];
  }
  text << "]}\n";
  std::cout << text.str();
  for (const std::string& wrong : report.wrong) std::cout << "WRONG " << wrong << "\n";
  if (!answer.ok()) std::cout << "ended early: " << answer.message << "\n";
  if (!json.empty()) {
    std::ofstream file(json);
    file << text.str();
    if (!file.flush()) {
      std::cerr << "gpu_worker_check: can't write " << json << "\n";
      return 4;
    }
  }
  if (!report.wrong.empty()) return 1;
  return answer.ok() ? 0 : 4;
}

}  // namespace
}  // namespace lockstep::gpu

int main(int argc, char** argv) {
  try {
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    const char* const variable = std::getenv("LOCKSTEP_CUBLAS_LIB");
    const std::string cublas = variable == nullptr ? "" : variable;
    if (arguments.empty()) return lockstep::gpu::Run(cublas, "");
    if (arguments.size() == 2 && arguments[0] == "--json") {
      return lockstep::gpu::Run(cublas, arguments[1]);
    }
    std::cerr << "usage: gpu_worker_check [--json FILE]\n";
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "gpu_worker_check: " << error.what() << "\n";
    return 5;
  }
}
