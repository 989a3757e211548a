//! Simulated machines of 1 to 512 CPUs that run Framewright, deterministically.

pub mod machine;
