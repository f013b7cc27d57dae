//! Where a thread is in native code: the kernel's frames where they may be read, and the function that it called the
//! kernel from, by the symbols of the object's file. Frames further up would need unwinding, and that the thread is stopped.

use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use object::read::elf::ElfFile64;
use object::{Endianness, Object as _, ObjectSegment as _, ObjectSymbol as _, ReadCache, SymbolKind};

use crate::{procfs, regular};

/// Frames of the kernel that are told.
const MAX_KERNEL_FRAMES: usize = 12;
/// The maps of a process with CUDA have some ten thousand lines.
const MAX_MAPS: u64 = 16 << 20;
/// Symbols of one object that are looked through.
const MAX_SYMBOLS: usize = 2_000_000;
/// Objects whose symbols are read in one look.
const MAX_OBJECTS: usize = 8;

/// The kernel's frames of a thread, innermost first; empty where they may not be read (it takes root).
pub(super) fn kernel_frames(pid: u32, thread: u32) -> Vec<String> {
    let stack = procfs::text(pid, &format!("task/{thread}/stack")).unwrap_or_default();
    let frame = |line: &str| {
        let function = line.split_once("] ")?.1.split('+').next()?;
        // Where all calls come in.
        let is_entry = ["entry_SYSCALL", "do_syscall_64", "x64_sys_call", "el0", "invoke_syscall"]
            .iter()
            .any(|entry| function.starts_with(entry));
        (!is_entry && !function.is_empty()).then(|| format!("kernel {function}"))
    };
    stack.lines().filter_map(frame).take(MAX_KERNEL_FRAMES).collect()
}

/// One part of an object in a process's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mapping {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) offset: u64,
    device: (u32, u32),
    inode: u64,
    /// Empty: no file.
    pub(super) path: String,
}

/// The memory of a process.
#[derive(Debug, Default)]
pub(super) struct Maps(pub(super) Vec<Mapping>);

impl Maps {
    pub(super) fn read(pid: u32) -> io::Result<Self> {
        Ok(Self::parse(&procfs::read_up_to(pid, "maps", MAX_MAPS)?))
    }

    /// Source: proc(5), `maps`.
    fn parse(text: &str) -> Self {
        let hex = |text: &str| u64::from_str_radix(text, 16).ok();
        let mapping = |line: &str| {
            let mut fields = line.splitn(6, ' ');
            let (start, end) = fields.next()?.split_once('-')?;
            let offset = hex(fields.nth(1)?)?;
            let (major, minor) = fields.next()?.split_once(':')?;
            let device = (u32::from_str_radix(major, 16).ok()?, u32::from_str_radix(minor, 16).ok()?);
            let inode = fields.next()?.parse().ok()?;
            let path = fields.next().unwrap_or_default().trim().to_owned();
            Some(Mapping { start: hex(start)?, end: hex(end)?, offset, device, inode, path })
        };
        Self(text.lines().filter_map(mapping).collect())
    }

    /// The part that an address lies in.
    pub(super) fn at(&self, address: u64) -> Option<&Mapping> {
        let index = self.0.partition_point(|mapping| mapping.end <= address);
        self.0.get(index).filter(|mapping| mapping.start <= address)
    }
}

impl Mapping {
    /// The file as the process sees it, which may be in a container; `None` if another file has its name now, or none.
    pub(super) fn file(&self, pid: u32) -> Option<File> {
        if !self.path.starts_with('/') {
            return None;
        }
        let path = procfs::path(pid, "root").join(self.path.trim_start_matches('/'));
        let check = |metadata: &Metadata| {
            if metadata.ino() == self.inode { Ok(()) } else { Err(io::Error::other("it is another file")) }
        };
        regular::open_of_process(&path, check).ok()
    }

    /// Name of the file alone.
    pub(super) fn name(&self) -> &str {
        let name = Path::new(&self.path).file_name().and_then(|name| name.to_str()).unwrap_or(&self.path);
        name.strip_suffix(" (deleted)").unwrap_or(name)
    }
}

/// Names the functions at addresses of one process.
pub(super) struct Functions<'a> {
    pid: u32,
    maps: &'a Maps,
    /// By file: functions by their address in it.
    objects: BTreeMap<(u64, (u32, u32)), Symbols>,
}

#[derive(Debug, Default)]
struct Symbols {
    /// Offset in the file, address, size.
    segments: Vec<(u64, u64, u64)>,
    functions: BTreeMap<u64, (u64, String)>,
}

impl<'a> Functions<'a> {
    pub(super) const fn of(pid: u32, maps: &'a Maps) -> Self {
        Self { pid, maps, objects: BTreeMap::new() }
    }

    /// `libc.so.6 read`, or the object alone where it has no name for the place.
    pub(super) fn at(&mut self, address: u64) -> Option<String> {
        let mapping = self.maps.at(address).filter(|mapping| !mapping.path.is_empty())?;
        let key = (mapping.inode, mapping.device);
        if !self.objects.contains_key(&key) && self.objects.len() < MAX_OBJECTS {
            let symbols = mapping.file(self.pid).and_then(symbols).unwrap_or_default();
            self.objects.insert(key, symbols);
        }
        let in_file = address - mapping.start + mapping.offset;
        let function = self.objects.get(&key).and_then(|symbols| symbols.at(in_file));
        Some(
            function.map_or_else(
                || mapping.name().to_owned(),
                |function| format!("{} {function}", mapping.name()),
            ),
        )
    }
}

impl Symbols {
    fn at(&self, in_file: u64) -> Option<&str> {
        let (offset, address, _) =
            self.segments.iter().find(|(offset, _, size)| (*offset..offset + size).contains(&in_file))?;
        let address = in_file - offset + address;
        let (start, (size, name)) = self.functions.range(..=address).next_back()?;
        (address - start < (*size).max(1)).then_some(name)
    }
}

fn symbols(file: File) -> Option<Symbols> {
    let cache = ReadCache::new(file);
    let elf = ElfFile64::<Endianness, _>::parse(&cache).ok()?;
    let segments = elf.segments().map(|segment| {
        let (offset, size) = segment.file_range();
        (offset, segment.address(), size)
    });
    let mut symbols = Symbols { segments: segments.collect(), functions: BTreeMap::new() };
    for symbol in elf.symbols().chain(elf.dynamic_symbols()).take(MAX_SYMBOLS) {
        if symbol.kind() != SymbolKind::Text || !symbol.is_definition() {
            continue;
        }
        if let Ok(name) = symbol.name() {
            // Several names of one function: the shortest is the one that people know.
            let known =
                symbols.functions.entry(symbol.address()).or_insert_with(|| (symbol.size(), name.to_owned()));
            if name.trim_start_matches('_').len() < known.1.trim_start_matches('_').len()
                || known.1.starts_with('_') && !name.starts_with('_')
            {
                *known = (symbol.size().max(known.0), name.to_owned());
            }
        }
    }
    Some(symbols)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_are_taken_apart() {
        let text = "55d0c000-55d0d000 r--p 00001000 fd:00 77 /usr/bin/a b\n\
                    7f00c000-7f00d000 rw-p 00000000 00:00 0 \nnonsense\n";
        let maps = Maps::parse(text);
        assert_eq!(maps.0.len(), 2);
        let first = maps.at(0x55d0_c010).unwrap();
        assert_eq!((first.offset, first.inode, first.name()), (0x1000, 77, "a b"));
        assert_eq!(maps.at(0x55d0_d000), None);
        assert_eq!(maps.at(0x7f00_cfff).map(|mapping| mapping.path.as_str()), Some(""));
    }

    #[test]
    fn a_function_of_this_program_has_its_name() {
        let pid = std::process::id();
        let maps = Maps::read(pid).unwrap();
        let mut functions = Functions::of(pid, &maps);
        // A function of the C library, where a signal handler would be asked for.
        let address = libc::getpid as *const () as u64;
        let found = functions.at(address).unwrap();
        assert!(found.contains("getpid"), "{found}");
        assert_eq!(functions.at(8), None);
    }

    #[test]
    fn another_file_of_the_same_name_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("libpython3.11.so");
        std::fs::write(&path, "x").unwrap();
        let inode = path.metadata().unwrap().ino();
        let mapping =
            Mapping { start: 0, end: 1, offset: 0, device: (0, 0), inode, path: path.display().to_string() };
        let pid = std::process::id();
        assert!(mapping.file(pid).is_some());
        std::fs::remove_file(&path).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0)
            .unwrap();
        assert!(mapping.file(pid).is_none(), "a pipe would hold the reader");
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/null", &path).unwrap();
        assert!(mapping.file(pid).is_none());
    }
}
