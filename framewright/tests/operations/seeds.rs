//! The first inputs of the fuzzer, and inputs of earlier failures, as ordinary tests.

use std::{fs, path::Path};

#[test]
fn seeds_of_the_fuzzer_agree_with_the_oracle() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/seeds/operations");
    let mut count = 0;
    for entry in fs::read_dir(&seeds).expect("the seeds are in the repository") {
        let path = entry.expect("the folder can be read").path();
        println!("{}", path.display());
        crate::support::world::run_bytes(&fs::read(&path).expect("a seed can be read"));
        count += 1;
    }
    assert!(count > 0, "no seeds in {}", seeds.display());
}
