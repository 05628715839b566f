//! The protocol of client and server: a line each way.

/// The port on which a server listens: that of Emulab's.
pub(crate) const PORT: u16 = 16534;

/// See [`crate`].
pub(crate) const SERVER: &str = "DIORAMA_BARRIERS";

/// The longest name of a barrier.
pub(crate) const LONGEST_NAME: usize = 64;

/// Somebody has come to a barrier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    /// Which barrier.
    pub name: String,
    /// For how many others to wait, if this is who says so.
    pub others: Option<u32>,
    /// Its exit code to report: everybody is told the greatest of all.
    pub code: u8,
}

impl Arrival {
    /// As a line.
    pub fn line(&self) -> String {
        let others = self.others.map_or("-".to_owned(), |n| n.to_string());
        format!("{} {others} {}\n", self.name, self.code)
    }

    /// None if the line says nothing of the kind.
    pub fn read(line: &str) -> Option<Arrival> {
        let mut words = line.strip_suffix('\n')?.split(' ');
        let (name, others, code) = (words.next()?, words.next()?, words.next()?);
        let others = if others == "-" { None } else { Some(others.parse().ok()?) };
        let right = !name.is_empty() && name.len() <= LONGEST_NAME && words.next().is_none();
        right.then_some(Arrival { name: name.to_owned(), others, code: code.parse().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_are_read_as_written_and_nothing_else_is() {
        for others in [None, Some(0), Some(4_000_000_000)] {
            let arrival = Arrival { name: "start".into(), others, code: 7 };
            assert_eq!(Arrival::read(&arrival.line()), Some(arrival));
        }
        let long = format!("{} - 0\n", "x".repeat(65));
        for wrong in ["", "a - 0", "a - 256\n", "a 0\n", " - 0\n", "a - 0 0\n", "a -1 0\n", long.as_str()] {
            assert_eq!(Arrival::read(wrong), None, "{wrong:?}");
        }
    }
}
