#include "worker/gpu/open_device.h"

#include <dlfcn.h>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace lockstep {
namespace {

absl::Status ToStatus(const gpu::Answer& answer) {
  if (answer.ok()) return absl::OkStatus();
  const std::string message = absl::StrCat("device GPU: ", answer.message);
  return answer.why == gpu::Refused::kDevice ? absl::InternalError(message)
                                             : absl::FailedPreconditionError(message);
}

absl::StatusOr<std::unique_ptr<gpu::MathDevice>> LoadDevice(const std::string& library_dir) {
  const std::string path = absl::StrCat(library_dir, "/liblockstep_math.so");
  void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* const symbol = handle == nullptr ? nullptr : dlsym(handle, kMathDeviceFactory);
  if (symbol == nullptr) {
    const char* const why = dlerror();
    return absl::FailedPreconditionError(
        absl::StrCat("device GPU is not built here: ", why == nullptr ? "no such symbol" : why,
                     ". Install the CUDA toolkit, 12 or later (its nvcc in PATH or "
                     "/usr/local/cuda/bin), and build again; or write device: CPU"));
  }
  return std::unique_ptr<gpu::MathDevice>(reinterpret_cast<MathDeviceFactory*>(symbol)());
}

// A device that a driver serves, not opened yet, and how many there are.
absl::StatusOr<std::unique_ptr<gpu::MathDevice>> FindDevice(const std::string& library_dir,
                                                            int* gpus) {
  ASSIGN_OR_RETURN(std::unique_ptr<gpu::MathDevice> device, LoadDevice(library_dir));
  const gpu::DriverState state = device->State();
  RETURN_IF_ERROR(ToStatus(gpu::Judge(state, 1)));
  *gpus = state.devices;
  return device;
}

}  // namespace

absl::Status CheckGpus(const GpuPlace& place, int workers, bool share_gpu) {
  int gpus = 0;
  ASSIGN_OR_RETURN(const std::unique_ptr<gpu::MathDevice> device,
                   FindDevice(place.library_dir, &gpus));
  if (workers > gpus && !share_gpu) {
    return absl::FailedPreconditionError(
        absl::StrCat("device GPU: ", workers, " workers on ", gpus, gpus == 1 ? " GPU" : " GPUs",
                     ": each needs one; use fewer workers, device: CPU, or, for correctness only, "
                     "share_gpu: true"));
  }
  std::string version;
  return ToStatus(device->FindLibrary(place.cublas, &version));
}

absl::StatusOr<OpenedDevice> OpenDevice(const GpuPlace& place, int worker, bool tf32) {
  OpenedDevice opened;
  int gpus = 0;
  ASSIGN_OR_RETURN(opened.device, FindDevice(place.library_dir, &gpus));
  opened.index = worker % gpus;
  std::string version;
  RETURN_IF_ERROR(ToStatus(opened.device->FindLibrary(place.cublas, &version)));
  RETURN_IF_ERROR(
      ToStatus(opened.device->Open({.index = opened.index, .tf32 = tf32, .cublas = place.cublas})));
  opened.gpu = opened.device->info().name;
  opened.library = absl::StrCat("cuBLAS ", version);
  return opened;
}

}  // namespace lockstep
