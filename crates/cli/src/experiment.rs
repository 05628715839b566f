//! What the verbs that take an experiment have in common.

use record::Variant;

/// `--variant`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum VariantArg {
    /// TDF and shares of the plan
    Scaled,
    /// TDF 1, every node with its full target share
    Baseline,
    /// TDF 1, links at target rates, all nodes together within the scaled variant's resources
    Naive,
}

impl From<VariantArg> for Variant {
    fn from(v: VariantArg) -> Variant {
        match v {
            VariantArg::Scaled => Variant::Scaled,
            VariantArg::Baseline => Variant::Baseline,
            VariantArg::Naive => Variant::Naive,
        }
    }
}

/// Splits a `--set dotted.path=value`.
pub fn parse_override(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((path, value)) if !path.is_empty() => Ok((path.into(), value.into())),
        _ => Err("write it as PATH=VALUE, such as machines.server.speed=0.25".into()),
    }
}
