//! Streets of the generator that no training saw.

use lidar_eval::labels::{Label, LabelledScan};
use lidar_scene::{Class, Profile, TruthBox};
use lidar_sensor::source::{Simulator, SimulatorConfig};
use lidar_sensor::{Convention, Converter, Model};

use super::clouds::Labelled;
use crate::failure::Failure;

/// Most streets, and the highest seed of the first one: there are more than these together.
pub(super) const MOST: i64 = 100_000;

/// Standard deviations of distances in metres, one after the other.
const NOISE: [f32; 4] = [0.008, 0.012, 0.018, 0.025];

/// Shows each of `count` streets from `seed` on to `judge`.
pub(super) fn each(
    count: u32,
    seed: u64,
    convention: Convention,
    judge: &mut impl FnMut(Labelled) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut converter = Converter::new(convention);
    for scene in 0..count {
        let index = seed + u64::from(scene);
        let config = SimulatorConfig {
            range_noise: NOISE[scene as usize % NOISE.len()],
            ..SimulatorConfig::new(Model::Vlp32c, index)
        };
        let turn = Simulator::within(Profile::HeldOut.scene(index), config).next_turn();
        let name = format!("street {index}");
        let cloud = converter
            .convert(&turn.turn.scan)
            .map_err(|error| Failure::new(&name, error))?;
        let labels = LabelledScan {
            labels: turn.truth.iter().map(label).collect(),
            ..LabelledScan::default()
        };
        judge(Labelled::new(name, scene, cloud, labels)?)?;
    }
    Ok(())
}

fn label(truth: &TruthBox) -> Label {
    let class = match truth.class {
        Class::Car => "car",
        Class::Truck => "truck",
        Class::Pedestrian => "pedestrian",
        Class::Cyclist => "cyclist",
    };
    Label {
        class: class.to_owned(),
        center: truth.center.map(f64::from),
        size: truth.size.map(f64::from),
        yaw: truth.yaw.into(),
    }
}
