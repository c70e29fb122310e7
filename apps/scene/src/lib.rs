//! A procedural street, ray cast, with its ground truth.
//!
//! ```
//! use lidar_scene::Street;
//!
//! let mut scene = Street::default().build(7);
//! let hit = scene.cast([0.0; 3], [0.2, 0.0, -1.0]).unwrap();
//! assert!((hit.range - scene.mount_height()).abs() < 0.2);
//! scene.advance(0.1);
//! let cars = scene.truth().iter().filter(|object| object.class == lidar_scene::Class::Car).count();
//! assert!(cars > 5);
//! ```
//!
//! Objects are convex solids cut from half-spaces, and ellipsoids of leaves; a uniform grid finds
//! the few a ray can meet. Glass, grazing incidence, dark surfaces and plain dropouts lose pulses
//! as they do in the field.

mod clutter;
mod elementary;
mod grid;
mod ground;
mod object;
mod profile;
mod random;
mod road_user;
mod scene;
mod scenery;
mod shape;
mod solid;
mod street;

pub use profile::Profile;
pub use random::Random;
pub use road_user::Class;
pub use scene::{Hit, MAX_RANGE, Scene, TruthBox};
pub use street::Street;
