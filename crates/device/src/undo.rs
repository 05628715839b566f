//! Data in the file behind a disk that would not survive a power cut: what was there before, until it would.
//!
//! Data is written to the file at once, whatever its model says. For a disk whose power may be cut, what a write takes
//! the place of is kept until the write is durable; a power cut puts it back. Pure: nothing is read or written here.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use disk::{Lost, Span};

use crate::queue::RequestId;

/// The writes of a disk that are not durable, and those between them.
#[derive(Debug, Default)]
pub struct Undo {
    writes: BTreeMap<RequestId, Written>,
    /// Those that are not durable.
    pending: BTreeSet<RequestId>,
}

#[derive(Debug)]
struct Written {
    span: Span,
    /// Data that was there before; nothing yet, or nothing that is needed any more.
    before: Vec<u8>,
    durable: bool,
}

impl Undo {
    /// Takes a write, or something else that changes what is there. Calls come in the order of the requests.
    pub fn begin(&mut self, id: RequestId, span: Span) {
        self.writes.insert(id, Written { span, before: Vec::new(), durable: false });
        self.pending.insert(id);
    }

    /// Data that was there before a write.
    pub fn before(&mut self, id: RequestId, before: Vec<u8>) {
        if let Some(write) = self.writes.get_mut(&id).filter(|write| !write.durable) {
            write.before = before;
        }
    }

    /// From now on a write survives. Nothing happens if it is not one.
    pub fn durable(&mut self, id: RequestId) {
        self.pending.remove(&id);
        if let Some(write) = self.writes.get_mut(&id) {
            (write.durable, write.before) = (true, Vec::new());
        }
        // One that is durable says only what of earlier ones it has written over.
        let first = self.pending.first().copied();
        while let Some(entry) = self.writes.first_entry().filter(|entry| first.is_none_or(|first| *entry.key() < first))
        {
            entry.remove();
        }
    }

    /// Data to be written to the file after a power cut, in this order: offsets, and what lies there. `lost` is what
    /// the disk says. Nothing is kept any more.
    pub fn cut(&mut self, lost: &[Lost]) -> Vec<(u64, Vec<u8>)> {
        let lost: HashMap<_, _> = lost.iter().map(|lost| (lost.id, lost)).collect();
        self.pending.clear();
        let mut back = Vec::new();
        // From the last to the first, so that each finds what was there when it came. Where a later one has survived,
        // there is nothing to put back.
        let mut survived: Vec<Span> = Vec::new();
        for (id, write) in std::mem::take(&mut self.writes).into_iter().rev() {
            let Some(lost) = lost.get(&id).filter(|_| !write.durable) else {
                survived.push(write.span);
                continue;
            };
            survived.extend(lost.kept.iter().filter_map(|kept| kept.common(&write.span)));
            for part in without(write.span, &survived) {
                let [begin, end] = [part.begin, part.end].map(|at| (at - write.span.begin) as usize);
                if let Some(before) = write.before.get(begin..end) {
                    back.push((part.begin, before.to_vec()));
                }
            }
        }
        back
    }
}

/// The parts of a range that are in none of others.
fn without(all: Span, others: &[Span]) -> Vec<Span> {
    let mut cut: Vec<Span> = others.iter().filter_map(|other| other.common(&all)).collect();
    cut.sort_unstable();
    let (mut rest, mut at) = (Vec::new(), all.begin);
    for span in cut {
        if span.begin > at {
            rest.push(Span { begin: at, end: span.begin });
        }
        at = at.max(span.end);
    }
    if at < all.end {
        rest.push(Span { begin: at, end: all.end });
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of 8 bytes, and what is written to it.
    struct Model {
        file: [u8; 8],
        undo: Undo,
    }

    impl Model {
        fn write(&mut self, id: u64, begin: u64, end: u64, byte: u8) {
            let span = Span { begin, end };
            self.undo.begin(id, span);
            let range = begin as usize..end as usize;
            self.undo.before(id, self.file[range.clone()].to_vec());
            self.file[range].fill(byte);
        }

        fn cut(&mut self, lost: &[(u64, &[(u64, u64)])]) -> [u8; 8] {
            let kept =
                |kept: &[(u64, u64)]| kept.iter().map(|(begin, end)| Span { begin: *begin, end: *end }).collect();
            let lost: Vec<_> =
                lost.iter().map(|(id, parts)| Lost { id: *id, completed: true, kept: kept(parts) }).collect();
            for (at, bytes) in self.undo.cut(&lost) {
                self.file[at as usize..at as usize + bytes.len()].copy_from_slice(&bytes);
            }
            assert!(self.undo.writes.is_empty() && self.undo.pending.is_empty());
            self.file
        }
    }

    fn model() -> Model {
        Model { file: *b"........", undo: Undo::default() }
    }

    #[test]
    fn what_is_lost_is_as_it_was() {
        let mut model = model();
        model.write(1, 0, 8, b'a');
        model.write(2, 2, 6, b'b');
        model.undo.durable(1);
        assert_eq!(&model.cut(&[(2, &[])]), b"aaaaaaaa");
    }

    #[test]
    fn several_writes_of_a_place_are_taken_back_in_their_order() {
        let mut model = model();
        for (id, byte) in [(1, b'a'), (2, b'b'), (3, b'c')] {
            model.write(id, 0, 4, byte);
        }
        assert_eq!(&model.cut(&[(1, &[]), (2, &[]), (3, &[])]), b"........");
        model.write(4, 0, 4, b'd');
        model.write(5, 0, 4, b'e');
        assert_eq!(&model.cut(&[(4, &[(0, 4)]), (5, &[])]), b"dddd....");
    }

    #[test]
    fn what_a_later_write_has_made_durable_stays() {
        let mut model = model();
        model.write(1, 0, 4, b'a');
        model.write(2, 2, 6, b'b');
        model.write(3, 5, 8, b'c');
        model.undo.durable(2);
        assert_eq!(&model.cut(&[(1, &[]), (3, &[])]), b"..bbbb..");
    }

    #[test]
    fn a_torn_write_is_there_in_part() {
        let mut model = model();
        model.write(1, 0, 8, b'a');
        model.write(2, 0, 8, b'b');
        assert_eq!(&model.cut(&[(1, &[(0, 2)]), (2, &[(6, 8)])]), b"aa....bb");
    }

    #[test]
    fn what_is_durable_is_not_kept() {
        let mut model = model();
        for id in 1..=4 {
            model.write(id, 0, 8, b'a' + id as u8);
        }
        model.undo.durable(2);
        model.undo.durable(4);
        assert_eq!(model.undo.writes.len(), 4, "the first may still be lost");
        model.undo.durable(1);
        assert_eq!(model.undo.writes.keys().copied().collect::<Vec<_>>(), [3, 4]);
        model.undo.durable(3);
        assert!(model.undo.writes.is_empty() && model.undo.cut(&[]).is_empty());
    }
}
