//! Weights of key text that the stream needs: what is known, and what has to be asked.
//!
//! Only the server knows the order of text in most collations. A change of a table that is still being read is judged by its
//! key's weight, so its event waits, unjudged, until the server has answered ([`super::weigher`]). Pure.

use rustc_hash::FxHashMap;

use crate::key::WeighedPart;

/// Bytes that an entry takes beside its text and weight.
const ENTRY_OVERHEAD: usize = 96;

/// A text whose weight is wanted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Question {
    pub(super) part: WeighedPart,
    pub(super) text: Box<[u8]>,
}

type Generation = FxHashMap<u16, FxHashMap<Box<[u8]>, Box<[u8]>>>;

/// What was answered lately, in two generations: when the newer one has used its half of the memory, the older one is
/// forgotten. That happens only between events, so that what an event waits for is never forgotten before it is used.
#[derive(Debug)]
pub(super) struct Weights {
    newer: Generation,
    newer_bytes: usize,
    older: Generation,
    half: usize,
    /// Questions of the event that waits, and of what comes behind it; empty when nothing waits.
    wanted: Vec<Question>,
}

impl Weights {
    pub(super) fn new(memory: usize) -> Self {
        Self {
            newer: Generation::default(),
            newer_bytes: 0,
            older: Generation::default(),
            half: memory / 2,
            wanted: Vec::new(),
        }
    }

    /// A known weight.
    pub(super) fn get(&self, part: WeighedPart, text: &[u8]) -> Option<&[u8]> {
        self.newer.get(&part.collation)?.get(text).map(|weight| &**weight)
    }

    /// Before the keys of an event are looked up.
    pub(super) fn begin(&mut self) {
        if self.newer_bytes > self.half {
            self.older = core::mem::take(&mut self.newer);
            self.newer_bytes = 0;
        }
    }

    /// Makes sure that [`Weights::get`] will know this text, now or after an answer. Whether it is known now.
    pub(super) fn want(&mut self, part: WeighedPart, text: &[u8]) -> bool {
        if self.get(part, text).is_some() {
            return true;
        }
        if let Some((text, weight)) = self.older.get_mut(&part.collation).and_then(|texts| texts.remove_entry(text)) {
            self.insert(part.collation, text, weight);
            return true;
        }
        self.wanted.push(Question { part, text: text.into() });
        false
    }

    fn insert(&mut self, collation: u16, text: Box<[u8]>, weight: Box<[u8]>) {
        let bytes = text.len().saturating_add(weight.len()).saturating_add(ENTRY_OVERHEAD);
        self.newer_bytes = self.newer_bytes.saturating_add(bytes);
        self.newer.entry(collation).or_default().insert(text, weight);
    }

    /// Whether an event waits for answers.
    pub(super) const fn is_waiting(&self) -> bool {
        !self.wanted.is_empty()
    }

    /// What is wanted, each once.
    pub(super) fn questions(&self) -> Vec<Question> {
        let mut seen = rustc_hash::FxHashSet::default();
        self.wanted.iter().filter(|q| seen.insert((q.part.collation, &q.text))).cloned().collect()
    }

    /// How many are wanted.
    pub(super) const fn wanted(&self) -> usize {
        self.wanted.len()
    }

    /// The answers to [`Weights::questions`]: nothing waits any more.
    pub(super) fn answered(&mut self, answers: Vec<(Question, Box<[u8]>)>) {
        self.wanted.clear();
        for (question, weight) in answers {
            self.insert(question.part.collation, question.text, weight);
        }
    }

    /// Nothing waits any more: the connection was lost, and what waited comes again.
    pub(super) fn forget_wanted(&mut self) {
        self.wanted.clear();
    }
}

#[cfg(test)]
mod tests {
    use millstream_binlog::Charset;

    use super::*;

    const PART: WeighedPart = WeighedPart { ordinal: 0, collation: 255, charset: Charset::Utf8mb4 };

    fn answer(weights: &mut Weights) -> usize {
        let questions = weights.questions();
        let n = questions.len();
        weights.answered(questions.into_iter().map(|q| (q.clone(), q.text)).collect());
        n
    }

    #[test]
    fn each_text_is_asked_once_and_by_its_collation() {
        let mut weights = Weights::new(10_000);
        let other = WeighedPart { collation: 8, ..PART };
        assert!(!weights.want(PART, b"a") && !weights.want(PART, b"a") && !weights.want(other, b"a"));
        assert!(weights.is_waiting());
        assert_eq!(answer(&mut weights), 2);
        assert!(!weights.is_waiting() && weights.want(PART, b"a") && weights.get(other, b"a").is_some());
        assert!(!weights.want(PART, b""));
        weights.forget_wanted();
        assert!(!weights.is_waiting());
    }

    #[test]
    fn memory_is_bounded_and_what_an_event_waits_for_stays() {
        let mut weights = Weights::new(4_000);
        for event in 0..200_u32 {
            weights.begin();
            // An event with more keys than fit, and one that comes again and again.
            let texts: Vec<[u8; 4]> = (0..40).map(|n| (event * 40 + n).to_be_bytes()).collect();
            weights.want(PART, b"again");
            for text in &texts {
                assert!(!weights.want(PART, text));
            }
            let asked = answer(&mut weights);
            assert!(
                texts.iter().all(|text| weights.get(PART, text).is_some()) && weights.get(PART, b"again").is_some()
            );
            assert_eq!(asked, if event == 0 { 41 } else { 40 });
            assert!(weights.newer_bytes < 2_000 + 41 * 110);
        }
    }
}
