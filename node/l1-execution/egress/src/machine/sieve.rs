//! Takes secrets out of a stream, wherever its chunks end.

/// What stands in place of each byte of a secret.
const MASK: u8 = b'*';

/// A stream in which each occurrence of some values is replaced by as many asterisks, so that its length stays. Of what
/// came, as much is held back as could be the beginning of a value, and no more: what is no beginning passes at once.
#[derive(Clone)]
pub struct Sieve {
    values: Vec<Vec<u8>>,
    /// What came and may be the beginning of a value.
    held: Vec<u8>,
    /// The same, with asterisks where it belongs to an occurrence already.
    masked: Vec<u8>,
}

impl Sieve {
    /// With the values; empty ones are left out.
    #[must_use]
    pub fn new<'a>(values: impl IntoIterator<Item = &'a [u8]>) -> Sieve {
        let values = values.into_iter().filter(|value| !value.is_empty()).map(<[u8]>::to_vec).collect();
        Sieve { values, held: Vec::new(), masked: Vec::new() }
    }

    /// Takes a chunk, and gives what may pass by now.
    pub fn push(&mut self, chunk: &[u8]) -> Vec<u8> {
        self.held.extend_from_slice(chunk);
        self.masked.extend_from_slice(chunk);
        for value in &self.values {
            for (at, window) in self.held.windows(value.len()).enumerate() {
                if window == value.as_slice() {
                    self.masked[at..at + value.len()].fill(MASK);
                }
            }
        }
        let kept = self.values.iter().map(|value| begun(&self.held, value)).max().unwrap_or(0);
        let passes = self.held.len() - kept;
        self.held.drain(..passes);
        self.masked.drain(..passes).collect()
    }

    /// Gives what was held back, once nothing more comes.
    pub fn finish(&mut self) -> Vec<u8> {
        self.held.clear();
        std::mem::take(&mut self.masked)
    }
}

impl std::fmt::Debug for Sieve {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sieve").finish_non_exhaustive()
    }
}

/// How many bytes at the end of a text are the beginning of a value, without being all of it.
fn begun(text: &[u8], value: &[u8]) -> usize {
    let most = text.len().min(value.len() - 1);
    (1..=most).rev().find(|length| text.ends_with(&value[..*length])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sieved(values: &[&[u8]], chunks: &[&[u8]]) -> Vec<u8> {
        let mut sieve = Sieve::new(values.iter().copied());
        let mut all: Vec<u8> = chunks.iter().flat_map(|chunk| sieve.push(chunk)).collect();
        all.extend(sieve.finish());
        all
    }

    /// The same, at once and without cleverness.
    fn plain(values: &[&[u8]], text: &[u8]) -> Vec<u8> {
        let mut masked = text.to_vec();
        for at in 0..text.len() {
            for value in values.iter().filter(|value| !value.is_empty() && text[at..].starts_with(value)) {
                masked[at..at + value.len()].fill(MASK);
            }
        }
        masked
    }

    #[test]
    fn a_secret_is_masked_wherever_the_stream_is_cut() {
        let (text, masked) = (b"data: sk-12345, sk-1234, sk-sk-12345\n\n", b"data: ********, sk-1234, sk-********\n\n");
        for at in 0..=text.len() {
            let (first, second) = text.split_at(at);
            assert_eq!(sieved(&[b"sk-12345"], &[first, second]), masked, "cut at {at}");
        }
        let each: Vec<&[u8]> = text.chunks(1).collect();
        assert_eq!(sieved(&[b"sk-12345"], &each), masked);
        assert_eq!(sieved(&[b"abab"], &[b"xaba", b"babx"]), b"x******x", "occurrences that overlap");
        assert_eq!(sieved(&[b"", b"secret"], &[b"se", b"cre"]), b"secre", "what never becomes a secret");
        assert_eq!(sieved(&[], &[b"any", b"thing"]), b"anything");
    }

    #[test]
    fn what_cannot_be_the_beginning_of_a_secret_is_not_held_back() {
        let mut sieve = Sieve::new([&b"sk-12345"[..]]);
        assert_eq!(sieve.push(b"data: one\n\n"), b"data: one\n\n");
        assert_eq!(sieve.push(b"data: sk-1"), b"data: ");
        assert_eq!(sieve.push(b"x\n\n"), b"sk-1x\n\n");
        assert_eq!(sieve.finish(), b"");
        assert!(!format!("{:?}", Sieve::new([&b"hush"[..]])).contains("hush"));
    }

    proptest! {
        #[test]
        fn chunks_make_no_difference(
            values in proptest::collection::vec("[ab]{0,5}", 0..4),
            chunks in proptest::collection::vec("[abc]{0,9}", 0..9),
        ) {
            let values: Vec<&[u8]> = values.iter().map(String::as_bytes).collect();
            let whole = chunks.concat();
            let chunks: Vec<&[u8]> = chunks.iter().map(String::as_bytes).collect();
            prop_assert_eq!(sieved(&values, &chunks), plain(&values, whole.as_bytes()));
        }

        #[test]
        fn no_secret_passes_and_no_more_is_held_than_a_secret_has(
            secret in proptest::collection::vec(any::<u8>(), 1..24),
            around in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 2..5),
            cuts in proptest::collection::vec(1usize..9, 1..20),
        ) {
            let text = around.join(&secret[..]);
            let mut sieve = Sieve::new([&secret[..]]);
            let (mut rest, mut passed, mut cuts) = (&text[..], Vec::new(), cuts.iter().cycle());
            while !rest.is_empty() {
                let cut = (*cuts.next().expect("it goes round")).min(rest.len());
                passed.extend(sieve.push(&rest[..cut]));
                rest = &rest[cut..];
                prop_assert!(text.len() - rest.len() - passed.len() < secret.len());
            }
            passed.extend(sieve.finish());
            prop_assert_eq!(passed.len(), text.len());
            let is_masked = secret.iter().all(|byte| *byte == MASK);
            prop_assert!(is_masked || !passed.windows(secret.len()).any(|window| window == &secret[..]));
        }
    }
}
