//! Where a figure comes from.

/// How sure one may be of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// Somebody measured it; the note says where.
    Measured,
    /// Chosen so that a result comes out as measured; the note says which. A result that a figure
    /// was fitted to says nothing about the model.
    Fitted,
    /// Neither: recalled, or plausible.
    Guessed,
}

impl Basis {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Measured, Self::Fitted, Self::Guessed];

    /// The word that stands for it in a file.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Fitted => "fitted",
            Self::Guessed => "guessed",
        }
    }

    /// What the word stands for.
    #[must_use]
    pub fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|basis| basis.word() == word)
    }

    /// Whether a note has to say where, or to what.
    #[must_use]
    pub const fn wants_note(self) -> bool {
        !matches!(self, Self::Guessed)
    }
}

/// A basis, and what there is to say about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provenance {
    /// How the figure came about.
    pub basis: Basis,
    /// Where, to what, or why; empty for a guess without a reason.
    pub note: String,
}
