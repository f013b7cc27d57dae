//! One message as the kernel or the journal hands it over: a record of /dev/kmsg, or a line of `journalctl -o json`.
//!
//! What users write into /dev/kmsg has another facility than the kernel's own messages and is left out. The text may hold
//! whatever a process calls itself: control characters go.

use serde_json::Value;

use crate::foreign::clean;

/// The kernel's own messages.
const FACILITY_KERNEL: u64 = 0;
/// A message is cut to so many bytes, as the batch allows.
pub(super) const MAX_TEXT: usize = 400;
/// Messages of the journal within one microsecond; the kernel's numbers are not in it.
const JOURNAL_PLACES: u64 = 16;

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) number: u64,
    /// Microseconds since the boot, by the kernel's own clock.
    pub(super) since_boot_us: u64,
    /// When the journal had it, nanoseconds since the Unix epoch. Absent: not from the journal.
    pub(super) wall_ns: Option<u64>,
    pub(super) text: String,
}

/// What a record is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Read {
    Kernel(Record),
    /// Somebody else's, with its number.
    Foreign(Option<u64>),
}

/// A record of /dev/kmsg: `6,1234,5678901,-;text`, then lines that begin with a space. Source: the kernel's
/// Documentation/ABI/testing/dev-kmsg.
pub(super) fn of_kmsg(record: &[u8]) -> Read {
    let record = String::from_utf8_lossy(record);
    let Some((head, rest)) = record.split_once(';') else { return Read::Foreign(None) };
    let mut fields = head.split(',').map(|field| field.trim().parse::<u64>().ok());
    let (Some(Some(priority)), Some(Some(number)), Some(Some(since_boot_us))) =
        (fields.next(), fields.next(), fields.next())
    else {
        return Read::Foreign(None);
    };
    if priority >> 3 != FACILITY_KERNEL {
        return Read::Foreign(Some(number));
    }
    let text = clean(&unescape(rest.lines().next().unwrap_or_default()), MAX_TEXT);
    Read::Kernel(Record { number, since_boot_us, wall_ns: None, text })
}

/// A line of `journalctl -o json`. `last` is the message before, for numbers that grow.
pub(super) fn of_journal(line: &str, last: Option<u64>) -> Read {
    let Ok(value) = serde_json::from_str::<Value>(line) else { return Read::Foreign(None) };
    let number = |name: &str| value[name].as_str()?.parse::<u64>().ok();
    if number("SYSLOG_FACILITY") != Some(FACILITY_KERNEL) {
        return Read::Foreign(None);
    }
    let text = match &value["MESSAGE"] {
        Value::String(text) => text.clone(),
        // Bytes that are no text come as a list of numbers.
        Value::Array(bytes) => {
            let bytes: Vec<u8> = bytes.iter().filter_map(|byte| u8::try_from(byte.as_u64()?).ok()).collect();
            String::from_utf8_lossy(&bytes).into_owned()
        }
        _ => return Read::Foreign(None),
    };
    let since_boot = number("_SOURCE_MONOTONIC_TIMESTAMP").or_else(|| number("__MONOTONIC_TIMESTAMP"));
    let Some(since_boot_us) = since_boot else { return Read::Foreign(None) };
    let wall_ns = number("__REALTIME_TIMESTAMP").and_then(|us| us.checked_mul(1000));
    let first = since_boot_us.saturating_mul(JOURNAL_PLACES);
    let number = match last {
        Some(last) if last / JOURNAL_PLACES == since_boot_us => last.saturating_add(1),
        _ => first,
    };
    Read::Kernel(Record { number, since_boot_us, wall_ns, text: clean(&text, MAX_TEXT) })
}

/// `\x0a` and its like, as the kernel writes what is not printable.
fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let hex = rest.strip_prefix(b"\\x").and_then(|hex| hex.get(..2));
        let byte = hex.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &rest[4..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_record_is_taken_apart() {
        let check = |record: &str, expected: Option<(u64, u64, &str)>| {
            let found = match of_kmsg(record.as_bytes()) {
                Read::Kernel(record) => Some((record.number, record.since_boot_us, record.text)),
                Read::Foreign(_) => None,
            };
            let expected = expected.map(|(number, at, text)| (number, at, text.to_owned()));
            assert_eq!(found, expected, "{record:?}");
        };
        check(
            "6,339,5140900,-;NET: Registered\n SUBSYSTEM=acpi\n DEVICE=+acpi:1\n",
            Some((339, 5_140_900, "NET: Registered")),
        );
        check("3,7,8,c,caller=T1;a; b, c\n", Some((7, 8, "a; b, c")));
        check(
            "4,1,2,-;NVRM: The GPU 0000:b3:00.0\\x0aNVRM: fallen off\\x09the bus\\\n",
            Some((1, 2, "NVRM: The GPU 0000:b3:00.0 NVRM: fallen off the bus\\")),
        );
        // Written by a user into /dev/kmsg: the kernel makes it facility 1.
        check("12,1,2,-;NVRM: Xid (PCI:0000:01:00): 79\n", None);
        for record in ["", ";", "6;x", "6,1;x", "x,1,2,-;y", "6,1,2"] {
            check(record, None);
        }
        assert_eq!(of_kmsg(b"12,41,2,-;x"), Read::Foreign(Some(41)), "numbers of others count too");
    }

    #[test]
    fn the_journal_says_the_same() {
        let line = |facility: &str, message: &str| {
            format!(
                r#"{{"SYSLOG_FACILITY":"{facility}","_SOURCE_MONOTONIC_TIMESTAMP":"77","MESSAGE":{message},"__REALTIME_TIMESTAMP":"9"}}"#
            )
        };
        let record = |number: u64, text: &str| {
            Read::Kernel(Record { number, since_boot_us: 77, wall_ns: Some(9000), text: text.to_owned() })
        };
        let read = of_journal(&line("0", "\"eth0: up\""), None);
        assert_eq!(read, record(77 * 16, "eth0: up"));
        let bytes = of_journal(&line("0", "[101,255,27,120]"), Some(77 * 16));
        assert_eq!(bytes, record(77 * 16 + 1, "e\u{fffd} x"));
        assert_eq!(of_journal(&line("1", "\"x\""), None), Read::Foreign(None));
        assert_eq!(of_journal("no JSON", None), Read::Foreign(None));
    }

    proptest! {
        #[test]
        fn any_bytes_are_data(bytes: Vec<u8>) {
            let _ = of_kmsg(&bytes);
            let text = String::from_utf8_lossy(&bytes);
            let _ = of_journal(&text, None);
        }
    }
}
