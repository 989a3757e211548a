//! The sources of figures.

/// The reliability of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// Measured; the note names the source.
    Measured,
    /// Chosen so that a published result is reproduced; the note names the result. That result does
    /// not validate the model.
    Fitted,
    /// An estimate, recalled or plausible. Its note is optional.
    Estimated,
}

impl Basis {
    /// All variants.
    pub const ALL: [Self; 3] = [Self::Measured, Self::Fitted, Self::Estimated];

    /// The name of the basis in a file.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Fitted => "fitted",
            Self::Estimated => "estimated",
        }
    }

    /// The basis with this name.
    #[must_use]
    pub fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|basis| basis.word() == word)
    }

    /// Whether a note is required that names the source.
    #[must_use]
    pub const fn wants_note(self) -> bool {
        !matches!(self, Self::Estimated)
    }
}

/// A basis with its note.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provenance {
    /// The reliability of the figure.
    pub basis: Basis,
    /// The source, the result or the reason; may be empty for an estimate.
    pub note: String,
}
