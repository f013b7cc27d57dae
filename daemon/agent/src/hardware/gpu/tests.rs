use std::path::PathBuf;
use std::process::Command;

use super::*;

/// A management library with three GPUs, of which the second has fallen off its bus.
const STUB: &str = r#"
#include <string.h>
#include <stdio.h>
struct pci { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; };
struct rates { unsigned gpu, memory; };
struct memory { unsigned version; unsigned long long total, reserved, free, used; };
int nvmlInit_v2(void) { return INIT; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 3; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
  *device = (void *)(unsigned long)(index + 1);
  return index == 1 ? 15 /* NVML_ERROR_GPU_IS_LOST */ : 0;
}
int nvmlDeviceGetPciInfo_v3(void *device, struct pci *pci) {
  sprintf(pci->bus_id, "00000000:%lXB:00.0", (unsigned long)device);
  return 0;
}
int nvmlDeviceGetName(void *device, char *name, unsigned length) { strncpy(name, "NVIDIA H100", length); return 0; }
int nvmlDeviceGetUUID(void *device, char *uuid, unsigned length) { strncpy(uuid, "GPU-8f3c", length); return 0; }
int nvmlDeviceGetMemoryInfo_v2(void *device, struct memory *memory) {
  memory->total = 85899345920ull;
  return device == (void *)3 ? 3 /* NVML_ERROR_NOT_SUPPORTED */ : 0;
}
int nvmlDeviceGetClockInfo(void *device, int type, unsigned *mhz) { *mhz = type == 1 /* SM */ ? 1200 : 7; return 0; }
int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *reasons) { *reasons = 0x20; return 0; }
int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *degrees) { *degrees = 91; return 0; }
int nvmlDeviceGetUtilizationRates(void *device, struct rates *rates) { rates->gpu = 98; return 0; }
int nvmlDeviceGetTotalEccErrors(void *device, int type, int counter, unsigned long long *errors) {
  *errors = type == 1 /* uncorrected */ && counter == 0 /* volatile */ ? 2 : 7;
  return device == (void *)3 ? 3 : 0;
}
"#;

/// Builds the library; what `nvmlInit` answers is `init`.
fn stub(folder: &Path, init: u32) -> PathBuf {
    let (source, library) = (folder.join("nvml.c"), folder.join(LIBRARY));
    std::fs::write(&source, STUB).unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(format!("-DINIT={init}")).arg(&source);
    assert!(cc.status().expect("a C compiler: apt-get install gcc").success());
    library
}

#[test]
fn gpus_that_answer_are_named_with_their_place() {
    let dir = tempfile::tempdir().unwrap();
    let (bus, place) = (dir.path().join("bus/pci/devices"), "devices/pci0000:1a/0000:1a:00.0/0000:1b:00.0");
    std::fs::create_dir_all(dir.path().join(place)).unwrap();
    std::fs::create_dir_all(&bus).unwrap();
    std::fs::write(dir.path().join(place).join("numa_node"), "1\n").unwrap();
    std::os::unix::fs::symlink(format!("../../../{place}"), bus.join("0000:1b:00.0")).unwrap();

    let gpus = read(stub(dir.path(), 0).as_ref(), dir.path()).unwrap();
    let expected = Gpu {
        index: 0,
        name: "NVIDIA H100".to_owned(),
        uuid: "GPU-8f3c".to_owned(),
        pci: "0000:1b:00.0".to_owned(),
        pci_path: vec!["0000:1a:00.0".to_owned()],
        numa_node: Some(1),
        memory_bytes: Some(80 << 30),
        clock_mhz: Some(1200),
        throttle_reasons: Some(0x20),
        temperature_c: Some(91),
        utilization_percent: Some(98),
        uncorrected_errors: Some(2),
    };
    assert_eq!(gpus[0], expected);
    let (index, pci, memory) = (gpus[1].index, gpus[1].pci.as_str(), gpus[1].memory_bytes);
    assert_eq!((gpus.len(), index, pci, memory), (2, 2, "0000:3b:00.0", None), "the second is lost");
    assert_eq!((gpus[1].clock_mhz, gpus[1].uncorrected_errors), (Some(1200), None));
}

#[test]
fn without_a_driver_nothing_is_known() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(read(dir.path().join(LIBRARY).as_ref(), dir.path()), None, "no library");
    // NVML_ERROR_DRIVER_NOT_LOADED
    assert_eq!(read(stub(dir.path(), 9).as_ref(), dir.path()), None, "a library alone");
}

#[test]
fn addresses_are_as_sysfs_writes_them() {
    let check = |bus_id: &str, expected: &str| assert_eq!(address(bus_id), expected);
    check("00000000:3B:00.0", "0000:3b:00.0");
    check("00010000:E1:00.0", "10000:e1:00.0");
    check("0000:3b:00.0", "0000:3b:00.0");
}

#[test]
fn a_container_that_was_given_some_gpus_is_confined() {
    let dir = tempfile::tempdir().unwrap();
    let (sysfs, dev) = (dir.path().join("sys"), dir.path().join("dev"));
    std::fs::create_dir_all(&dev).unwrap();
    assert!(!is_confined(&sysfs, &dev), "neither GPUs nor files");
    for n in 0..4 {
        let device = sysfs.join(format!("bus/pci/devices/0000:{n}b:00.0"));
        std::fs::create_dir_all(&device).unwrap();
        std::fs::write(device.join("class"), "0x030200\n").unwrap();
        std::os::unix::fs::symlink("../../drivers/nvidia", device.join("driver")).unwrap();
    }
    for file in ["nvidia0", "nvidia1", "nvidia3", "nvidiactl", "nvidia-uvm"] {
        std::fs::write(dev.join(file), "").unwrap();
    }
    assert!(is_confined(&sysfs, &dev));
    std::fs::write(dev.join("nvidia2"), "").unwrap();
    assert!(!is_confined(&sysfs, &dev), "on the host each GPU has its file, whether it answers or not");
}
