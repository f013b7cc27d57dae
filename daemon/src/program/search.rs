//! Where the dynamic loader would find a library: `DT_RPATH`, `LD_LIBRARY_PATH`, `DT_RUNPATH`, the system's folders.
//! Source: ld.so(8).
//!
//! Follows names only. Libraries that a program asks for while it runs are not known here.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::object::Object;

/// Folders in which libraries are looked for.
#[derive(Clone, Debug, Default)]
pub struct Libraries {
    path: Option<OsString>,
    library_path: Vec<PathBuf>,
    system: Vec<PathBuf>,
}

/// A program with all libraries that the loader brings in before it starts.
#[derive(Debug, Default)]
pub struct Loaded {
    /// In the order in which symbols are looked up.
    pub objects: Vec<Object>,
    /// Names that were not found.
    pub missing: BTreeSet<String>,
}

impl Libraries {
    /// With the values of `PATH` and `LD_LIBRARY_PATH`, and the folders that this machine's loader is configured with.
    #[must_use]
    pub fn new(path: Option<&OsStr>, library_path: Option<&OsStr>) -> Self {
        let library_path = library_path.unwrap_or_default().as_bytes();
        Self {
            path: path.map(OsStr::to_owned),
            library_path: (library_path.split(|byte| matches!(byte, b':' | b';')))
                .filter(|folder| !folder.is_empty())
                .map(|folder| PathBuf::from(OsStr::from_bytes(folder)))
                .collect(),
            system: system_folders(Path::new("/etc/ld.so.conf")),
        }
    }

    /// `PATH`.
    #[must_use]
    pub fn path(&self) -> Option<&OsStr> {
        self.path.as_deref()
    }

    /// Where a library is that nothing but its name is known of.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<PathBuf> {
        self.find_for(name, None, &[])
    }

    /// A program or library with everything that it needs, to [`MAX_OBJECTS`].
    #[must_use]
    pub fn load(&self, first: Object) -> Loaded {
        let inherited_rpath = first.rpath.clone();
        let mut loaded = Loaded::default();
        let mut seen = BTreeSet::new();
        let mut queue = std::collections::VecDeque::from([first]);
        while let Some(object) = queue.pop_front() {
            for name in object.needed.iter().filter(|name| seen.insert((*name).clone())) {
                match self.find_for(name, Some(&object), &inherited_rpath).map(|path| Object::read(&path)) {
                    Some(Ok(needed)) if loaded.objects.len() + queue.len() < MAX_OBJECTS => {
                        queue.push_back(needed);
                    }
                    _ => drop(loaded.missing.insert(name.clone())),
                }
            }
            loaded.objects.push(object);
        }
        loaded
    }

    fn find_for(&self, name: &str, by: Option<&Object>, inherited_rpath: &[PathBuf]) -> Option<PathBuf> {
        if name.contains('/') {
            return Some(PathBuf::from(name)).filter(|path| path.is_file());
        }
        let (rpath, runpath) = by.map_or((&[][..], &[][..]), |by| (&by.rpath, &by.runpath));
        let inherited = if runpath.is_empty() { inherited_rpath } else { &[] };
        (rpath.iter().chain(inherited).chain(&self.library_path).chain(runpath).chain(&self.system))
            .map(|folder| folder.join(name))
            .find(|path| path.is_file())
    }
}

/// The folders of `/etc/ld.so.conf`, and those that the loader knows itself.
fn system_folders(conf: &Path) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    read_conf(conf, &mut folders, 0);
    let machine = std::env::consts::ARCH;
    for root in ["/lib", "/usr/lib"] {
        folders.push(PathBuf::from(format!("{root}/{machine}-linux-gnu")));
        folders.push(PathBuf::from(format!("{root}64")));
        folders.push(PathBuf::from(root));
    }
    folders
}

fn read_conf(conf: &Path, folders: &mut Vec<PathBuf>, depth: usize) {
    let Ok(text) = fs::read_to_string(conf) else { return };
    for line in text.lines().map(|line| line.split('#').next().unwrap_or_default().trim()) {
        if let Some(pattern) = line.strip_prefix("include ").filter(|_| depth < MAX_INCLUDES) {
            for file in included(conf, pattern.trim()) {
                read_conf(&file, folders, depth + 1);
            }
        } else if line.starts_with('/') {
            folders.push(PathBuf::from(line));
        }
    }
}

/// Files of `include folder/*.conf`, the one form that distributions use.
fn included(conf: &Path, pattern: &str) -> Vec<PathBuf> {
    let pattern = conf.parent().unwrap_or(Path::new("/")).join(pattern);
    let Some(name) = pattern.file_name().map(|name| name.to_string_lossy().into_owned()) else {
        return Vec::new();
    };
    let Some((head, tail)) = name.split_once('*') else { return vec![pattern] };
    let folder = pattern.parent().unwrap_or(Path::new("/"));
    let mut files: Vec<PathBuf> = (fs::read_dir(folder).into_iter().flatten().flatten())
        .map(|entry| entry.path())
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with(head) && name.ends_with(tail)
        })
        .collect();
    files.sort();
    files
}

/// Files that configure the loader include others at most this deep.
const MAX_INCLUDES: usize = 4;
/// A program with more libraries than this is not followed to its end.
const MAX_OBJECTS: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loaders_configuration_is_followed() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str| dir.path().join(name);
        fs::create_dir(file("conf.d")).unwrap();
        fs::write(file("ld.so.conf"), "# own\ninclude conf.d/*.conf\n/opt/lib # later\n").unwrap();
        fs::write(file("conf.d/b.conf"), "/b\n").unwrap();
        fs::write(file("conf.d/a.conf"), "/a\ninclude ../ld.so.conf\n").unwrap();
        fs::write(file("conf.d/readme"), "/no\n").unwrap();
        let folders = system_folders(&file("ld.so.conf"));
        assert_eq!(folders[0], Path::new("/a"));
        assert!(folders.contains(&"/b".into()) && folders.contains(&"/opt/lib".into()));
        assert!(!folders.contains(&"/no".into()) && folders.contains(&"/usr/lib".into()));
    }

    #[test]
    fn a_programs_libraries_are_found_and_missing_ones_named() {
        let program = Object::read(&std::env::current_exe().unwrap()).unwrap();
        let mut program = program;
        program.needed.push("libthat-nobody-has.so.7".to_owned());
        let loaded = Libraries::new(None, None).load(program);
        let names: Vec<_> = loaded.objects.iter().filter_map(|object| object.soname.as_deref()).collect();
        assert!(names.contains(&"libc.so.6"), "{names:?}");
        assert!(loaded.missing.contains("libthat-nobody-has.so.7"), "{:?}", loaded.missing);
    }
}
