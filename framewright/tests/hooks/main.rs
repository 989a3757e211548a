//! The simulation hooks. Their tests are one program, because each program compiles the library again for its platform.

mod holds;
mod panics;
mod reports;
