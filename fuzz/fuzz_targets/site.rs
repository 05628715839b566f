//! Any bytes are messages of the other end of a connection, in both directions, or refused. What begins with `#` is
//! text: values in JSON, one after the other, that become messages in CBOR.
#![no_main]

use std::io::Cursor;

use crossbeam_channel::{Receiver, unbounded};
use libfuzzer_sys::fuzz_target;
use serde_json::{Deserializer, Value};
use site::wire::{RemoteSite, VERSION, serve};
use site::{
    ClockChange, Closing, Collected, Command, CommandId, Conditions, Error, Event, HardwareChange, NodeIndex,
    ProgramChange, Result, Sample, Setup, Site, SpeedSeen, Start, Stop, Suspended, Visits, Written, Zero,
};

fuzz_target!(|bytes: &[u8]| {
    let mut messages = format!("diorama-site {VERSION} fuzz\n").into_bytes();
    match bytes.strip_prefix(b"#") {
        Some(text) => {
            for mut value in Deserializer::from_slice(text).into_iter::<Value>().map_while(|value| value.ok()) {
                // Answers are CBOR in CBOR.
                if let Some(answer) = value.get_mut("Answer").and_then(|result| result.get_mut("Ok")) {
                    let mut bytes = Vec::new();
                    ciborium::into_writer(answer, &mut bytes).expect("it is in memory");
                    *answer = bytes.into();
                }
                ciborium::into_writer(&value, &mut messages).expect("it is in memory");
            }
        }
        None => messages.extend(bytes),
    }
    drop(serve(&mut Nothing, Cursor::new(messages.clone()), std::io::sink(), "fuzz").map_err(|e| e.to_string()));
    if let Ok(mut other) = RemoteSite::new(Cursor::new(messages), std::io::sink(), "fuzz") {
        drop(other.apply_limits());
        drop(other.sample());
        drop(other.events().map(|events| events.iter().count()));
        drop(other.finish());
        drop(other.collect());
        drop(other.visits().map(|visits| visits.told.iter().count()));
        drop(other.read(0, &Written::File("/a".into()), 0, 1));
        drop(other.keep_speed(&[]));
        drop(other.cut_power(0));
        drop(other.change_hardware(0, HardwareChange::Memory(None)));
    }
    drop(serde_json::from_slice::<Suspended>(bytes).map_err(|e| e.to_string()));
});

/// A site on which there is nothing.
struct Nothing;

fn none<T>() -> Result<T> {
    Err(Error::failed("there is nothing here"))
}

impl Site for Nothing {
    fn prepare(&mut self, setup: Setup) -> Result<()> {
        // All of it can be told again.
        ciborium::into_writer(&setup, std::io::sink()).map_err(Error::failed)
    }

    fn create_nodes(&mut self) -> Result<()> {
        Ok(())
    }

    fn apply_limits(&mut self) -> Result<Conditions> {
        none()
    }

    fn now(&mut self) -> Result<scale::RealInstant> {
        Ok(scale::RealInstant::from_nanos(7))
    }

    fn start_clock(&mut self, at: scale::RealInstant) -> Result<Zero> {
        Ok(Zero { real: at, from: scale::VirtualInstant::ZERO, unix_ns: 0 })
    }

    fn start(&mut self, _: &[Start]) -> Result<()> {
        Ok(())
    }

    fn stop(&mut self, _: NodeIndex, _: Stop) -> Result<()> {
        Ok(())
    }

    fn change_pipes(&mut self, _: &[(String, net::PipeChange)]) -> Result<()> {
        Ok(())
    }

    fn change_flow(&mut self, _: usize, _: net::FlowChange) -> Result<()> {
        Ok(())
    }

    fn change_disk(&mut self, _: NodeIndex, _: device::Change) -> Result<()> {
        Ok(())
    }

    fn cut_power(&mut self, _: NodeIndex) -> Result<device::Cut> {
        none()
    }

    fn change_clock(&mut self, _: NodeIndex, _: ClockChange) -> Result<()> {
        Ok(())
    }

    fn change_hardware(&mut self, _: NodeIndex, _: HardwareChange) -> Result<Option<u64>> {
        Ok(None)
    }

    fn pause(&mut self, _: NodeIndex, _: bool) -> Result<()> {
        Ok(())
    }

    fn cut(&mut self, _: &[[NodeIndex; 2]]) -> Result<()> {
        Ok(())
    }

    fn change_program(&mut self, _: &ProgramChange) -> Result<bool> {
        Ok(true)
    }

    fn programs_running(&mut self, programs: &[(NodeIndex, String)]) -> Result<Vec<bool>> {
        Ok(vec![true; programs.len()])
    }

    fn listening(&mut self, waiting: &[(NodeIndex, u16)]) -> Result<Vec<NodeIndex>> {
        Ok(waiting.iter().map(|(node, _)| *node).collect())
    }

    fn events(&mut self) -> Result<Receiver<Event>> {
        Ok(unbounded().1)
    }

    fn visits(&mut self) -> Result<Visits> {
        Ok(Visits { said: unbounded().0, told: unbounded().1 })
    }

    fn begin_command(&mut self, _: &Command) -> Result<CommandId> {
        Ok(1)
    }

    fn note_programs(&mut self) -> Result<()> {
        Ok(())
    }

    fn sample(&mut self) -> Result<Sample> {
        none()
    }

    fn finish(&mut self) -> Result<Closing> {
        none()
    }

    fn collect(&mut self) -> Result<Collected> {
        none()
    }

    fn read(&mut self, _: NodeIndex, _: &Written, _: u64, _: u64) -> Result<Option<Vec<u8>>> {
        Ok(None)
    }

    fn suspend(&mut self, _: &Suspended) -> Result<()> {
        Ok(())
    }

    fn keep_speed(&mut self, _: &[SpeedSeen]) -> Result<Option<counters::Speed>> {
        none()
    }

    fn tear_down(&mut self) -> Result<()> {
        Ok(())
    }
}
