//! Values and options that several commands take. What is wrong with a value is found here, before any
//! work.

pub(crate) mod machine;
pub(crate) mod run;
pub(crate) mod values;
