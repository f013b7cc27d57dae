//! Has the server built anew when the page that it carries has changed.

fn main() {
    println!("cargo:rerun-if-changed=../../web/dist");
}
