use std::sync::Arc;

use rten::{Model, ModelOptions, RunOptions, ThreadPool, Value, ValueView};

use crate::detection::Class;
use crate::network::LoadError;
use crate::peaks::{BOX_CHANNELS, Heads, OUT};
use crate::raster::{CHANNELS, GRID};

/// The network run by `rten`.
///
/// The threads are a pool of its own; a worker without work sleeps.
pub(crate) struct Pure {
    model: Model,
    features: rten::NodeId,
    heads: [rten::NodeId; 2],
    options: RunOptions,
}

impl Pure {
    pub(crate) fn load(bytes: Vec<u8>, threads: usize) -> Result<Self, LoadError> {
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
