//! Processes: page tables, TLBs, contents of frames.
//!
//! # Theory of operation
//!
//! A CPU that runs a program accesses a frame through a *translation*, which it reads from the page
//! tables of the program's address space and caches in its TLB. When the page tables change, a
//! cached translation stays until it is flushed, and flushing the TLB of another CPU takes an
//! interrupt. A kernel that makes a mistake before the flush damages data: it frees, writes out or
//! copies a frame while a CPU can still store to it.
//!
//! There are two kinds of memory-management units ([`Mmu`]). [`Mmu::checking`] simulates every
//! memory access of hardware and kernel as a separate step, so that schedules interleave them in
//! any order. Translations stay cached until they are flushed, and the [`Oracle`] checks every
//! access. [`Mmu::measuring`] caches nothing and checks nothing: it simulates page tables, faults
//! and interrupts with their costs, for many processes of realistic size.
//!
//! | module    | job                                                             |
//! |-----------|-----------------------------------------------------------------|
//! | `pte`     | page tables and their entries                                   |
//! | `tlb`     | the cached translations of one CPU                              |
//! | `mmu`     | the memory-management units of all CPUs                         |
//! | `space`   | an address space: single accesses to shared state               |
//! | `access`  | loads and stores of programs; accessed and dirty bits           |
//! | `flush`   | flushes, on this CPU and on others                              |
//! | `shootdown` | flushes for the library's flush batches                       |
//! | `switch`  | loading an address space; lazy TLB mode                         |
//! | `contents` | contents of frames, copied with the library's copies           |
//! | `mover`   | migrating pages for the library's compaction                    |
//! | `oracle`  | generations and contents of frames, last stores, symptoms       |
//! | `life`    | a process: mapping, faults, unmapping, exit, in the right order |
//! | `frames`  | the source of frames                                            |
//! | `costs`   | costs of the processor and the kernel                           |
//!
//! # Limits
//!
//! Pages have 4 KiB, memory is anonymous, and only the last level of the page tables exists. A flush
//! of some pages by [`AddressSpace::flush`] removes all translations of the address space, but costs
//! as much as a flush of these pages alone.

mod access;
mod contents;
mod costs;
mod flush;
mod frames;
mod life;
mod mmu;
mod mover;
mod oracle;
mod pte;
mod shootdown;
mod space;
mod switch;
mod tlb;

pub use access::{Access, Fault};
pub use contents::Contents;
pub use costs::Costs;
pub use frames::{FrameSource, HeldFrames, Purpose, TokenFrames};
pub use life::{AccessError, Process};
pub use mmu::{Mmu, MmuStats, SpaceId};
pub use mover::{PageMover, SeededFailure};
pub use oracle::{Oracle, Symptom, Token};
pub use pte::{Mapping, Pte};
pub use shootdown::Shooter;
pub use space::AddressSpace;

#[cfg(test)]
mod tests;
