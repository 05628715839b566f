//! Keys from the bytes of a terminal.
//!
//! Crossterm has a reader, too, but of a key that arrives together with a change of size it hears only with the next
//! one, it waits without end in the middle of a sequence, and it spins when the terminal is gone.

/// A wish of who sits at the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    Leave,
    Up,
    Down,
    PageUp,
    PageDown,
    First,
    Last,
    Next,
    Previous,
}

/// Reads keys out of what arrives, in whatever pieces.
#[derive(Debug, Default)]
pub struct Keys(State);

#[derive(Debug, Default)]
enum State {
    #[default]
    Between,
    /// After Esc, which is a key of its own if nothing follows.
    Escape,
    /// After `ESC O`.
    Single,
    /// After `ESC [`: its first parameter, as long as there is only one.
    Control { first: u32, is_first: bool },
}

impl Keys {
    /// Takes in a byte; the key that it completes.
    pub fn byte(&mut self, byte: u8) -> Option<Key> {
        let (next, key) = match (std::mem::take(&mut self.0), byte) {
            (State::Escape, 0x1b) => (State::Escape, Some(Key::Leave)),
            (_, 0x1b) => (State::Escape, None),
            (State::Between, byte) => (State::Between, typed(byte)),
            (State::Escape, b'[') => (State::Control { first: 0, is_first: true }, None),
            (State::Escape, b'O') => (State::Single, None),
            // A key with Alt.
            (State::Escape, _) => (State::Between, None),
            (State::Single, byte) => (State::Between, named(byte, 0)),
            (State::Control { first, is_first: true }, b'0'..=b'9') => (
                State::Control {
                    first: first.saturating_mul(10).saturating_add(u32::from(byte - b'0')),
                    is_first: true,
                },
                None,
            ),
            (State::Control { first, .. }, 0x20..=0x3f) => (State::Control { first, is_first: false }, None),
            (State::Control { first, .. }, byte) => (State::Between, named(byte, first)),
        };
        self.0 = next;
        key
    }

    /// Nothing has followed for a while: Esc was meant as such, and what else was begun is none.
    pub fn pause(&mut self) -> Option<Key> {
        matches!(std::mem::take(&mut self.0), State::Escape).then_some(Key::Leave)
    }
}

fn typed(byte: u8) -> Option<Key> {
    match byte {
        // Ctrl-C.
        b'q' | 0x03 => Some(Key::Leave),
        b'k' => Some(Key::Up),
        b'j' => Some(Key::Down),
        b' ' => Some(Key::PageDown),
        b'g' => Some(Key::First),
        b'G' => Some(Key::Last),
        b'\t' => Some(Key::Next),
        _ => None,
    }
}

/// The key of a sequence that ends so, with that first parameter.
fn named(last: u8, first: u32) -> Option<Key> {
    match (last, first) {
        (b'A', _) => Some(Key::Up),
        (b'B', _) => Some(Key::Down),
        (b'C', _) => Some(Key::Next),
        (b'D' | b'Z', _) => Some(Key::Previous),
        (b'H', _) | (b'~', 1 | 7) => Some(Key::First),
        (b'F', _) | (b'~', 4 | 8) => Some(Key::Last),
        (b'~', 5) => Some(Key::PageUp),
        (b'~', 6) => Some(Key::PageDown),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(bytes: &[u8]) -> Vec<Key> {
        let mut keys = Keys::default();
        bytes.iter().filter_map(|byte| keys.byte(*byte)).collect()
    }

    #[test]
    fn letters_and_sequences_are_keys_whatever_is_between_them() {
        use Key::*;
        assert_eq!(keys(b"\t\tkkjq"), [Next, Next, Up, Up, Down, Leave]);
        assert_eq!(keys(b"\x1b[A\x1bOB\x1b[C\x1b[D\x1b[Z\x1b[1;5A"), [Up, Down, Next, Previous, Previous, Up]);
        assert_eq!(
            keys(b"\x1b[5~\x1b[6~ \x1b[H\x1b[F\x1b[1~\x1b[4~gG"),
            [PageUp, PageDown, PageDown, First, Last, First, Last, First, Last]
        );
        // Alt, function keys, a mouse, other letters, and what is broken.
        assert_eq!(keys(b"\x1bq\x1b[15~\x1b[?1;2c\x1b[<0;3;4Mxy\xc3\xa9\x1b[99999999999999999999~"), []);
        assert_eq!(keys(b"\x1b[\x1b[B\x1b[1\x03q"), [Down, Leave]);
    }

    #[test]
    fn escape_is_a_key_when_nothing_follows() {
        let mut keys = Keys::default();
        assert_eq!((keys.byte(0x1b), keys.pause(), keys.pause()), (None, Some(Key::Leave), None));
        assert_eq!(
            (keys.byte(0x1b), keys.byte(b'['), keys.pause(), keys.byte(b'j')),
            (None, None, None, Some(Key::Down))
        );
        assert_eq!((keys.byte(0x1b), keys.byte(0x1b)), (None, Some(Key::Leave)));
    }
}
