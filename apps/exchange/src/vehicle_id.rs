use std::fmt;
use std::str::FromStr;

use transport_api::{Error, Result, TopicName};

/// What a vehicle is called among several: one segment of a topic name, such as `vehicle1`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VehicleId(String);

/// Its topics would be those of the collective list.
const TAKEN: &str = "collective";

impl VehicleId {
    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for VehicleId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let fault = |what: &str| Err(Error::config(format!("vehicle id `{text}`: {what}")));
        if text.contains('/') {
            return fault("give one name without `/`; what comes before it is the prefix");
        }
        if text == TAKEN {
            return fault("this is where the objects of all vehicles go; choose another");
        }
        TopicName::parse(text)?;
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for VehicleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_one_segment_of_a_topic() {
        assert!("vehicle_1".parse::<VehicleId>().is_ok());
        for wrong in ["", "a/b", "1a", "a b", "*", "collective", "a-b", "\u{e4}"] {
            assert!(wrong.parse::<VehicleId>().is_err(), "{wrong}");
        }
    }
}
