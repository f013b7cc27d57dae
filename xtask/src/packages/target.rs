//! The machines that packages are made for, and what each world calls them.

use std::path::PathBuf;

/// An architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Target {
    /// x86-64, also called amd64
    #[value(name = "x86-64")]
    X86_64,
    /// 64-bit Arm
    Aarch64,
}

impl Target {
    pub(super) const ALL: [Self; 2] = [Self::X86_64, Self::Aarch64];

    /// The compiler's name of it.
    pub(super) const fn triple(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64-unknown-linux-gnu",
            Self::Aarch64 => "aarch64-unknown-linux-gnu",
        }
    }

    /// The kernel's name of it, which RPM uses too.
    pub(super) const fn arch(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
        }
    }

    /// Debian's name of it, which OCI uses too.
    pub(super) const fn debian(self) -> &'static str {
        match self {
            Self::X86_64 => "amd64",
            Self::Aarch64 => "arm64",
        }
    }

    /// Whether this machine runs its programs by itself.
    pub(super) fn is_native(self) -> bool {
        self.arch() == std::env::consts::ARCH
    }

    /// Program that runs its programs.
    pub(super) fn qemu(self) -> String {
        format!("qemu-{}", self.arch())
    }

    /// The dynamic linker that its programs name.
    pub(super) fn loader(self) -> PathBuf {
        match self {
            Self::X86_64 => "/lib64/ld-linux-x86-64.so.2".into(),
            Self::Aarch64 => "/lib/ld-linux-aarch64.so.1".into(),
        }
    }

    /// Of the largest pages that its kernels have.
    pub(super) const fn largest_page_bytes(self) -> u64 {
        match self {
            Self::X86_64 => 4096,
            Self::Aarch64 => 64 * 1024,
        }
    }

    /// Beginning of the variable by which cargo is told of a setting for it.
    pub(super) fn variable(self, setting: &str) -> String {
        format!("CARGO_TARGET_{}_{setting}", self.triple().replace('-', "_").to_uppercase())
    }
}
