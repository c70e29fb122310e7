//! As what object lists travel.

use clap::{Args, ValueEnum};
use exchange::ObjectsFormat;
use perception::ListSettings;

#[derive(Clone, Debug, Args)]
pub(crate) struct ListArgs {
    /// As what object lists travel; both sides must agree on it.
    #[arg(
        long,
        value_enum,
        default_value_t = Format::Detection3d,
        env = "ROUNDTRIP_OBJECTS_FORMAT"
    )]
    pub(crate) objects_format: Format,

    /// Follow objects from scan to scan, so that they keep their identities. These are in object lists of
    /// states and on markers.
    #[arg(long, env = "ROUNDTRIP_TRACK")]
    pub(crate) track: bool,

    /// Publish boxes and texts for a viewer such as RViz at the edge, as `objects/markers`.
    #[arg(long, env = "ROUNDTRIP_MARKERS")]
    pub(crate) markers: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// `vision_msgs/Detection3DArray`: boxes with a class.
    #[value(name = "detection3d")]
    Detection3d,
    /// `perception_msgs/ObjectList`: states with an identity.
    ObjectList,
}

impl ListArgs {
    pub(crate) fn settings(&self) -> ListSettings {
        ListSettings {
            format: match self.objects_format {
                Format::Detection3d => ObjectsFormat::Detection3d,
                Format::ObjectList => ObjectsFormat::ObjectList,
            },
            track: self.track,
            markers: self.markers,
        }
    }
}
