//! What fails in a drill.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;
use std::time::Duration;

use transport_api::config::ByteSize;

/// What fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scenario {
    /// The broker, router or master is killed and started again.
    BrokerKill,
    /// The edge is killed and started again.
    EdgeKill,
    /// The vehicle's connection is reset, and each new one, for so long.
    Cut(Duration),
    /// The vehicle's connection passes so many bytes a second.
    Slow(NonZeroU32),
}

/// Longest cut: the vehicle keeps a record of every scan.
const LONGEST: Duration = Duration::from_secs(600);

impl Scenario {
    /// Those of a drill that asks for none.
    pub(crate) fn usual() -> Vec<Self> {
        let cuts = [200, 2_000, 30_000].map(|millis| Self::Cut(Duration::from_millis(millis)));
        let mut usual = vec![Self::BrokerKill, Self::EdgeKill];
        usual.extend(cuts);
        usual.extend(NonZeroU32::new(200 << 10).map(Self::Slow));
        usual
    }

    /// As part of a folder's name.
    pub(crate) fn label(&self) -> String {
        self.to_string().replace(':', "-")
    }
}

impl FromStr for Scenario {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "broker-kill" => Ok(Self::BrokerKill),
            None if text == "edge-kill" => Ok(Self::EdgeKill),
            Some(("cut", span)) => match humantime::parse_duration(span) {
                Ok(span) if !span.is_zero() && span <= LONGEST => Ok(Self::Cut(span)),
                Ok(_) => Err(format!("`{text}`: give a duration up to 10min")),
                Err(error) => Err(format!("`{text}`: {error}; write for example `cut:2s`")),
            },
            Some(("slow", rate)) => {
                let rate: ByteSize = rate.parse().map_err(|error| format!("`{text}`: {error}"))?;
                let rate = u32::try_from(rate.0).ok().and_then(NonZeroU32::new);
                rate.map(Self::Slow).ok_or_else(|| {
                    format!("`{text}`: give a rate from 1 to 4294967295 bytes a second")
                })
            }
            _ => Err(format!(
                "`{text}` is none of `broker-kill`, `edge-kill`, `cut:DURATION`, `slow:RATE`"
            )),
        }
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BrokerKill => f.write_str("broker-kill"),
            Self::EdgeKill => f.write_str("edge-kill"),
            Self::Cut(span) => {
                let span = humantime::format_duration(*span).to_string();
                write!(f, "cut:{}", span.replace(' ', ""))
            }
            Self::Slow(rate) if rate.get() % 1024 == 0 => write!(f, "slow:{}KiB", rate.get() >> 10),
            Self::Slow(rate) => write!(f, "slow:{rate}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_is_written_as_it_is_read() {
        for scenario in Scenario::usual() {
            assert_eq!(scenario.to_string().parse(), Ok(scenario));
        }
        let odd = "slow:1001".parse::<Scenario>().unwrap();
        assert_eq!(odd.to_string(), "slow:1001");
        assert_eq!(
            "cut:1s500ms".parse::<Scenario>().unwrap().label(),
            "cut-1s500ms"
        );
    }

    #[test]
    fn a_mistake_is_named_with_what_there_is() {
        for (text, expected) in [
            ("brokerkill", "`broker-kill`"),
            ("cut", "cut:DURATION"),
            ("cut:soon", "write for example `cut:2s`"),
            ("cut:0s", "up to 10min"),
            ("cut:11min", "up to 10min"),
            ("slow:fast", "unit `fast`"),
            ("slow:", "not a size"),
            ("slow:0", "from 1 to"),
            ("slow:8GiB", "from 1 to"),
            ("slow:2parsec", "unit `parsec`"),
        ] {
            let error = text.parse::<Scenario>().unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
