use std::{fmt, str::FromStr};

/// What becomes of turns of which packets are missing, as those in which a recording begins and ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PartialTurns {
    /// They come like the others, marked and counted.
    #[default]
    Send,
    /// They are left out and counted.
    Drop,
}

impl fmt::Display for PartialTurns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Send => "send",
            Self::Drop => "drop",
        })
    }
}

impl FromStr for PartialTurns {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "send" => Ok(Self::Send),
            "drop" => Ok(Self::Drop),
            _ => Err(()),
        }
    }
}
