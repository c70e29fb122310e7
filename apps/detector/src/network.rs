#[cfg(feature = "ort")]
use std::path::PathBuf;

use thiserror::Error;

use crate::execution::{Execution, Runtime};
use crate::onnx;
#[cfg(feature = "ort")]
use crate::onnxruntime::OnnxRuntime;
use crate::peaks::Heads;
use crate::pure::Pure;

/// More threads than this do not make so small a network faster.
pub const MAX_THREADS: usize = 16;

/// Why a network cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The number of threads.
    #[error("cannot run the network on {threads} threads; give 1 to {MAX_THREADS}")]
    Threads {
        /// The number given.
        threads: usize,
    },
    /// The score threshold.
    #[error("the score threshold is {threshold}; give a number from 0 to 1")]
    Threshold {
        /// The number given.
        threshold: f32,
    },
    /// The file is of another kind, or cut.
    #[error("this is no complete ONNX file; give one of this crate's training/export.py")]
    Onnx,
    /// The network in the file.
    #[error("cannot load the network: {0}; is it an ONNX file of this crate's training/export.py?")]
    Model(#[from] rten::LoadError),
    /// An input or output is missing.
    #[error("the network has no {0}; is it of this crate's training/export.py?")]
    Node(&'static str),
    /// The runtime is not in this build.
    #[error("the runtime `{0}` is not in this build; build it with `--features {0}`")]
    Missing(Runtime),
    /// The shared library of ONNX Runtime is not named.
    #[cfg(feature = "ort")]
    #[error(
        "the runtime `ort` needs the shared library of ONNX Runtime: set ORT_DYLIB_PATH to its path"
    )]
    NoLibrary,
    /// The shared library of ONNX Runtime cannot be loaded.
    #[cfg(feature = "ort")]
    #[error(
        "cannot load ONNX Runtime from {path:?}: {reason}; set ORT_DYLIB_PATH to its shared library, version 1.17 or later"
    )]
    Library {
        /// The path tried.
        path: PathBuf,
        /// What the loader says.
        reason: String,
    },
    /// ONNX Runtime refuses the network.
    #[cfg(feature = "ort")]
    #[error(
        "ONNX Runtime cannot load the network: {0}; is it an ONNX file of this crate's training/export.py?"
    )]
    Session(String),
}

/// The convolutions between raster and peaks.
pub(crate) enum Network {
    Pure(Pure),
    #[cfg(feature = "ort")]
    OnnxRuntime(OnnxRuntime),
}

impl Network {
    pub(crate) fn load(bytes: Vec<u8>, execution: Execution) -> Result<Self, LoadError> {
        let Execution { runtime, threads } = execution;
        if !(1..=MAX_THREADS).contains(&threads) {
            return Err(LoadError::Threads { threads });
        }
        if !onnx::is_model(&bytes) {
            return Err(LoadError::Onnx);
        }
        match runtime {
            Runtime::Rten => Pure::load(bytes, threads).map(Self::Pure),
            #[cfg(feature = "ort")]
            Runtime::Ort => OnnxRuntime::load(&bytes, threads).map(Self::OnnxRuntime),
            #[cfg(not(feature = "ort"))]
            Runtime::Ort => Err(LoadError::Missing(runtime)),
        }
    }

    /// In reports.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Pure(_) => "neural",
            #[cfg(feature = "ort")]
            Self::OnnxRuntime(_) => "neural, by ort",
        }
    }

    /// `features` as [`Raster::features`](crate::Raster::features) has them.
    pub(crate) fn run(&mut self, features: &[f32]) -> Result<Heads, String> {
        match self {
            Self::Pure(network) => network.run(features),
            #[cfg(feature = "ort")]
            Self::OnnxRuntime(network) => network.run(features),
        }
    }
}
