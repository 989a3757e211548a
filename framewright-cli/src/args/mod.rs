//! Values and options that several commands take. Bad values are refused here, before any work.

pub(crate) mod machine;
pub(crate) mod run;
pub(crate) mod values;
