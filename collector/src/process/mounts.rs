//! Whether a folder may lie in memory, by what the kernel lists. To ask the folder itself, or to make it, would wait for a
//! file server that is gone or a disk that is frozen, and the job's thread with it.
//!
//! The path is walked as the kernel would walk it, by the list alone. Nothing is asked on a file system that is not of this
//! machine; links are read on others.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

/// File systems that are memory by their `f_type`; the first root of a machine may be one.
const MEMORY: [&[u8]; 3] = [b"tmpfs", b"devtmpfs", b"rootfs"];
/// File systems of this machine, which answer what a name is.
const LOCAL: [&[u8]; 11] = [
    b"ext2",
    b"ext3",
    b"ext4",
    b"xfs",
    b"btrfs",
    b"zfs",
    b"f2fs",
    b"bcachefs",
    b"overlay",
    b"squashfs",
    b"erofs",
];
/// Links followed. Source: `linux/namei.h`, `MAXSYMLINKS`.
const MAX_LINKS: usize = 40;
/// Of a longer list nothing is known: some 100 000 mounts.
const MAX_LIST_BYTES: u64 = 16 << 20;

/// Whether the folder, which need not exist, may lie in memory: true also where there is no list.
pub(super) fn may_be_memory(dir: &Path) -> bool {
    let Some(list) = list() else { return true };
    let Ok(dir) = std::path::absolute(dir) else { return false };
    Mounts::of(&list).may_be_memory(&dir)
}

fn list() -> Option<Vec<u8>> {
    let mut list = Vec::new();
    let n = File::open("/proc/self/mountinfo").ok()?.take(MAX_LIST_BYTES).read_to_end(&mut list).ok()?;
    (n > 0 && (n as u64) < MAX_LIST_BYTES).then_some(list)
}

/// A line of the list.
struct Mount<'a> {
    id: &'a [u8],
    /// The mount that it lies on.
    parent: &'a [u8],
    place: PathBuf,
    kind: &'a [u8],
}

impl<'a> Mount<'a> {
    /// Source: `proc_pid_mountinfo(5)`.
    fn of(line: &'a [u8]) -> Option<Self> {
        let mut words = line.split(|byte| *byte == b' ');
        let (id, parent, place) = (words.next()?, words.next()?, unescaped(words.nth(2)?));
        let kind = words.skip_while(|word| *word != b"-").nth(1)?;
        Some(Self { id, parent, place: OsStr::from_bytes(&place).into(), kind })
    }
}

struct Mounts<'a>(Vec<Mount<'a>>);

impl<'a> Mounts<'a> {
    fn of(list: &'a [u8]) -> Self {
        Self(list.split(|byte| *byte == b'\n').filter_map(Mount::of).collect())
    }

    fn may_be_memory(&self, dir: &Path) -> bool {
        if !dir.is_absolute() {
            return false;
        }
        let mut path = PathBuf::from("/");
        // What is still to be walked, the next name last.
        let mut rest = names(dir);
        let mut n_links = 0;
        while let Some(name) = rest.pop() {
            if name == ".." {
                path.pop();
                continue;
            }
            path.push(name);
            if !self.is_ours(self.at(&path)) {
                return false;
            }
            let Ok(target) = fs::read_link(&path) else { continue };
            n_links += 1;
            if n_links > MAX_LINKS {
                return false;
            }
            path.pop();
            if target.is_absolute() {
                path = PathBuf::from("/");
            }
            rest.extend(names(&target));
        }
        self.at(&path).is_none_or(|mount| MEMORY.contains(&mount.kind))
    }

    /// The mount that a path without links lies on; none where the list does not have it, as in a root that is a plain folder.
    fn at(&self, path: &Path) -> Option<&Mount<'a>> {
        let mut starts: Vec<&Path> = path.ancestors().collect();
        starts.reverse();
        let mut at = None;
        for start in starts {
            // One on another at the same place. What lies on the root of the process it does not see.
            while let Some(next) = self.next(at, start) {
                at = Some(next);
                if start == Path::new("/") {
                    break;
                }
            }
        }
        at
    }

    /// The mount at that place on another one.
    fn next(&self, below: Option<&Mount<'a>>, place: &Path) -> Option<&Mount<'a>> {
        self.0.iter().find(|mount| {
            mount.place == place && below.map_or_else(|| self.is_first(mount), |below| mount.is_on(below))
        })
    }

    /// Whether what it lies on is not seen from here.
    fn is_first(&self, mount: &Mount<'a>) -> bool {
        !self.0.iter().any(|below| mount.is_on(below))
    }

    /// Whether names may be asked there. The root answers, or the program would not run.
    fn is_ours(&self, mount: Option<&Mount<'a>>) -> bool {
        mount.is_none_or(|mount| {
            MEMORY.contains(&mount.kind) || LOCAL.contains(&mount.kind) || mount.place == Path::new("/")
        })
    }
}

impl Mount<'_> {
    fn is_on(&self, below: &Self) -> bool {
        // The first root of a machine lies on itself.
        self.parent == below.id && self.id != below.id
    }
}

/// The names of a path, the first one last.
fn names(path: &Path) -> Vec<std::ffi::OsString> {
    let components = path.components().rev();
    let names = components.filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir));
    names.map(|part| part.as_os_str().to_owned()).collect()
}

/// `\040` stands for a blank, and so on.
fn unescaped(word: &[u8]) -> Vec<u8> {
    let mut rest = word;
    let mut bytes = Vec::with_capacity(word.len());
    while let [first, after @ ..] = rest {
        let octal = after.get(..3).filter(|_| *first == b'\\').and_then(|octal| str::from_utf8(octal).ok());
        if let Some(byte) = octal.and_then(|octal| u8::from_str_radix(octal, 8).ok()) {
            bytes.push(byte);
            rest = &after[3..];
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &[u8] = b"22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n\
        24 22 0:6 / /dev rw,nosuid shared:2 - devtmpfs udev rw\n\
        30 25 0:24 / /dev/shm rw,nosuid - tmpfs tmpfs rw\n\
        25 24 0:23 / /dev/shm rw,nosuid - nfs4 server:/shm rw\n\
        40 22 0:41 / /home rw - nfs4 server:/home rw\n\
        41 40 0:45 / /home/memory rw - tmpfs tmpfs rw\n\
        42 22 0:42 / /a\\040blank rw master:1 propagate_from:2 - tmpfs tmpfs rw\n\
        43 22 0:43 / /twice rw - tmpfs tmpfs rw\n\
        44 43 0:44 / /twice rw - fuse.sshfs server:/twice rw\n\
        45 46 0:45 / /under/it rw - nfs server:/x rw\n\
        47 46 0:46 / /under rw - tmpfs tmpfs rw\n\
        46 22 8:1 / /under rw - ext4 /dev/sda2 rw\n";

    /// Names that are nowhere, so that no link is met.
    #[test]
    fn the_mounts_on_the_way_say_what_a_folder_lies_on() {
        for (path, expected) in [
            ("/", false),
            ("/nowhere/x", false),
            ("/dev/shm/nowhere", true),
            ("/dev/nowhere", true),
            ("/home/nowhere/x", false),
            // The way there leads through the server.
            ("/home/memory/x", false),
            ("/a blank/x", true),
            ("/a/x", false),
            ("/twice/x", false),
            ("/under/it/x", true),
            ("/home/../a blank/x", false),
            ("/nowhere/../a blank/x", true),
            ("nowhere", false),
        ] {
            assert_eq!(Mounts::of(LIST).may_be_memory(Path::new(path)), expected, "{path}");
        }
    }

    #[test]
    fn where_the_list_does_not_tell_there_is_no_knowing() {
        let of_folder = b"50 7 0:50 / /mnt rw - nfs server:/x rw\n";
        for (list, path, expected) in [
            (&b""[..], "/nowhere", true),
            (of_folder, "/nowhere", true),
            (of_folder, "/mnt/nowhere", false),
            (b"1 1 0:2 / / rw - rootfs rootfs rw\n", "/nowhere", true),
            // Of a process whose root is the lower one.
            (b"1 1 0:2 / / rw - rootfs rootfs rw\n2 1 8:1 / / rw - ext4 /dev/sda rw\n", "/nowhere", true),
            (b"9 3 0:2 / / rw - nfs4 server:/ rw\n10 9 0:3 / /m rw - tmpfs none rw\n", "/m/nowhere", true),
            (b"a line\nof another kind - \n", "/nowhere", true),
        ] {
            let list = Mounts::of(list);
            assert_eq!(list.may_be_memory(Path::new(path)), expected, "{path}");
        }
    }

    #[test]
    fn links_are_followed_as_the_kernel_does() {
        let dir = PathBuf::from(format!("/dev/shm/ringscope-test-mounts-{}", std::process::id()));
        let link = |target: &str, name: &str| std::os::unix::fs::symlink(target, dir.join(name)).unwrap();
        fs::create_dir_all(dir.join("real/deep")).unwrap();
        link("/proc/self", "proc");
        link("real/deep", "deep");
        link("circle", "circle");
        let found = ["x/y", "proc/x", "deep/../x", "circle/x", "deep/../../proc"]
            .map(|name| may_be_memory(&dir.join(name)));
        fs::remove_dir_all(&dir).unwrap();
        assert_eq!(found, [true, false, true, false, false]);
    }
}
