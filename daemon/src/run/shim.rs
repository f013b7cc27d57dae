//! A stand-in for the collective library's name: a shared object without code or symbols, `SONAME libnccl.so.2`, that
//! needs `libringscope_preload.so` first and the real library second.
//!
//! Preloaded, it is what every later `libnccl.so.2` means, in `DT_NEEDED` and in `dlopen`. Whoever looks a function up
//! in it finds the one that leads to the collector's, and what the collector does not have in the real library: so callers
//! by `dlsym` and `ctypes`, and libraries loaded with `RTLD_DEEPBIND`, are seen, which `libringscope_preload.so` alone
//! misses.
//!
//! Why not a hook of `dlsym`: it would put our code into every `dlsym` of every process of the job, has to keep the
//! caller's return address for `RTLD_NEXT` in assembly for each processor, and still misses `RTLD_DEEPBIND`, whose
//! lookups never come to the global scope. The table of `docs/loading.md` is tested cell by cell with this stand-in.
//!
//! What it costs: every process of the job maps the real library, also those that never use it. So it is asked for
//! (`--shim`) and not the default.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use object::write::elf::{FileHeader, ProgramHeader, Writer};
use object::{Endianness, elf};
use sha2::{Digest as _, Sha256};

use crate::program::{self, Interpreter, Libraries, Object, ObjectError};

/// The name that frameworks ask for.
pub const SONAME: &str = "libnccl.so.2";

/// Why there is no stand-in.
#[derive(Debug, thiserror::Error)]
pub enum ShimError {
    /// Nobody knows where the real library is.
    #[error(
        "--shim: no libnccl.so.2 in the Python of the command, in LD_LIBRARY_PATH or in the system's folders; name it \
         with --shim=PATH"
    )]
    NotFound,
    /// The real library is none.
    #[error("--shim: {0}")]
    Object(#[from] ObjectError),
    /// A library for another machine, or without the API.
    #[error("--shim: {path} does not export ncclCommInitRank: it is no NCCL library")]
    NotNccl {
        /// The file.
        path: PathBuf,
    },
    /// It could not be written.
    #[error("--shim: cannot write {path}: {source}; name a writable folder with --cache-dir")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The format refused.
    #[error("--shim: cannot make the library: {0}")]
    Format(String),
}

impl ShimError {
    /// Whether the library that was named is at fault.
    pub(super) fn is_of_library(&self) -> bool {
        matches!(self, Self::Object(_) | Self::NotNccl { .. })
    }
}

/// A stand-in on disk.
#[derive(Debug)]
pub struct Shim {
    /// The stand-in, to be preloaded.
    pub path: PathBuf,
    /// The real library.
    pub real: PathBuf,
}

/// Makes the stand-in for `real`, or for the library that the command would find.
///
/// # Errors
/// [`ShimError`].
pub fn prepare(
    real: &Path,
    words: &[OsString],
    libraries: &Libraries,
    preload: &Path,
    cache: &Path,
) -> Result<Shim, ShimError> {
    let real = if real.as_os_str().is_empty() {
        locate(words, libraries).ok_or(ShimError::NotFound)?
    } else {
        real.to_owned()
    };
    let object = Object::read(&real)?;
    if !object.exported.contains("ncclCommInitRank") {
        return Err(ShimError::NotNccl { path: real });
    }
    let real = real.canonicalize().map_err(|source| ShimError::Write { path: real.clone(), source })?;
    let bytes =
        image(object.machine, preload, &real).map_err(|error| ShimError::Format(error.to_string()))?;
    let hash: String = Sha256::digest(&bytes).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let path = cache.join(hash).join(SONAME);
    write(&path, &bytes).map_err(|source| ShimError::Write { path: path.clone(), source })?;
    Ok(Shim { path, real })
}

/// The library that the command would find: that of its Python, else that of the loader.
fn locate(words: &[OsString], libraries: &Libraries) -> Option<PathBuf> {
    let command = program::Command::resolve(words, libraries.path()).ok();
    (command.as_ref().and_then(program::Command::python))
        .and_then(Interpreter::ask)
        .and_then(|python| python.nccl())
        .or_else(|| program::SONAMES.iter().find_map(|name| libraries.find(name)))
}

/// Writes under another name and renames, so that ranks that start together never see half a library.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if fs::read(path).is_ok_and(|found| found == bytes) {
        return Ok(());
    }
    let folder = path.parent().unwrap_or(Path::new("/"));
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let temporary = path.with_extension(format!("{}.tmp", std::process::id()));
    let mut file =
        fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o755).open(&temporary)?;
    file.write_all(bytes)?;
    fs::rename(&temporary, path)
}

/// The bytes of the file: headers, an empty symbol table with its hash, names, the dynamic table. One writable segment,
/// for older loaders write into the dynamic table; no stack that may be executed.
fn image(machine: u16, preload: &Path, real: &Path) -> Result<Vec<u8>, object::write::Error> {
    let mut bytes = Vec::new();
    let mut writer = Writer::new(Endianness::Little, true, &mut bytes);
    writer.reserve_file_header();
    writer.reserve_program_headers(3);
    writer.reserve_null_dynamic_symbol_index();
    let symbols = writer.reserve_dynsym();
    let hash = writer.reserve_hash(1, 1);
    let needed = [
        writer.add_dynamic_string(preload.as_os_str().as_bytes()),
        writer.add_dynamic_string(real.as_os_str().as_bytes()),
    ];
    let soname = writer.add_dynamic_string(SONAME.as_bytes());
    let strings = writer.reserve_dynstr()?;
    let strings_len = u64::from(writer.dynstr_len());
    let dynamic = writer.reserve_dynamic(N_DYNAMIC);
    let loaded_len = writer.reserved_len();
    // The loader needs no sections; people with `readelf` do.
    writer.reserve_null_section_index();
    writer.reserve_dynsym_section_index();
    writer.reserve_hash_section_index();
    writer.reserve_dynstr_section_index();
    writer.reserve_dynamic_section_index();
    writer.reserve_shstrtab_section_index();
    writer.reserve_shstrtab()?;
    writer.reserve_section_headers();

    writer.write_file_header(&FileHeader {
        os_abi: elf::ELFOSABI_NONE,
        abi_version: 0,
        e_type: elf::ET_DYN,
        e_machine: elf::Machine(machine),
        e_entry: 0,
        e_flags: elf::FileFlags(0),
    })?;
    write_program_headers(&mut writer, loaded_len, dynamic);
    writer.write_null_dynamic_symbol();
    writer.write_hash(1, 1, |_| None);
    writer.write_dynstr();
    writer.write_align_dynamic();
    for id in needed {
        writer.write_dynamic_string(elf::DT_NEEDED, id)?;
    }
    writer.write_dynamic_string(elf::DT_SONAME, soname)?;
    for (tag, value) in [
        (elf::DT_HASH, hash),
        (elf::DT_STRTAB, strings),
        (elf::DT_SYMTAB, symbols),
        (elf::DT_STRSZ, strings_len),
        (elf::DT_SYMENT, SYMBOL_BYTES),
        (elf::DT_NULL, 0),
    ] {
        writer.write_dynamic(tag, value)?;
    }
    writer.write_shstrtab();
    writer.write_null_section_header();
    writer.write_dynsym_section_header(symbols, 1);
    writer.write_hash_section_header(hash);
    writer.write_dynstr_section_header(strings);
    writer.write_dynamic_section_header(dynamic);
    writer.write_shstrtab_section_header();
    Ok(bytes)
}

fn write_program_headers(writer: &mut Writer<'_>, loaded_len: u64, dynamic: u64) {
    writer.write_align_program_headers();
    let read_write = elf::PF_R | elf::PF_W;
    for (p_type, offset, size, align) in [
        (elf::PT_LOAD, 0, loaded_len, LARGEST_PAGE_BYTES),
        (elf::PT_DYNAMIC, dynamic, (N_DYNAMIC * DYNAMIC_BYTES) as u64, 8),
        (elf::PT_GNU_STACK, 0, 0, 16),
    ] {
        writer.write_program_header(&ProgramHeader {
            p_type,
            p_flags: read_write,
            p_offset: offset,
            p_vaddr: offset,
            p_paddr: offset,
            p_filesz: size,
            p_memsz: size,
            p_align: align,
        });
    }
}

/// Entries of the dynamic table: two needed, a name, and what the loader wants of every object.
const N_DYNAMIC: usize = 9;
const DYNAMIC_BYTES: usize = 16;
const SYMBOL_BYTES: u64 = 24;
/// aarch64 kernels may have pages of 64 KiB.
const LARGEST_PAGE_BYTES: u64 = 0x1_0000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_the_name_needs_both_libraries_and_exports_nothing() {
        let dir = tempfile::tempdir().unwrap();
        for machine in [elf::EM_X86_64, elf::EM_AARCH64] {
            let path = dir.path().join("shim");
            fs::write(
                &path,
                image(machine.0, Path::new("/c/libringscope_preload.so"), Path::new("/r/lib")).unwrap(),
            )
            .unwrap();
            let shim = Object::read(&path).unwrap();
            assert_eq!(shim.machine, machine.0);
            assert_eq!(shim.soname.as_deref(), Some("libnccl.so.2"));
            assert_eq!(shim.needed, ["/c/libringscope_preload.so", "/r/lib"]);
            assert!(shim.exported.is_empty() && fs::metadata(&path).unwrap().len() < 2048);
        }
    }

    #[test]
    fn what_is_no_library_is_refused_with_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let libraries = Libraries::new(None, None);
        let make = |real: &str| {
            prepare(Path::new(real), &["sh".into()], &libraries, Path::new("/c.so"), dir.path())
                .unwrap_err()
                .to_string()
        };
        assert!(make("/nonexistent/libnccl.so.2").contains("/nonexistent/libnccl.so.2"));
        let own = std::env::current_exe().unwrap().display().to_string();
        assert!(make(&own).contains("no NCCL library"), "{}", make(&own));
    }
}
