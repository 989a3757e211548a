//! Converts events to text by the kernel's own descriptions.
//!
//! `events/SUBSYSTEM/NAME/format` has the number of an event, the positions of its fields, and the
//! kernel's way to print them: a format string and C expressions over the fields. This module
//! therefore needs no knowledge of single events, and understands kernels that add or move a field.
//!
//! | module  | job                                             |
//! |---------|-------------------------------------------------|
//! | `field` | the fields: from the description, from bytes    |
//! | `parse` | words into expressions                          |
//! | `print` | the format string: values into text             |
//!
//! Addresses differ from the kernel's own text: only the kernel can compute the hash that it prints
//! for them. Here they are `(____ptrval____)`, as the kernel prints them before it can compute
//! hashes. The addresses of locks are hashed, because they tell the locks apart.

mod field;
mod parse;
mod print;

pub(super) use field::Field;
use print::Print;
pub(super) use print::printable;

/// The beginning of the names of events about locks.
const OF_LOCKS: &str = "contention_";

/// The description of an event.
#[derive(Debug)]
pub(super) struct Format {
    /// The kernel's number for it: the first two bytes of each such event.
    pub(super) id: u16,
    pub(super) name: String,
    fields: Vec<Field>,
    /// Its print format; `None` if that is not supported.
    print: Option<Print>,
}

impl Format {
    /// Reads a `format` file.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
        let fields: Vec<Field> = text.lines().filter_map(Field::parse).collect();
        let print = value("print fmt:").and_then(|print| Print::parse(print, &fields));
        let name = value("name:")?.to_owned();
        let print = match name.starts_with(OF_LOCKS) {
            true => print.map(Print::hashing),
            false => print,
        };
        Some(Self { id: value("ID:")?.parse().ok()?, name, fields, print })
    }

    /// The field called `name`.
    pub(super) fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// Appends the kernel's text for `event`, or, if its print format is not supported, the fields
    /// as `name=value`.
    pub(super) fn print(&self, event: &[u8], out: &mut Vec<u8>) {
        match &self.print {
            Some(print) => print.print(event, out),
            None => self.list_fields(event, out),
        }
    }

    /// Whether it is printed as by the kernel.
    #[cfg(test)]
    pub(super) fn is_understood(&self) -> bool {
        self.print.is_some()
    }

    fn list_fields(&self, event: &[u8], out: &mut Vec<u8>) {
        let own = self.fields.iter().filter(|field| !field.name.starts_with("common_"));
        for (index, field) in own.enumerate() {
            if index > 0 {
                out.push(b' ');
            }
            out.extend_from_slice(field.name.as_bytes());
            out.push(b'=');
            field.list(event, out);
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
