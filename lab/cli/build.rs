//! The papers' scenarios are part of the binary.

fn main() {
    println!("cargo:rerun-if-changed=../scenarios/paper");
}
