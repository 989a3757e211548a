//! What the integration tests and the fuzzer share.
//!
//! | module     | job                                                                    |
//! |------------|------------------------------------------------------------------------|
//! | `machine`  | the machine and what belongs to it                                     |
//! | `topology` | nodes, CPUs and zones, from plain numbers                              |
//! | `setup`    | a topology with settings, from plain numbers                           |
//! | `steps`    | operations, from plain numbers                                         |
//! | `zone`     | the truth about every frame of a zone, kept naively                    |
//! | `oracle`   | the truth about all zones                                              |
//! | `marks`    | what zones keep back, by the published formulas                        |
//! | `places`   | which zones a request may use, in which order                          |
//! | `tally`    | where requests were served and where they should have been             |
//! | `world`    | runs steps on a memory and the oracle at once                          |
//! | `verdict`  | whether the two agree                                                  |
//! | `abuse`    | frees that must be refused                                             |
//! | `extents`  | given ranges, and contiguous runs of any length                        |
//! | `hotplug`  | memory that comes and goes                                             |
//! | `balloon`  | the largest blocks first, and reports of what is free                  |
//!
//! Setups and steps are plain numbers so that a property test can shrink them and a fuzzer can
//! read them from bytes: every number means something, none is refused.

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
