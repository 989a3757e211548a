//! Hooks and traces that panic. Their tests are one program, because each program compiles the library again for its
//! platform.

mod platform;
mod reclaim;
