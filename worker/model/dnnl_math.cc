#include <oneapi/dnnl/dnnl.h>

#include "base/check.h"
#include "worker/model/reference_math.h"

// Of the OpenMP runtime that oneDNN is built on; its header lies in one compiler's own folder.
extern "C" void omp_set_num_threads(int threads);

namespace lockstep {
namespace {

class DnnlMath final : public ReferenceMath<float> {
 public:
  void Multiply(const Product<float>& p) override {
    // OpenMP keeps this setting per calling thread, so it is made by the thread that calls.
    omp_set_num_threads(1);
    const dnnl_status_t status =
        dnnl_sgemm(p.transpose_a ? 'T' : 'N', p.transpose_b ? 'T' : 'N', p.m, p.n, p.k, 1.0F, p.a,
                   p.transpose_a ? p.m : p.k, p.b, p.transpose_b ? p.k : p.n, 0.0F, p.c, p.n);
    CHECK_EQ(status, dnnl_success) << "dnnl_sgemm, m " << p.m << ", n " << p.n << ", k " << p.k;
  }
};

}  // namespace

std::unique_ptr<Math<float>> MakeDnnlMath() { return std::make_unique<DnnlMath>(); }

}  // namespace lockstep
