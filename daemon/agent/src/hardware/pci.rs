//! Where a device is plugged in, from its resolved path: `/sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0/...`.

use std::path::Path;

use super::files;

/// Place of a PCI device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    /// `0000:3b:00.0`; empty if it is no PCI device.
    pub(super) address: String,
    /// Bridges above it, from the root complex downwards.
    pub(super) bridges: Vec<String>,
    pub(super) numa_node: Option<u32>,
}

/// Place of the device that a path of sysfs leads to: the PCI device itself, or one that belongs to it (virtio, a
/// scalable function).
pub(super) fn place(device: &Path) -> Place {
    let Ok(resolved) = device.canonicalize() else { return Place::default() };
    let is_pci = |path: &Path| path.file_name().and_then(|name| name.to_str()).is_some_and(is_address);
    let Some(own) = resolved.ancestors().find(|path| is_pci(path)) else { return Place::default() };
    let name = |path: &Path| path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
    let mut bridges: Vec<String> = own.ancestors().skip(1).filter(|path| is_pci(path)).map(name).collect();
    bridges.reverse();
    Place {
        address: name(own),
        bridges,
        numa_node: files::number(&own.join("numa_node")).and_then(|node| u32::try_from(node).ok()),
    }
}

/// Place of the PCI device of this address.
pub(super) fn place_of(sysfs: &Path, address: &str) -> Place {
    place(&sysfs.join("bus/pci/devices").join(address))
}

/// Addresses of the functions of a class (`0x02`: network, `0x03`: display) that a driver holds, as `of` wants it. Every
/// namespace shows them, whoever uses them.
pub(super) fn held(sysfs: &Path, class: &str, of: impl Fn(&str) -> bool) -> Vec<String> {
    let devices = sysfs.join("bus/pci/devices");
    let is_held = |name: &String| {
        let device = devices.join(name);
        is_address(name)
            && files::text(&device.join("class")).is_some_and(|text| text.starts_with(class))
            && files::link_name(&device.join("driver")).is_some_and(|driver| of(&driver))
    };
    files::names(&devices).into_iter().filter(is_held).take(MAX_FUNCTIONS).collect()
}

/// Functions of one class: a host that gives out virtual ones has some hundred.
const MAX_FUNCTIONS: usize = 1_024;

/// `0000:3b:00.0`; the domain may have more digits.
fn is_address(text: &str) -> bool {
    let is_hex = |part: &str, digits: std::ops::RangeInclusive<usize>| {
        digits.contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let parts: Vec<&str> = text.split([':', '.']).collect();
    let [domain, bus, device, function] = parts.as_slice() else { return false };
    is_hex(domain, 4..=8)
        && is_hex(bus, 2..=2)
        && is_hex(device, 2..=2)
        && is_hex(function, 1..=1)
        && text.ends_with(&format!(":{device}.{function}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_from_the_path() {
        let dir = tempfile::tempdir().unwrap();
        let check = |path: &str, numa: &str, expected: (&str, &[&str], Option<u32>)| {
            let device = dir.path().join("devices").join(path);
            std::fs::create_dir_all(&device).unwrap();
            for folder in device.ancestors().take(2) {
                std::fs::write(folder.join("numa_node"), numa).unwrap();
            }
            let found = place(&device);
            let bridges: Vec<&str> = found.bridges.iter().map(String::as_str).collect();
            assert_eq!((found.address.as_str(), bridges.as_slice(), found.numa_node), expected, "{path}");
        };
        check("pci0000:00/0000:00:03.0", "0\n", ("0000:00:03.0", &[], Some(0)));
        check("pci0000:00/0000:00:03.0/virtio2", "-1\n", ("0000:00:03.0", &[], None));
        check(
            "pci0000:3a/0000:3a:00.0/0000:3b:00.0/0000:3c:10.0/0000:3f:00.1",
            "1\n",
            ("0000:3f:00.1", &["0000:3a:00.0", "0000:3b:00.0", "0000:3c:10.0"], Some(1)),
        );
        check(
            "pci10000:e0/10000:e0:06.0/10000:e1:00.0",
            "0\n",
            ("10000:e1:00.0", &["10000:e0:06.0"], Some(0)),
        );
        check("platform/soc.0", "0\n", ("", &[], None));
        assert_eq!(place(&dir.path().join("none")), Place::default());
    }

    #[test]
    fn functions_that_a_driver_holds() {
        let dir = tempfile::tempdir().unwrap();
        for (address, class, driver) in [
            ("0000:3b:00.0", "0x020700", Some("mlx5_core")),
            ("0000:3b:00.2", "0x020000", Some("vfio-pci")),
            ("0000:5e:00.0", "0x020700", None),
            ("0000:1b:00.0", "0x030200", Some("nvidia")),
        ] {
            let device = dir.path().join("bus/pci/devices").join(address);
            std::fs::create_dir_all(&device).unwrap();
            std::fs::write(device.join("class"), class).unwrap();
            if let Some(driver) = driver {
                std::os::unix::fs::symlink(format!("../../drivers/{driver}"), device.join("driver")).unwrap();
            }
        }
        assert_eq!(held(dir.path(), "0x02", |_| true), ["0000:3b:00.0", "0000:3b:00.2"]);
        assert_eq!(held(dir.path(), "0x03", |driver| driver == "nvidia"), ["0000:1b:00.0"]);
        assert!(held(&dir.path().join("none"), "0x02", |_| true).is_empty());
    }
}
