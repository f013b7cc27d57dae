//! The library's files of settings, which count where the environment says nothing: whether one of them asks for a log.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use super::args::{Inherited, said};

/// Whether a file that the library reads asks for a log. Source: NCCL's `src/misc/param.cc`, `initEnvFunc`.
pub(super) fn asks_for_log(inherited: &Inherited) -> bool {
    files(inherited).iter().any(|file| says(file))
}

fn files(inherited: &Inherited) -> Vec<PathBuf> {
    let of_user = match (said(&inherited.nccl_conf_file), said(&inherited.home)) {
        (Some(named), _) => Some(PathBuf::from(named)),
        (None, Some(home)) => Some(Path::new(home).join(".nccl.conf")),
        (None, None) => None,
    };
    of_user.into_iter().chain([PathBuf::from("/etc/nccl.conf")]).collect()
}

fn says(path: &Path) -> bool {
    // One that is a pipe would hold us up.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let Ok(file) = rustix::fs::open(path, flags, Mode::empty()).map(File::from) else { return false };
    let mut bytes = Vec::new();
    let is_read = file.metadata().is_ok_and(|metadata| metadata.is_file())
        && file.take(MAX_BYTES).read_to_end(&mut bytes).is_ok();
    is_read && String::from_utf8_lossy(&bytes).lines().any(is_setting)
}

fn is_setting(line: &str) -> bool {
    let name = line.split_once('=').map(|(name, _)| name.trim()).unwrap_or_default();
    ["NCCL_DEBUG", "NCCL_DEBUG_FILE", "NCCL_DEBUG_SUBSYS"].contains(&name)
}

/// People write such files by hand.
const MAX_BYTES: u64 = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_asks_where_a_line_does() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("nccl.conf");
        for (text, expected) in [
            ("NCCL_DEBUG=WARN\n", true),
            ("NCCL_IB_HCA=mlx5\nNCCL_DEBUG_FILE = /tmp/%p\n", true),
            ("# NCCL_DEBUG=WARN\nNCCL_IB_HCA=mlx5\n", false),
            ("NCCL_DEBUG\n", false),
            ("", false),
        ] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(says(&path), expected, "{text}");
        }
        assert!(!says(&dir.path().join("none")) && !says(dir.path()));
        let pipe = dir.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, Mode::RUSR, 0).unwrap();
        assert!(!says(&pipe), "and nobody waits");
    }
}
