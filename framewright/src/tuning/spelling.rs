//! Finding the word that was probably meant by a misspelt one.

/// The word of `words` that is nearest to `text` by edit distance.
pub(super) fn nearest(
    text: &str,
    words: impl Iterator<Item = &'static str>,
) -> Option<&'static str> {
    words.min_by_key(|word| distance(text.as_bytes(), word.as_bytes()))
}

/// The nearest word, if it was probably meant: at most one letter in three differs.
pub(super) fn near(text: &str, words: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    let is_near = |word: &&str| {
        let edits = distance(text.as_bytes(), word.as_bytes());
        3 * edits <= text.len().max(word.len()).min(LONGEST)
    };
    nearest(text, words).filter(is_near)
}

/// Number of bytes of a word that are compared; the rest of a longer word is ignored.
const LONGEST: usize = 63;

/// Edit distance (Levenshtein), one row at a time.
fn distance(a: &[u8], b: &[u8]) -> usize {
    let (a, b) = (&a[..a.len().min(LONGEST)], &b[..b.len().min(LONGEST)]);
    let mut row: [usize; LONGEST + 1] = core::array::from_fn(|i| i);
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_similar_words_are_near() {
        let near = |text| near(text, ["pcp.batch", "tlb.batching", "hardening"].into_iter());
        assert_eq!(near("pcp.bach"), Some("pcp.batch"));
        assert_eq!(near("hardenning"), Some("hardening"));
        for text in ["", "*", "nosuch", "pcp.high", "x.batching.of.all.kinds"] {
            assert_eq!(near(text), None, "{text}");
        }
    }
}
