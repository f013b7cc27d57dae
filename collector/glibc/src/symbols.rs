//! What glibc's libraries export, as an older one would have had it.

use std::collections::BTreeMap;

use object::elf::{STT_FUNC, STT_GNU_IFUNC, STT_OBJECT};
use object::read::elf::ElfFile64;
use object::{Endianness, Object as _, ObjectSymbol as _};

/// A version of glibc.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version(pub(crate) u32, pub(crate) u32);

/// A function or variable.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Symbol {
    pub(crate) name: String,
    /// The newest that is not too new, as it is written: `GLIBC_2.2.5`.
    pub(crate) version: String,
    /// The library that had it.
    pub(crate) library: &'static str,
    pub(crate) is_function: bool,
    pub(crate) size: u64,
}

impl Version {
    /// Of `GLIBC_2.2.5`; none of what glibc keeps to itself.
    fn parse(name: &str) -> Option<Self> {
        let mut numbers = name.strip_prefix("GLIBC_")?.split('.').map(str::parse);
        Some(Self(numbers.next()?.ok()?, numbers.next()?.ok()?))
    }
}

/// What a library's file exports that is no newer than `oldest`. What glibc has moved into `libc.so.6` since is given to
/// the library that had it.
pub(crate) fn read(
    bytes: &[u8],
    library: &'static str,
    oldest: Version,
) -> Result<Vec<Symbol>, Box<dyn std::error::Error>> {
    let file = ElfFile64::<Endianness>::parse(bytes)?;
    let endian = file.endian();
    let versions = file.elf_section_table().versions(endian, bytes)?.ok_or("no versions of symbols")?;
    let mut names: BTreeMap<String, Vec<(Version, Symbol)>> = BTreeMap::new();
    // What has no section is a version's own name.
    for symbol in file.dynamic_symbols().filter(|symbol| symbol.section_index().is_some()) {
        let kind = symbol.elf_symbol().st_type();
        let is_function = kind == STT_FUNC || kind == STT_GNU_IFUNC;
        let index = versions.version_index(endian, symbol.index()).index();
        let Some(version) = versions.version(index)?.filter(|_| is_function || kind == STT_OBJECT) else {
            continue;
        };
        let version = std::str::from_utf8(version.name())?;
        if let Some(number) = Version::parse(version) {
            let (name, version) = (symbol.name()?.to_owned(), version.to_owned());
            let found = Symbol { name: name.clone(), version, library, is_function, size: symbol.size() };
            names.entry(name).or_default().push((number, found));
        }
    }
    Ok(names.into_values().filter_map(|found| of_then(found, oldest)).collect())
}

/// The version of a name that was the newest then.
fn of_then(found: Vec<(Version, Symbol)>, oldest: Version) -> Option<Symbol> {
    let has_moved = found.iter().any(|(version, _)| *version > oldest);
    let then = found.into_iter().filter(|(version, _)| *version <= oldest);
    let (_, mut symbol) = then.max_by_key(|(version, _)| *version)?;
    if has_moved && symbol.library == "libc.so.6" {
        symbol.library = library_of(&symbol.name);
    }
    Some(symbol)
}

/// Where a function was that `libc.so.6` has under a newer version too.
fn library_of(name: &str) -> &'static str {
    let begins = |with: &[&str]| with.iter().any(|with| name.starts_with(with));
    if begins(&["pthread_", "__pthread_", "sem_"]) {
        "libpthread.so.0"
    } else if begins(&["dl"]) {
        "libdl.so.2"
    } else if begins(&["shm_", "timer_", "mq_", "aio_", "lio_"]) {
        "librt.so.1"
    } else {
        "libc.so.6"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbol(name: &str, version: &str) -> (Version, Symbol) {
        let (name, number) = (name.to_owned(), Version::parse(version).unwrap());
        let version = version.to_owned();
        (number, Symbol { name, version, library: "libc.so.6", is_function: true, size: 1 })
    }

    fn check(found: Vec<(Version, Symbol)>, expected: Option<(&str, &str)>) {
        let then = of_then(found, Version(2, 17));
        let then = then.as_ref().map(|symbol| (symbol.version.as_str(), symbol.library));
        assert_eq!(then, expected);
    }

    #[test]
    fn each_name_is_taken_in_the_version_and_library_of_then() {
        check(
            vec![symbol("memcpy", "GLIBC_2.2.5"), symbol("memcpy", "GLIBC_2.14")],
            Some(("GLIBC_2.14", "libc.so.6")),
        );
        check(
            vec![symbol("dlsym", "GLIBC_2.34"), symbol("dlsym", "GLIBC_2.2.5")],
            Some(("GLIBC_2.2.5", "libdl.so.2")),
        );
        check(
            vec![symbol("pthread_create", "GLIBC_2.2.5"), symbol("pthread_create", "GLIBC_2.34")],
            Some(("GLIBC_2.2.5", "libpthread.so.0")),
        );
        // It has always been in both.
        check(vec![symbol("pthread_self", "GLIBC_2.2.5")], Some(("GLIBC_2.2.5", "libc.so.6")));
        check(vec![symbol("getrandom", "GLIBC_2.25")], None);
    }

    #[test]
    fn what_glibc_keeps_to_itself_is_no_version() {
        assert_eq!(Version::parse("GLIBC_2.17"), Some(Version(2, 17)));
        assert_eq!(Version::parse("GLIBC_PRIVATE"), None);
        assert_eq!(Version::parse("GCC_3.0"), None);
    }
}
