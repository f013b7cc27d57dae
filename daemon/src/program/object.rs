//! One ELF file: what it needs, what it exports and calls of NCCL's API, and the version of a copy inside it.
//!
//! Reads only the parts that it asks about: a framework's library may be larger than the memory of a login node.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use object::read::elf::ElfFile64;
use object::{
    Endianness, Object as _, ObjectSection as _, ObjectSymbol as _, ObjectSymbolTable as _, ReadCache,
    RelocationTarget, SectionKind, elf,
};

/// What an ELF file says of itself.
#[derive(Clone, Debug, Default)]
pub struct Object {
    /// Where it lies.
    pub path: PathBuf,
    /// `e_machine`.
    pub machine: u16,
    /// Its own name for the loader.
    pub soname: Option<String>,
    /// Libraries that it needs, in its order.
    pub needed: Vec<String>,
    /// Folders of `DT_RPATH`, with `$ORIGIN` replaced; empty where there is a `DT_RUNPATH`.
    pub rpath: Vec<PathBuf>,
    /// Folders of `DT_RUNPATH`.
    pub runpath: Vec<PathBuf>,
    /// Functions of NCCL's API that it exports.
    pub exported: BTreeSet<String>,
    /// Functions of NCCL's API that it takes from elsewhere.
    pub imported: BTreeSet<String>,
    /// Functions of NCCL's API that it calls or refers to in a way that a preloaded library can stand in.
    pub interposable: BTreeSet<String>,
    /// Whether it asks the loader for libraries while it runs.
    pub uses_dlopen: bool,
    /// Whether the name of an NCCL library stands in its data.
    pub names_nccl: bool,
    /// `2.27.5`: the version of an NCCL inside it.
    pub nccl_version: Option<String>,
}

/// Why a file cannot be judged.
#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    /// It cannot be read.
    #[error("cannot read {path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// It is no 64-bit ELF file, or a broken one.
    #[error("{path} is not a 64-bit program or shared library: {what}")]
    NotElf {
        /// The file.
        path: PathBuf,
        /// What the parser says.
        what: String,
    },
}

type Elf<'data> = ElfFile64<'data, Endianness, &'data ReadCache<File>>;

impl Object {
    /// Reads the file.
    ///
    /// # Errors
    /// [`ObjectError`].
    pub fn read(path: &Path) -> Result<Self, ObjectError> {
        Self::read_as(path, true)
    }

    /// Reads what the loader needs first: its machine, its name, which libraries it needs and where they are looked for.
    ///
    /// # Errors
    /// [`ObjectError`].
    pub fn read_head(path: &Path) -> Result<Self, ObjectError> {
        Self::read_as(path, false)
    }

    fn read_as(path: &Path, is_whole: bool) -> Result<Self, ObjectError> {
        let io_error = |source| ObjectError::Io { path: path.to_owned(), source };
        let not_elf =
            |error: object::Error| ObjectError::NotElf { path: path.to_owned(), what: error.to_string() };
        let file = File::open(path).map_err(io_error)?;
        if !file.metadata().map_err(io_error)?.is_file() {
            return Err(io_error(io::ErrorKind::InvalidInput.into()));
        }
        let text = file.try_clone().map_err(io_error)?;
        let cache = ReadCache::new(file);
        let elf = Elf::parse(&cache).map_err(not_elf)?;
        let mut object = Self { path: path.to_owned(), ..Self::default() };
        object.machine = elf.elf_header().e_machine.get(elf.endian()).0;
        object.read_dynamic(&elf).map_err(not_elf)?;
        if is_whole {
            object.read_symbols(&elf);
            object.read_relocations(&elf);
            object.read_texts(&elf, &text).map_err(io_error)?;
        }
        Ok(object)
    }

    /// Whether a copy of NCCL is part of this file, while it is not an NCCL library itself.
    #[must_use]
    pub fn has_static_copy(&self) -> bool {
        let is_library = self.soname.as_deref().is_some_and(super::is_nccl);
        !is_library && (self.nccl_version.is_some() || self.exported.contains("pncclAllReduce"))
    }

    fn read_dynamic(&mut self, elf: &Elf<'_>) -> Result<(), object::Error> {
        let table = elf.elf_dynamic_table()?;
        let origin = self.path.canonicalize().ok().and_then(|path| Some(path.parent()?.to_owned()));
        for entry in &table {
            let wanted = [elf::DT_NEEDED, elf::DT_SONAME, elf::DT_RPATH, elf::DT_RUNPATH];
            if !wanted.contains(&entry.tag) {
                continue;
            }
            let text = String::from_utf8_lossy(table.string(entry)?).into_owned();
            match entry.tag {
                elf::DT_NEEDED => self.needed.push(text),
                elf::DT_SONAME => self.soname = Some(text),
                elf::DT_RPATH => self.rpath = folders(&text, origin.as_deref()),
                _ => self.runpath = folders(&text, origin.as_deref()),
            }
        }
        if !self.runpath.is_empty() {
            // The loader ignores it then.
            self.rpath.clear();
        }
        Ok(())
    }

    fn read_symbols(&mut self, elf: &Elf<'_>) {
        for symbol in elf.dynamic_symbols() {
            let Ok(name) = symbol.name() else { continue };
            if matches!(name, "dlopen" | "dlmopen") && symbol.is_undefined() {
                self.uses_dlopen = true;
            }
            if is_api(name) {
                let names = if symbol.is_undefined() { &mut self.imported } else { &mut self.exported };
                names.insert(name.to_owned());
            }
        }
    }

    /// A name that is only looked up by the loader, and never bound inside the file (`-Bsymbolic`, hidden), has one.
    fn read_relocations(&mut self, elf: &Elf<'_>) {
        let (Some(relocations), Some(symbols)) = (elf.dynamic_relocations(), elf.dynamic_symbol_table())
        else {
            return;
        };
        for (_, relocation) in relocations {
            let RelocationTarget::Symbol(index) = relocation.target() else { continue };
            if let Ok(name) = symbols.symbol_by_index(index).and_then(|symbol| symbol.name())
                && is_api(name)
            {
                self.interposable.insert(name.to_owned());
            }
        }
    }

    /// Looks through the constant data for the version and for the names of libraries.
    fn read_texts(&mut self, elf: &Elf<'_>, file: &File) -> io::Result<()> {
        for section in elf.sections() {
            let is_data = matches!(
                section.kind(),
                SectionKind::ReadOnlyData | SectionKind::ReadOnlyString | SectionKind::ReadOnlyDataWithRel
            );
            // `.dynstr` and debug strings are of other kinds: only what the program itself may use counts.
            if let Some((offset, size)) = section.file_range().filter(|_| is_data) {
                self.scan(file, offset, offset.saturating_add(size))?;
            }
        }
        Ok(())
    }

    fn scan(&mut self, file: &File, mut offset: u64, end: u64) -> io::Result<()> {
        let mut buffer = vec![0; SCAN_BYTES + OVERLAP_BYTES];
        while offset < end && !(self.names_nccl && self.nccl_version.is_some()) {
            let left = usize::try_from(end - offset).unwrap_or(usize::MAX);
            let wanted = buffer.len().min(left);
            let read = file.read_at(&mut buffer[..wanted], offset)?;
            if read == 0 {
                break;
            }
            let text = &buffer[..read];
            self.names_nccl |= ["libnccl.so", "librccl.so"].iter().any(|name| find(text, name).is_some());
            if self.nccl_version.is_none() {
                self.nccl_version = version_in(text);
            }
            // A text may lie across the border of two pieces.
            let step = if read == buffer.len() { SCAN_BYTES } else { read };
            offset += step as u64;
        }
        Ok(())
    }
}

/// Whether a name is one of nccl.h.
fn is_api(name: &str) -> bool {
    let name = name.strip_prefix('p').unwrap_or(name);
    name.strip_prefix("nccl").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()))
        && !name.starts_with("ncclProfiler")
}

/// `NCCL version 2.27.5+cuda12.9` → `2.27.5`. The format alone (`NCCL version %d`) is none.
fn version_in(text: &[u8]) -> Option<String> {
    let mut rest = text;
    while let Some(at) = find(rest, VERSION_TEXT) {
        rest = &rest[at + VERSION_TEXT.len()..];
        let version: String = (rest.iter().map(|byte| char::from(*byte)))
            .take_while(|c| c.is_ascii_digit() || *c == '.')
            .take(MAX_VERSION_CHARS)
            .collect();
        if version.starts_with(|c: char| c.is_ascii_digit()) && version.contains('.') {
            return Some(version.trim_end_matches('.').to_owned());
        }
    }
    None
}

fn find(text: &[u8], pattern: &str) -> Option<usize> {
    let first = *pattern.as_bytes().first()?;
    let mut from = 0;
    while let Some(at) = text.get(from..)?.iter().position(|byte| *byte == first) {
        if text[from + at..].starts_with(pattern.as_bytes()) {
            return Some(from + at);
        }
        from += at + 1;
    }
    None
}

/// Folders of an RPATH, with `$ORIGIN`.
fn folders(text: &str, origin: Option<&Path>) -> Vec<PathBuf> {
    let origin = origin.map(|path| path.display().to_string()).unwrap_or_default();
    text.split(':')
        .filter(|folder| !folder.is_empty())
        .map(|folder| PathBuf::from(folder.replace("${ORIGIN}", &origin).replace("$ORIGIN", &origin)))
        .collect()
}

/// What NCCL has in its constant data, and prints first.
const VERSION_TEXT: &str = "NCCL version ";
/// `2.27.5`, and far longer ones.
const MAX_VERSION_CHARS: usize = 16;
/// Bytes looked through at once.
const SCAN_BYTES: usize = 1 << 20;
/// Longer than any text looked for.
const OVERLAP_BYTES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_taken_from_the_text_that_has_one() {
        let check = |text: &str, expected: Option<&str>| {
            assert_eq!(version_in(text.as_bytes()).as_deref(), expected, "{text}");
        };
        check("x\0NCCL version %d.%d\0NCCL version 2.27.5+cuda12.9\0", Some("2.27.5"));
        check("NCCL version 2.8\0", Some("2.8"));
        check("NCCL version mismatch", None);
    }

    #[test]
    fn only_names_of_the_api_count() {
        assert!(is_api("ncclAllReduce") && is_api("pncclAllReduce"));
        assert!(!is_api("ncclProfiler_v5") && !is_api("nccl_net") && !is_api("printf") && !is_api("pnccl"));
    }

    #[test]
    fn origin_is_the_files_own_folder() {
        let origin = Some(Path::new("/opt/torch/lib"));
        let expected: Vec<PathBuf> =
            vec!["/opt/torch/lib/../../nvidia/nccl/lib".into(), "/opt/torch/lib".into()];
        assert_eq!(folders("$ORIGIN/../../nvidia/nccl/lib::${ORIGIN}", origin), expected);
    }

    #[test]
    fn a_text_across_the_border_of_two_pieces_is_found() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut bytes = vec![b'x'; SCAN_BYTES - 5];
        bytes.extend(b"NCCL version 2.21.5\0");
        bytes.resize(2 * SCAN_BYTES + 100, b'N');
        std::fs::write(file.path(), &bytes).unwrap();
        let mut object = Object::default();
        object.scan(file.as_file(), 0, bytes.len() as u64).unwrap();
        assert_eq!(object.nccl_version.as_deref(), Some("2.21.5"));
        assert!(!object.names_nccl);
    }

    #[test]
    fn what_is_no_elf_file_is_said_with_its_name() {
        let error = Object::read(Path::new("/dev/null")).unwrap_err().to_string();
        assert!(error.contains("/dev/null"), "{error}");
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "#!/bin/sh\n").unwrap();
        assert!(matches!(Object::read(file.path()), Err(ObjectError::NotElf { .. })));
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_panic(bytes: Vec<u8>, with_magic: bool) {
            let file = tempfile::NamedTempFile::new().unwrap();
            let magic: &[u8] = if with_magic { b"\x7fELF\x02\x01\x01\0" } else { b"" };
            std::fs::write(file.path(), [magic, &bytes].concat()).unwrap();
            let _ = Object::read(file.path());
        }
    }
}
