//! Plain scalars as Compose's reader of YAML takes them: a mixture of YAML 1.1 and 1.2.
//!
//! `0755` is octal, `1.10` is 1.1 and `yes` is a text; what a variable in the environment gets of them is the number as
//! Compose writes it, not what stands in the file.

use crate::tree::Data;

/// The value of a scalar without quotes; what is wrong with it, if something is.
pub(crate) fn resolve(text: &str) -> Result<Data, String> {
    Ok(match text {
        "-0" => Data::Float("-0".into()),
        "" | "~" | "null" | "Null" | "NULL" => Data::Null,
        "true" | "True" | "TRUE" => Data::Bool(true),
        "false" | "False" | "FALSE" => Data::Bool(false),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" | "-.inf" | "-.Inf" | "-.INF" | ".nan" | ".NaN"
        | ".NAN" => return Err(format!("`{text}` is no number that Compose takes: write it in quotes")),
        _ if !text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.')) => Data::Text(text.into()),
        _ if is_date(text) => return date(text),
        _ => number(text),
    })
}

fn number(text: &str) -> Data {
    let plain: String = if text.starts_with('.') { text.into() } else { text.replace('_', "") };
    if !text.starts_with('.')
        && let Some(digits) = integer(&plain)
    {
        return Data::Int(digits);
    }
    match plain.parse::<f64>() {
        Ok(value) if is_float(&plain) && value.is_finite() => Data::Float(shown(value)),
        _ => Data::Text(text.into()),
    }
}

/// A whole number of 64 bits, with or without a sign: decimal, `0x`, `0b`, `0o`, or octal by a `0` in front.
fn integer(text: &str) -> Option<String> {
    let (is_negative, digits) = match text.strip_prefix(['+', '-']) {
        Some(digits) => (text.starts_with('-'), digits),
        None => (false, text),
    };
    let lower = digits.to_ascii_lowercase();
    let (base, digits) = match lower.as_bytes() {
        [b'0', b'x', ..] => (16, &lower[2..]),
        [b'0', b'b', ..] => (2, &lower[2..]),
        [b'0', b'o', ..] => (8, &lower[2..]),
        [b'0', _, ..] => (8, &lower[1..]),
        _ => (10, lower.as_str()),
    };
    if digits.starts_with(['+', '-']) {
        return None;
    }
    let value = u64::from_str_radix(digits, base).ok()?;
    match is_negative {
        false => Some(value.to_string()),
        true if value <= 1 << 63 => Some(if value == 0 { "0".into() } else { format!("-{value}") }),
        true => None,
    }
}

fn is_float(text: &str) -> bool {
    let text = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent.strip_prefix(['+', '-']).unwrap_or(exponent))),
        None => (text, None),
    };
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    digits(whole)
        && digits(fraction)
        && !(whole.is_empty() && fraction.is_empty())
        && exponent.is_none_or(|e| !e.is_empty() && digits(e))
}

/// A number as Compose writes it: the fewest digits, with an exponent below 10⁻⁴ and from 10⁶ on.
fn shown(value: f64) -> String {
    if value == 0.0 {
        return if value.is_sign_negative() { "-0".into() } else { "0".into() };
    }
    let scientific = format!("{value:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..6).contains(&exponent) {
        return format!("{value}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

/// Whether it begins like a date, which YAML 1.1 has as a type of its own.
fn is_date(text: &str) -> bool {
    let part = |text: &str| !text.is_empty() && text.len() <= 2 && text.bytes().all(|b| b.is_ascii_digit());
    let (date, rest) = text.split_at(text.find(['T', 't', ' ']).unwrap_or(text.len()));
    let mut parts = date.split('-');
    let (Some(year), Some(month), Some(day), None) = (parts.next(), parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    let has_time = rest.is_empty() || rest[1..].split(':').take(2).filter(|p| part(p)).count() == 2;
    year.len() == 4 && year.bytes().all(|b| b.is_ascii_digit()) && part(month) && part(day) && has_time
}

/// A day is what Compose makes of it; of moments it makes so many things that they have to be written as texts.
fn date(text: &str) -> Result<Data, String> {
    let mut parts = text.split('-').map(|part| part.parse::<u32>().ok());
    let (Some(Some(year)), Some(Some(month)), Some(Some(day))) = (parts.next(), parts.next(), parts.next()) else {
        return Err(format!("`{text}` is a moment for Compose: write it in quotes"));
    };
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = [31, if leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    match days.get(month.wrapping_sub(1) as usize) {
        Some(last) if (1..=*last).contains(&day) => {
            Ok(Data::Text(format!("{year:04}-{month:02}-{day:02} 00:00:00 +0000 UTC")))
        }
        _ => Ok(Data::Text(text.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of Compose 2.16 for a variable that is set to these.
    #[test]
    fn scalars_become_what_compose_makes_of_them() {
        for (written, expected) in [
            ("0755", "493"),
            ("1.10", "1.1"),
            ("1e3", "1000"),
            ("0x1F", "31"),
            ("-0x10", "-16"),
            ("1_000", "1000"),
            ("0777_0", "4088"),
            ("0o17", "15"),
            ("0b101", "5"),
            ("12345678901234567890", "12345678901234567890"),
            ("123456789012345678901234567890", "1.2345678901234568e+29"),
            ("1.0", "1"),
            ("1e21", "1e+21"),
            ("08", "8"),
            ("+12", "12"),
            ("0.1e-7", "1e-08"),
            (".5", "0.5"),
            ("5.", "5"),
            ("-0", "-0"),
            ("1234567.5", "1.2345675e+06"),
            ("123456.5", "123456.5"),
            ("0.0001", "0.0001"),
            ("2001-01-01", "2001-01-01 00:00:00 +0000 UTC"),
        ] {
            let data = resolve(written).unwrap();
            let (Data::Int(text) | Data::Float(text) | Data::Text(text)) = data else { panic!("{written}: {data:?}") };
            assert_eq!(text, expected, "{written}");
        }
        for text in ["yes", "1:20", "1,000", "10.1.0.0/24", "2001-13-01", "-", "1.2.3", "0x", "e5"] {
            assert_eq!(resolve(text), Ok(Data::Text(text.into())), "{text}");
        }
    }
}
