//! CPUs that work at the same time, on one platform. They are one program, because each program compiles the library
//! again for its platform. Miri and the thread sanitizer run it.

mod cpus;
mod owners;
mod reclaim;
