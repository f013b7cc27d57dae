//! GPUs, as NVIDIA's management library names them. It needs no CUDA context, so it takes no memory of a GPU; it is loaded
//! when there is one, and let go after each reading, so that a driver can be exchanged.

use std::ffi::OsStr;
use std::path::Path;

use nvml_wrapper::enum_wrappers::device::{Clock, EccCounter, MemoryError, TemperatureSensor};
use nvml_wrapper::{Device, Nvml};
use ringscope_wire::batch::Gpu;

use super::{files, pci};

/// As the driver's package installs it; without `.1` it is in packages for developers only.
pub(super) const LIBRARY: &str = "libnvidia-ml.so.1";
/// No machine has more; a wrong number must not become a long loop.
const MAX_GPUS: u32 = 64;

/// The GPUs that answer; `None` if there is no driver. One that has fallen off its bus does not answer.
pub(super) fn read(library: &OsStr, sysfs: &Path) -> Option<Vec<Gpu>> {
    let nvml = Nvml::builder().lib_path(library).init();
    let nvml = nvml.inspect_err(|error| tracing::debug!(%error, "no GPU driver")).ok()?;
    let count = nvml.device_count().ok()?.min(MAX_GPUS);
    let read = |index| nvml.device_by_index(index).ok().and_then(|device| gpu(index, &device, sysfs));
    Some((0..count).filter_map(read).collect())
}

/// Whether there are fewer device files of GPUs than GPUs that NVIDIA's driver has: this is a container that was given
/// some of them. On the host a GPU that has fallen off its bus keeps its file.
pub(super) fn is_confined(sysfs: &Path, dev: &Path) -> bool {
    let is_gpu = |name: &String| {
        let number = name.strip_prefix("nvidia").unwrap_or_default();
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    };
    let n_files = files::names(dev).iter().filter(|name| is_gpu(name)).count();
    n_files < pci::held(sysfs, DISPLAY, |driver| driver == DRIVER).len()
}

/// PCI class of display controllers.
const DISPLAY: &str = "0x03";
/// Name of NVIDIA's driver.
const DRIVER: &str = "nvidia";

fn gpu(index: u32, device: &Device<'_>, sysfs: &Path) -> Option<Gpu> {
    let pci = address(&device.pci_info().ok()?.bus_id);
    let place = pci::place_of(sysfs, &pci);
    Some(Gpu {
        index,
        name: device.name().unwrap_or_default(),
        uuid: device.uuid().unwrap_or_default(),
        pci,
        pci_path: place.bridges,
        numa_node: place.numa_node,
        memory_bytes: device.memory_info().ok().map(|memory| memory.total),
        clock_mhz: device.clock_info(Clock::SM).ok(),
        throttle_reasons: device.current_throttle_reasons().ok().map(|reasons| reasons.bits()),
        temperature_c: device.temperature(TemperatureSensor::Gpu).ok(),
        utilization_percent: device.utilization_rates().ok().map(|rates| rates.gpu),
        uncorrected_errors: device.total_ecc_errors(MemoryError::Uncorrected, EccCounter::Volatile).ok(),
    })
}

/// The address as sysfs writes it: `0000:3b:00.0` of `00000000:3B:00.0`.
fn address(bus_id: &str) -> String {
    let lower = bus_id.to_ascii_lowercase();
    let domain = |text: &str| u32::from_str_radix(text, 16).ok();
    match lower.split_once(':').and_then(|(text, rest)| Some((domain(text)?, rest))) {
        Some((domain, rest)) => format!("{domain:04x}:{rest}"),
        None => lower,
    }
}

#[cfg(test)]
mod tests;
