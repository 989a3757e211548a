//! What the integration tests and the fuzzer share.
//!
//! | module    | job                                                                     |
//! |-----------|-------------------------------------------------------------------------|
//! | `machine` | a platform of one thread that plays all CPUs                            |
//! | `setup`   | memory maps and settings, from plain numbers                            |
//! | `steps`   | operations, from plain numbers                                          |
//! | `oracle`  | the truth about every frame, kept naively                               |
//! | `world`   | runs steps on a memory and the oracle at once                           |
//! | `verdict` | whether the two agree                                                   |
//!
//! Setups and steps are plain numbers so that a property test can shrink them and a fuzzer can
//! read them from bytes: every number means something, none is refused.

#![allow(dead_code, unreachable_pub, reason = "each test uses its part")]

pub mod machine;
pub mod oracle;
pub mod setup;
pub mod steps;
pub mod verdict;
pub mod world;
