//! Link settings of `librsccl.so`: its name for the loader, and that it is never unmapped, since its worker
//! threads outlive a `dlclose`.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,librsccl.so");
}
