//! The two ends of a flow as command lines.

use crate::PROGRAM_PATH;
use crate::departures::{Pattern, Shape};

/// Transport of the packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Each packet is a datagram.
    Udp,
    /// The packets follow one another in a connection, which is made anew when it breaks.
    Tcp,
}

impl Transport {
    /// `udp` or `tcp`.
    pub fn name(self) -> &'static str {
        match self {
            Transport::Udp => "udp",
            Transport::Tcp => "tcp",
        }
    }
}

/// The end of a flow that sends.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    /// The name of the flow.
    pub flow: String,
    /// The host name of the node that receives.
    pub to: String,
    /// The port there.
    pub port: u16,
    /// Transport of the packets.
    pub over: Transport,
    /// Payload of a packet, in bytes.
    pub packet: u32,
    /// When packets leave.
    pub pattern: Pattern,
    /// Of all that is drawn.
    pub seed: u64,
}

/// The end of a flow that receives.
#[derive(Clone, Debug, PartialEq)]
pub struct Sink {
    /// The name of the flow.
    pub flow: String,
    /// The port on which it listens.
    pub port: u16,
    /// Transport of the packets.
    pub over: Transport,
}

/// Where the sending node writes down what it sent: rows of the start of a second (as a date), packets and bit/s.
pub fn sent_log(flow: &str) -> String {
    format!("/var/log/traffic/{flow}.sent")
}

/// Where the receiving node writes down what arrived: rows of the start of a second, packets, bit/s, and the share of
/// packets, in percent, that did not arrive.
pub fn received_log(flow: &str) -> String {
    format!("/var/log/traffic/{flow}.received")
}

/// Where it writes down how long packets took: rows of the start of a second, and the mean and the greatest of them in
/// ms.
pub fn delays_log(flow: &str) -> String {
    format!("/var/log/traffic/{flow}.delays")
}

impl Source {
    /// The program and its arguments, as a node runs it.
    pub fn argv(&self) -> Vec<String> {
        let mut words = vec![PROGRAM_PATH.to_owned(), "source".to_owned()];
        let mut say = |name: &str, value: String| words.extend([name.to_owned(), value]);
        say("to", self.to.clone());
        say("port", self.port.to_string());
        say("over", self.over.name().to_owned());
        say("packet", self.packet.to_string());
        let shape = match self.pattern.shape {
            Shape::Constant { noise: false, .. } => "constant",
            Shape::Constant { noise: true, .. } => "noise",
            Shape::Poisson { .. } => "poisson",
            Shape::Bursts { .. } => "bursts",
            Shape::Greedy => "greedy",
        };
        say("shape", shape.to_owned());
        match self.pattern.shape {
            Shape::Constant { interval, .. } | Shape::Poisson { interval } => say("interval", interval.to_string()),
            Shape::Bursts { interval, on, off, pareto } => {
                say("interval", interval.to_string());
                say("on", on.to_string());
                say("off", off.to_string());
                if let Some(shape) = pareto {
                    say("pareto", shape.to_string());
                }
            }
            Shape::Greedy => {}
        }
        if let Some(packets) = self.pattern.packets {
            say("packets", packets.to_string());
        }
        say("seed", self.seed.to_string());
        say("log", sent_log(&self.flow));
        words
    }
}

impl Sink {
    /// The program and its arguments, as a node runs it.
    pub fn argv(&self) -> Vec<String> {
        let words = [
            PROGRAM_PATH,
            "sink",
            "port",
            &self.port.to_string(),
            "over",
            self.over.name(),
            "log",
            &received_log(&self.flow),
            "delays",
            &delays_log(&self.flow),
        ];
        words.map(str::to_owned).to_vec()
    }
}
