//! Pieces of the kernel's lines: addresses, interfaces, process names.

/// The first PCI address of a text: `0000:3b:00.0`, with function 0 where it has none (`PCI:0000:3b:00`).
pub(super) fn pci(text: &str) -> Option<String> {
    (0..text.len()).find_map(|at| {
        let starts = at == 0 || !text.as_bytes()[at - 1].is_ascii_hexdigit();
        if starts { pci_at(text.get(at..)?) } else { None }
    })
}

/// The last one.
pub(super) fn last_pci(text: &str) -> Option<String> {
    (0..text.len()).rev().find_map(|at| {
        let starts = at == 0 || !text.as_bytes()[at - 1].is_ascii_hexdigit();
        if starts { pci_at(text.get(at..)?) } else { None }
    })
}

/// An address that the text begins with.
pub(super) fn pci_at(text: &str) -> Option<String> {
    let (domain, rest) = hex(text, 4..=8)?;
    let (bus, rest) = hex(rest.strip_prefix(':')?, 2..=2)?;
    let (device, rest) = hex(rest.strip_prefix(':')?, 2..=2)?;
    let function =
        rest.strip_prefix('.').and_then(|rest| hex(rest, 1..=1)).map_or(0, |(function, _)| function);
    Some(format!("{domain:04x}:{bus:02x}:{device:02x}.{function:x}"))
}

fn hex(text: &str, digits: std::ops::RangeInclusive<usize>) -> Option<(u32, &str)> {
    let n = text.bytes().take_while(u8::is_ascii_hexdigit).count();
    let number = digits.contains(&n).then(|| u32::from_str_radix(&text[..n], 16).ok())??;
    Some((number, &text[n..]))
}

/// A network interface's or device's name.
pub(super) fn interface(text: &str) -> Option<&str> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-@".contains(c);
    (!text.is_empty() && text.len() <= 64 && text.chars().all(allowed)).then_some(text)
}

/// `driver 0000:3b:00.0 eth0: rest` or `driver 0000:3b:00.0: rest`: address, interface, rest.
pub(super) fn device(text: &str) -> Option<(&str, String, Option<&str>, &str)> {
    let (driver, rest) = text.split_once(' ')?;
    interface(driver)?;
    let address = pci_at(rest)?;
    let (place, said) = rest.split_once(": ")?;
    let name = place.split_once(' ').and_then(|(_, name)| interface(name));
    Some((driver, address, name, said))
}

/// `name[4711]` or `name:4711` at the end of a text: a process's name, which may hold anything, and its number.
pub(super) fn process<'t>(text: &'t str, open: char, close: &str) -> Option<(&'t str, u32)> {
    let (name, pid) = text.strip_suffix(close)?.rsplit_once(open)?;
    Some((name, pid.parse().ok()?))
}

/// A number that the text begins with.
pub(super) fn number(text: &str) -> Option<u32> {
    let n = text.bytes().take_while(u8::is_ascii_digit).count();
    text[..n].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_found_and_written_as_sysfs_does() {
        for (text, expected) in [
            ("NVRM: Xid (PCI:0000:3B:00): 79", Some("0000:3b:00.0")),
            ("at 0019:01:00.3: x", Some("0019:01:00.3")),
            ("00000000:65:00.0", Some("0000:65:00.0")),
            ("mlx5_core 36fd:00:02.0: x", Some("36fd:00:02.0")),
            ("12:30:45", None),
            ("0000:zz:00.0", None),
            ("", None),
        ] {
            assert_eq!(pci(text).as_deref(), expected, "{text}");
        }
        assert_eq!(last_pci("p 0000:80:1b.4: from 0000:97:00.0").as_deref(), Some("0000:97:00.0"));
        assert_eq!(pci("Ü 0000:3b:00.0").as_deref(), Some("0000:3b:00.0"));
    }

    #[test]
    fn names_may_hold_anything() {
        assert_eq!(process("a[1] b[42]", '[', "]"), Some(("a[1] b", 42)));
        assert_eq!(process("python", '[', "]"), None);
        assert_eq!(
            device("mlx5_core 0000:ab:00.0 mlx5_5: Port: 1 Link DOWN"),
            Some(("mlx5_core", "0000:ab:00.0".into(), Some("mlx5_5"), "Port: 1 Link DOWN"))
        );
        assert_eq!(device("x: 0000:ab:00.0: y"), None);
        assert_eq!(interface("a b"), None);
    }
}
