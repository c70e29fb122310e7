use std::sync::Arc;

use rten::{Model, ModelOptions, RunOptions, ThreadPool, Value, ValueView};
use thiserror::Error;

use crate::detection::Class;
use crate::onnx;
use crate::peaks::{BOX_CHANNELS, Heads, OUT};
use crate::raster::{CHANNELS, GRID};

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
}

/// The convolutions between raster and peaks.
///
/// The threads are a pool of its own; a worker without work sleeps.
pub(crate) struct Network {
    model: Model,
    features: rten::NodeId,
    heads: [rten::NodeId; 2],
    options: RunOptions,
}

impl Network {
    pub(crate) fn load(bytes: Vec<u8>, threads: usize) -> Result<Self, LoadError> {
        if !(1..=MAX_THREADS).contains(&threads) {
            return Err(LoadError::Threads { threads });
        }
        if !onnx::is_model(&bytes) {
            return Err(LoadError::Onnx);
        }
        let model = ModelOptions::with_all_ops()
            .prepack_weights(true)
            .load(bytes)?;
        let node = |name| model.find_node(name).ok_or(LoadError::Node(name));
        let features = node("features")?;
        let heads = [node("heat")?, node("boxes")?];
        let pool = Arc::new(ThreadPool::with_num_threads(threads));
        let options = RunOptions::default().with_thread_pool(Some(pool));
        Ok(Self {
            model,
            features,
            heads,
            options,
        })
    }

    /// `features` as [`Raster::features`](crate::Raster::features) has them.
    pub(crate) fn run(&self, features: &[f32]) -> Result<Heads, String> {
        let input = ValueView::from_shape([1, CHANNELS, GRID, GRID], features)
            .map_err(|error| error.to_string())?;
        let inputs = vec![(self.features, input.into())];
        let [heat, boxes] = self
            .model
            .run_n(inputs, self.heads, Some(self.options.clone()))
            .map_err(|error| error.to_string())?;
        Ok(Heads {
            heat: planes(heat, Class::ALL.len())?,
            boxes: planes(boxes, BOX_CHANNELS)?,
        })
    }
}

fn planes(value: Value, channels: usize) -> Result<Vec<f32>, String> {
    let (shape, values) = value
        .into_shape_vec::<f32, 4>()
        .map_err(|error| error.to_string())?;
    let expected = [1, channels, OUT, OUT];
    if shape != expected {
        return Err(format!(
            "an output has the shape {shape:?}, not {expected:?}"
        ));
    }
    Ok(values)
}
