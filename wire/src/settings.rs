//! What a watched process is given in its environment, as far as several parts have to spell it alike: `ringscope run`, the webhook
//! for Kubernetes, the collector, and in a shell's words `packaging/slurm/task_prolog.sh`.

/// `INFO` for `NCCL_DEBUG`, in a spelling of our own: by it a log that is lent is told from one that the user has asked for.
pub const LENT_LEVEL: &str = "Info";
/// What rings and channels stand in, for `NCCL_DEBUG_SUBSYS`, in a spelling of our own.
pub const LENT_SUBSYSTEMS: &str = "Init,Graph,Env";
/// The library that is preloaded, wherever it lies.
pub const PRELOAD_FILE: &str = "libringscope_preload.so";

/// The file's name in an entry of `LD_PRELOAD`.
#[must_use]
pub fn file_name(entry: &[u8]) -> &[u8] {
    entry.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
}

/// Whether an entry of `LD_PRELOAD` is the runtime of a sanitizer, which wants to come before all others.
#[must_use]
pub fn is_sanitizer(entry: &[u8]) -> bool {
    SANITIZERS.iter().any(|runtime| file_name(entry).starts_with(runtime))
}

/// GCC's and LLVM's.
const SANITIZERS: [&[u8]; 6] =
    [b"libasan.so", b"libtsan.so", b"libubsan.so", b"liblsan.so", b"libhwasan.so", b"libclang_rt."];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runtimes_are_known_by_their_files() {
        for name in ["libasan.so.8", "/usr/lib/libtsan.so.2", "/opt/clang/libclang_rt.asan-x86_64.so"] {
            assert!(is_sanitizer(name.as_bytes()), "{name}");
        }
        assert!(!is_sanitizer(b"libm.so.6") && !is_sanitizer(b"/libasan.so/libm.so.6") && !is_sanitizer(b""));
    }
}
