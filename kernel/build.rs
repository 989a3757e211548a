//! Passes the linker script to the linker.

use std::{env, path::Path};

fn main() {
    let folder = env::var("CARGO_MANIFEST_DIR").expect("cargo says where the crate is");
    let script = Path::new(&folder).join("kernel.ld");
    println!("cargo:rerun-if-changed={}", script.display());
    println!("cargo:rerun-if-changed=src/boot/boot.s");
    println!("cargo:rustc-link-arg-bins=-T{}", script.display());
    for arg in ["-static", "-no-pie", "-zmax-page-size=4096", "--build-id=none", "--gc-sections"] {
        println!("cargo:rustc-link-arg-bins={arg}");
    }
}
