//! Operations of a memory. They are one program, because each program compiles the library again for its platform. Tests
//! that need a process of their own, or a platform of their own, are programs of their own.
//!
//! | module         | job                                                                           |
//! |----------------|-------------------------------------------------------------------------------|
//! | `abuse`        | bad raw frees, which `checked` must refuse                                    |
//! | `bypass`       | allocation without a CPU token, as in interrupt handlers                      |
//! | `callbacks`    | a platform calls the memory from its trace hook                               |
//! | `depot`        | blocks that one CPU freed and another one allocates                           |
//! | `high_order`   | orders 1 to 4 on the hot path                                                 |
//! | `hotplug`      | memory hotplug, balloons, free page reporting                                 |
//! | `in_use`       | memory in use from the start, and frees by frame number                       |
//! | `isolated`     | isolation between two holds of the zone lock                                  |
//! | `memory_map`   | exactly the frames of the map can be allocated                                |
//! | `observation`  | tracing changes nothing                                                       |
//! | `paranoid`     | hardening `tracked` and `paranoid`                                            |
//! | `pieces`       | a memory map in pieces                                                        |
//! | `placement`    | huge pages survive random allocations and frees                               |
//! | `properties`   | random operations on random machines, against a naive oracle                  |
//! | `ranges`       | given ranges, and contiguous runs of any length                               |
//! | `raw_frees`    | frees by frame number without checks                                          |
//! | `scattered`    | frames that are freed far apart, and refills of them                          |
//! | `seeds`        | the first inputs of the fuzzer, and inputs of earlier failures                |
//! | `side_tables`  | optional side tables                                                          |
//! | `split_extent` | extents and blocks that are split into single frames                          |
//! | `text`         | the tables of an allocator, in the formats of Linux                           |
//! | `watermarks`   | watermarks and lowmem reserves                                                |

#![cfg(not(framewright_loom))]

mod abuse;
mod bypass;
mod callbacks;
mod depot;
mod high_order;
mod hotplug;
mod in_use;
mod isolated;
mod memory_map;
mod observation;
mod paranoid;
mod pieces;
mod placement;
mod properties;
mod ranges;
mod raw_frees;
mod scattered;
mod seeds;
mod side_tables;
mod split_extent;
#[path = "../support/mod.rs"]
mod support;
mod text;
mod trims;
mod watermarks;
