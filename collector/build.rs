//! Link arguments of the shared library.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libringscope.so");
    // The profiler plugin is dlclosed with the last communicator, while atfork handlers and wrappers live on.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    ringscope_glibc::link_against_oldest()
}
