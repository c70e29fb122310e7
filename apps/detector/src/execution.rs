use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// What runs the network, and on how many threads.
///
/// A number of threads alone means [`Runtime::Rten`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Execution {
    /// What runs it.
    pub runtime: Runtime,
    /// 1 to [`MAX_THREADS`](crate::MAX_THREADS).
    pub threads: usize,
}

impl From<usize> for Execution {
    fn from(threads: usize) -> Self {
        Self {
            runtime: Runtime::default(),
            threads,
        }
    }
}

/// What runs the network. The answers are the same within 0.001.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Runtime {
    /// The crate `rten`, in the program.
    #[default]
    Rten,
    /// ONNX Runtime: its shared library, found by `ORT_DYLIB_PATH`, and the feature `ort`.
    Ort,
}

/// A name of no runtime.
#[derive(Debug, Clone, Error)]
#[error("no runtime is called {0:?}; give `rten` or `ort`")]
pub struct RuntimeError(String);

impl fmt::Display for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rten => "rten",
            Self::Ort => "ort",
        })
    }
}

impl FromStr for Runtime {
    type Err = RuntimeError;

    fn from_str(text: &str) -> Result<Self, RuntimeError> {
        [Self::Rten, Self::Ort]
            .into_iter()
            .find(|runtime| runtime.to_string() == text)
            .ok_or_else(|| RuntimeError(text.to_owned()))
    }
}
