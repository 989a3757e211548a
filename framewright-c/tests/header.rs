//! The committed header matches the source. `FRAMEWRIGHT_HEADER=write` writes it.

use std::{env, fs, path::Path};

#[test]
fn the_header_is_up_to_date() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(package.join("cbindgen.toml")).unwrap();
    let bindings = cbindgen::Builder::new().with_crate(package).with_config(config).generate();
    let mut made = Vec::new();
    bindings.unwrap().write(&mut made);
    let header = package.join("framewright.h");
    if env::var_os("FRAMEWRIGHT_HEADER").is_some_and(|what| what == "write") {
        fs::write(&header, &made).unwrap();
    }
    assert!(
        fs::read(&header).unwrap() == made,
        "framewright.h is not up to date: \
         run FRAMEWRIGHT_HEADER=write cargo test -p framewright-c --test header"
    );
}
