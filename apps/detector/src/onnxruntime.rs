use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use ort::environment::Environment;
use ort::session::Session;
use ort::value::{DynValue, TensorRef};

use crate::detection::Class;
use crate::network::LoadError;
use crate::peaks::{BOX_CHANNELS, Heads, OUT};
use crate::raster::{CHANNELS, GRID};

/// Where the shared library is.
const LIBRARY: &str = "ORT_DYLIB_PATH";

/// The network run by the shared library of ONNX Runtime; a worker without work sleeps.
pub(crate) struct OnnxRuntime {
    session: Session,
}

impl OnnxRuntime {
    pub(crate) fn load(bytes: &[u8], threads: usize) -> Result<Self, LoadError> {
        let environment = environment()?;
        let session = Self::session(&environment, bytes, threads).map_err(LoadError::Session)?;
        Ok(Self { session })
    }

    fn session(environment: &Environment, bytes: &[u8], threads: usize) -> Result<Session, String> {
        Session::builder(environment)
            .map_err(|error| error.to_string())?
            .with_intra_threads(threads)
            .map_err(|error| error.to_string())?
            .with_intra_op_spinning(false)
            .map_err(|error| error.to_string())?
            .commit_from_memory(bytes)
            .map_err(|error| error.to_string())
    }

    pub(crate) fn run(&mut self, features: &[f32]) -> Result<Heads, String> {
        let input = TensorRef::from_array_view(([1, CHANNELS, GRID, GRID], features))
            .map_err(|error| error.to_string())?;
        let outputs = self
            .session
            .run(ort::inputs!["features" => input])
            .map_err(|error| error.to_string())?;
        let head = |name, channels| {
            let value = outputs
                .get(name)
                .ok_or_else(|| format!("no output {name}"))?;
            planes(value, channels)
        };
        Ok(Heads {
            heat: head("heat", Class::ALL.len())?,
            boxes: head("boxes", BOX_CHANNELS)?,
        })
    }
}

/// The shared library, loaded once in a process: the first path stays.
fn environment() -> Result<Environment, LoadError> {
    static LOADED: Mutex<Option<Environment>> = Mutex::new(None);
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(environment) = &*loaded {
        return Ok(environment.clone());
    }
    let path = std::env::var_os(LIBRARY)
        .map(PathBuf::from)
        .ok_or(LoadError::NoLibrary)?;
    let refused = |reason: String| LoadError::Library {
        path: path.clone(),
        reason,
    };
    let environment = ort::init_from(&path)
        .map_err(|error| refused(error.to_string()))?
        .build()
        .map_err(|error| refused(error.to_string()))?;
    Ok(loaded.insert(environment).clone())
}

fn planes(value: &DynValue, channels: usize) -> Result<Vec<f32>, String> {
    let (shape, values) = value
        .try_extract_tensor::<f32>()
        .map_err(|error| error.to_string())?;
    let expected = [1, channels as i64, OUT as i64, OUT as i64];
    if **shape != expected {
        return Err(format!(
            "an output has the shape {shape:?}, not {expected:?}"
        ));
    }
    Ok(values.to_vec())
}
