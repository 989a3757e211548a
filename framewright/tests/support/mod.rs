//! Code that the integration tests and the fuzzer share.
//!
//! | module     | job                                                                    |
//! |------------|------------------------------------------------------------------------|
//! | `machine`  | the machine                                                            |
//! | `topology` | nodes, CPUs and zones, from plain numbers                              |
//! | `setup`    | a topology with settings, from plain numbers                           |
//! | `steps`    | operations, from plain numbers                                         |
//! | `zone`     | a naive model of every frame of a zone                                 |
//! | `oracle`   | the model of all zones                                                 |
//! | `marks`    | watermarks and lowmem reserves, from the documented formulas           |
//! | `places`   | the zones that a request may use, in order                             |
//! | `tally`    | expected NUMA counters                                                 |
//! | `world`    | runs steps on an allocator and the oracle at once                      |
//! | `verdict`  | predictions of the oracle, and checks that the memory agrees           |
//! | `abuse`    | frees that must be refused                                             |
//! | `extents`  | given ranges, and contiguous runs of any length                        |
//! | `hotplug`  | adding and removing memory                                             |
//! | `balloon`  | allocation of the largest blocks, and free page reporting              |
//!
//! Setups and steps consist of plain numbers, and every number is valid. So property tests can
//! shrink them, and a fuzzer can read them from bytes.

#![allow(dead_code, unreachable_pub, unused_imports, reason = "each test uses its part")]

pub mod abuse;
pub mod balloon;
pub mod extents;
pub mod hotplug;
pub mod machine;
pub mod marks;
pub mod oracle;
pub mod places;
pub mod setup;
pub mod steps;
pub mod tally;
pub mod topology;
pub mod verdict;
pub mod world;
pub mod zone;
