//! Link arguments of the shared library.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libnccl-net-ringscope.so");
    // NCCL closes it with the last communicator, while devices and the file of connections are the process's.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    ringscope_glibc::link_against_oldest()
}
