//! Files of sysfs: a line of text each, read with a bound. A file that is missing or that the driver refuses to read (the
//! `speed` of an interface that is down) says nothing.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// The kernel gives at most a page.
const MAX_BYTES: u64 = 4096;
/// Entries of a folder that are looked at.
const MAX_ENTRIES: usize = 4096;

/// The text without the newline; `None` if there is none.
pub(super) fn text(path: &Path) -> Option<String> {
    let mut text = String::new();
    File::open(path).ok()?.take(MAX_BYTES).read_to_string(&mut text).ok()?;
    let trimmed = text.trim();
    (!trimmed.is_empty()).then(|| trimmed.to_owned())
}

/// A number that is not negative: -1 is how the kernel says that it does not know.
pub(super) fn number(path: &Path) -> Option<u64> {
    text(path)?.parse().ok()
}

/// Names in a folder, those with numbers in the order of the numbers: `mlx5_2` before `mlx5_10`.
pub(super) fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().take(MAX_ENTRIES);
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    names.sort_by_cached_key(|name| {
        let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
        (stem.to_owned(), name[stem.len()..].parse::<u64>().unwrap_or_default(), name.clone())
    });
    names
}

/// The last part of what a link leads to.
pub(super) fn link_name(path: &Path) -> Option<String> {
    Some(std::fs::read_link(path).ok()?.file_name()?.to_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_read_says_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let check = |content: &[u8], expected_text: Option<&str>, expected_number: Option<u64>| {
            let path = dir.path().join("file");
            std::fs::write(&path, content).unwrap();
            assert_eq!(
                (text(&path).as_deref(), number(&path)),
                (expected_text, expected_number),
                "{content:?}"
            );
        };
        check(b"42\n", Some("42"), Some(42));
        check(b"-1\n", Some("-1"), None);
        check(b"up\n", Some("up"), None);
        check(b"\n", None, None);
        check(&[0xff, 0xfe], None, None);
        assert_eq!(text(dir.path()), None);
        assert_eq!(text(&dir.path().join("none")), None);
        std::fs::write(dir.path().join("file"), vec![b'1'; 1 << 20]).unwrap();
        assert_eq!(text(&dir.path().join("file")).unwrap().len(), 4096);
    }

    #[test]
    fn names_count() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["mlx5_10", "mlx5_2", "mlx5_bond_0", "efa", "mlx4_0"] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        assert_eq!(names(dir.path()), ["efa", "mlx4_0", "mlx5_2", "mlx5_10", "mlx5_bond_0"]);
        assert_eq!(names(&dir.path().join("none")), Vec::<String>::new());
    }
}
