//! Values with names, as a user chooses them.

use std::fmt;

/// One of a few values. It is displayed as its name on a command line.
pub trait Choice: Copy + fmt::Display + Send + Sync + 'static {
    /// Every value with its name and its meaning, in the order of help texts.
    const ALL: &'static [(Self, &'static str, &'static str)];
}

/// Defines an enumeration and its [`Choice`]. The meaning of a value is its documentation.
macro_rules! choice {
    (
        $(#[$about:meta])*
        pub enum $type:ident {
            $(#[doc = $meaning:literal] $(#[default $($default:tt)?])? $value:ident = $name:literal,)+
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
        pub enum $type {
            $(#[doc = $meaning] $(#[default $($default)?])? $value,)+
        }

        impl $type {
            /// Its name on the command line.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$value => $name,)+
                }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }

        impl $crate::choice::Choice for $type {
            const ALL: &'static [(Self, &'static str, &'static str)] =
                &[$((Self::$value, $name, $meaning),)+];
        }
    };
}

pub(crate) use choice;
