//! Processes: page tables, translation caches, frame contents.
//!
//! # Theory of operation
//!
//! A CPU that runs a program reaches a frame through a *translation*. It takes it from the page
//! tables of the program's address space, and caches it. The page tables may change; what is
//! cached stays until it is flushed, and flushing another CPU's cache takes an interrupt. Between
//! the two lies everything that a kernel can get wrong, and an allocator below it can suffer
//! from: a frame that is freed, written out, or copied while somebody can still store to it.
//!
//! Units of a machine ([`Mmu`]) come in two kinds. [`Mmu::checking`] simulates every access to
//! memory, of hardware and kernel alike, as a step of its own, so that schedules interleave them
//! in any way; translations stay as long as they possibly can; and the [`Oracle`] *sees* whatever
//! goes wrong. [`Mmu::measuring`] caches nothing and looks at nothing: page tables, faults,
//! interrupts and their costs remain, for many processes of real size.
//!
//! | module    | job                                                             |
//! |-----------|-----------------------------------------------------------------|
//! | `pte`     | page tables and their entries                                   |
//! | `tlb`     | what one CPU has cached                                         |
//! | `mmu`     | the units of all CPUs                                           |
//! | `space`   | an address space: single accesses to what is shared             |
//! | `access`  | loads and stores of programs; accessed and dirty bits           |
//! | `flush`   | flushing, here and elsewhere                                    |
//! | `shootdown` | the same for the library's flush batches                      |
//! | `switch`  | loading an address space; being lazy                            |
//! | `contents` | frames as the library copies them                              |
//! | `mover`   | moving pages for the library's compaction                       |
//! | `oracle`  | lives and contents of frames, last stores, what is wrong        |
//! | `life`    | a process: mapping, faults, unmapping, exit, in the right order |
//! | `frames`  | where frames come from                                          |
//! | `costs`   | what the processor and the kernel take                          |
//!
//! # Limits
//!
//! Pages are of 4 KiB, memory is anonymous, and only the last level of the page tables exists.
//! A flush forgets all of an address space, though it costs what a finer one would.

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
pub use life::{Process, Trouble};
pub use mmu::{Mmu, MmuStats, SpaceId};
pub use mover::{Mishap, PageMover};
pub use oracle::{Oracle, Symptom, Token};
pub use pte::{Mapping, Pte};
pub use shootdown::Shooter;
pub use space::AddressSpace;

#[cfg(test)]
mod tests;
