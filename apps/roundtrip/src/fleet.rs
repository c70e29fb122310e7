//! Several vehicles on one edge: who they are, where they are, and what all of them see.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use edge::collective::{self, Share};
use edge::{Counts, Served};
use exchange::{Topics, VehicleId};
use lidar_messages::{Point, Pose, Quaternion};
use tokio::task::LocalSet;

use crate::cli::LoadArgs;
use crate::failure::Failure;

/// Most vehicles on one edge.
pub(crate) const MOST: u8 = 64;

/// The name of a vehicle that is alone and needs no id.
pub(crate) const ALONE: &str = "vehicle";

/// Whom a side stands for or serves.
#[derive(Clone, Debug, Args)]
pub(crate) struct VehiclesArgs {
    /// Vehicle with topics of its own below this id, such as `vehicle1`; give it several times for
    /// several, or several ids with spaces between them. Default: one vehicle without an id.
    #[arg(
        long = "vehicle",
        value_name = "ID",
        value_delimiter = ' ',
        env = "ROUNDTRIP_VEHICLE"
    )]
    pub(crate) ids: Vec<VehicleId>,
}

/// The list of what all vehicles see.
#[derive(Clone, Debug, Args)]
pub(crate) struct CollectiveArgs {
    /// Where the lidar of a vehicle stands in the frame `map`: metres, and degrees from x towards y.
    /// Several times for several. A vehicle without it is where its topic `pose` says.
    #[arg(
        long = "pose",
        value_name = "ID=X,Y,Z,YAW",
        value_delimiter = ' ',
        env = "ROUNDTRIP_POSE"
    )]
    pub(crate) poses: Vec<VehiclePose>,

    /// Lists a second of what all vehicles see, on the topic `collective/objects`, if vehicles have
    /// ids; 0 for none.
    #[arg(
        long,
        value_name = "HZ",
        default_value_t = 10.0,
        value_parser = rate,
        allow_negative_numbers = true,
        env = "ROUNDTRIP_COLLECTIVE_RATE"
    )]
    pub(crate) collective_rate: f64,

    /// Leave out of it what a vehicle saw longer ago than this, such as `500ms`.
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "500ms",
        value_parser = humantime::parse_duration,
        env = "ROUNDTRIP_COLLECTIVE_MAX_AGE"
    )]
    pub(crate) collective_max_age: Duration,
}

/// Where a vehicle's lidar stands.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct VehiclePose {
    id: VehicleId,
    /// x, y, z in metres and yaw in degrees.
    numbers: [f64; 4],
}

impl VehiclePose {
    fn pose(&self) -> Pose {
        let [x, y, z, yaw] = self.numbers;
        Pose {
            position: Point { x, y, z },
            orientation: Quaternion::from_yaw(yaw.to_radians()),
        }
    }
}

impl FromStr for VehiclePose {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wanted = "write for example `vehicle1=12.5,-3,1.9,90`: metres and degrees";
        let (id, numbers) = text.split_once('=').ok_or(wanted)?;
        let id = id.parse::<VehicleId>().map_err(|error| error.to_string())?;
        let numbers = numbers
            .split(',')
            .map(|number| match number.trim().parse() {
                Ok(number) if f64::is_finite(number) => Ok(number),
                _ => Err(format!("`{number}` is not a finite number; {wanted}")),
            });
        let numbers = numbers.collect::<Result<Vec<_>, _>>()?;
        let count = numbers.len();
        let numbers = numbers
            .try_into()
            .map_err(|_| format!("{count} numbers; {wanted}"))?;
        Ok(Self { id, numbers })
    }
}

impl std::fmt::Display for VehiclePose {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [x, y, z, yaw] = self.numbers;
        write!(f, "{}={x},{y},{z},{yaw}", self.id)
    }
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(rate) if rate == 0.0 || (0.1..=100.0).contains(&rate) => Ok(rate),
        _ => Err("give 0 for none, or a number of lists a second from 0.1 to 100".to_owned()),
    }
}

/// The ids of `count` vehicles: `vehicle1` and so on; none for one, which needs none.
pub(crate) fn ids(count: u8) -> Result<Vec<VehicleId>, Failure> {
    let ids = (1..=count).filter(|_| count > 1);
    let ids = ids.map(|n| Ok(format!("{ALONE}{n}").parse()?));
    ids.collect()
}

/// What a side calls the vehicles of `ids`.
pub(crate) fn names(ids: &[VehicleId]) -> Vec<String> {
    match ids {
        [] => vec![ALONE.to_owned()],
        ids => ids.iter().map(VehicleId::to_string).collect(),
    }
}

/// The topics of each vehicle, below `prefix`.
pub(crate) fn topics(prefix: &str, ids: &[VehicleId]) -> Result<Vec<Topics>, Failure> {
    if ids.is_empty() {
        return Ok(vec![Topics::below(prefix)?]);
    }
    if ids.len() > MOST.into() {
        let count = ids.len();
        return Err(Failure::usage(format!("{count} vehicles; {MOST} at most")));
    }
    let topics = ids.iter().enumerate().map(|(n, id)| {
        if ids[..n].contains(id) {
            return Err(Failure::usage(format!("vehicle `{id}` is given twice")));
        }
        Ok(Topics::of(prefix, id)?)
    });
    topics.collect()
}

impl CollectiveArgs {
    /// The vehicles that an edge serves.
    pub(crate) fn vehicles(
        &self,
        prefix: &str,
        ids: &[VehicleId],
    ) -> Result<Vec<edge::Vehicle>, Failure> {
        for (n, pose) in self.poses.iter().enumerate() {
            let id = &pose.id;
            if !ids.contains(id) {
                let known = names(ids).join(", ");
                return Err(Failure::usage(format!(
                    "pose of `{id}`, which is none of the vehicles with an id ({known})"
                )));
            }
            if self.poses[..n].iter().any(|other| other.id == *id) {
                return Err(Failure::usage(format!("two poses of `{id}`")));
            }
        }
        let pose = |name: &str| self.poses.iter().find(|pose| pose.id.as_str() == name);
        let vehicles = names(ids).into_iter().zip(topics(prefix, ids)?);
        Ok(vehicles
            .map(|(name, topics)| edge::Vehicle {
                pose: pose(&name).map(VehiclePose::pose),
                name,
                topics,
            })
            .collect())
    }

    /// The list that an edge of these vehicles publishes.
    pub(crate) fn settings(
        &self,
        prefix: &str,
        ids: &[VehicleId],
    ) -> Result<Option<collective::Settings>, Failure> {
        if ids.is_empty() || self.collective_rate == 0.0 {
            return Ok(None);
        }
        Ok(Some(collective::Settings {
            topic: exchange::collective_topic(prefix)?,
            period: Duration::from_secs_f64(1.0 / self.collective_rate),
            max_age: self.collective_max_age,
        }))
    }

    /// What was asked for, for the record.
    pub(crate) fn record(&self, ids: &[VehicleId]) -> serde_json::Value {
        let texts = self.poses.iter().map(VehiclePose::to_string);
        serde_json::json!({
            "vehicles": names(ids),
            "poses": texts.collect::<Vec<_>>(),
            "collective_rate_hz": self.collective_rate,
            "collective_max_age": humantime::format_duration(self.collective_max_age).to_string(),
        })
    }

    /// The same on the command line of a child.
    pub(crate) fn flags(&self) -> Vec<String> {
        let mut flags = vec![
            format!("--collective-rate={}", self.collective_rate),
            format!(
                "--collective-max-age={}",
                humantime::format_duration(self.collective_max_age)
            ),
        ];
        flags.extend(self.poses.iter().map(|pose| format!("--pose={pose}")));
        flags
    }
}

/// What is sent by vehicle number `n` of a process: a synthetic source of another seed, and another
/// choice of packets.
pub(crate) fn load(load: &LoadArgs, n: usize) -> LoadArgs {
    let n = n as u64;
    let mut load = load.clone();
    load.seed = load.seed.wrapping_add(n);
    if let Some(text) = load.source.strip_prefix("synthetic:") {
        let end = text.find('?').unwrap_or(text.len());
        let (seed, options) = text.split_at(end);
        // What is no seed is refused where the source is opened.
        if let Ok(seed) = seed.parse::<u64>() {
            load.source = format!("synthetic:{}{options}", seed.wrapping_add(n));
        }
    }
    load
}

/// Finds mistakes before anything is started.
pub(crate) fn check(
    load: &LoadArgs,
    collective: &CollectiveArgs,
    prefix: &str,
    ids: &[VehicleId],
) -> Result<(), Failure> {
    collective.vehicles(prefix, ids)?;
    if ids.len() > 1 && load.source.starts_with("udp:") {
        return Err(Failure::usage(format!(
            "source `{}` is one sensor, and {} vehicles need one each; start a `roundtrip vehicle \
             --vehicle ID` for each sensor",
            load.source,
            ids.len()
        )));
    }
    Ok(())
}

/// Makes the folder of a vehicle below that of its transport.
pub(crate) fn folder(transport: &Path, name: &str) -> Result<PathBuf, Failure> {
    let folder = transport.join(name);
    std::fs::create_dir_all(&folder)
        .map_err(|error| Failure::new(format!("create {}", folder.display()), error))?;
    Ok(folder)
}

/// The name of the column and the folder of a vehicle of `ids` over one transport.
pub(crate) fn label(transport: &str, ids: &[VehicleId], vehicle: &str) -> String {
    match ids {
        [] => transport.to_owned(),
        _ => format!("{transport}/{vehicle}"),
    }
}

/// Waits for all of them at once, on this thread.
pub(crate) async fn all<F>(futures: Vec<F>) -> Vec<F::Output>
where
    F: Future + 'static,
{
    let local = LocalSet::new();
    let tasks: Vec<_> = futures
        .into_iter()
        .map(|future| local.spawn_local(future))
        .collect();
    local
        .run_until(async {
            let mut outputs = Vec::with_capacity(tasks.len());
            for task in tasks {
                match task.await {
                    Ok(output) => outputs.push(output),
                    // Nobody aborts them.
                    Err(error) => std::panic::resume_unwind(error.into_panic()),
                }
            }
            outputs
        })
        .await
}

/// What an edge did for one vehicle, in a line.
pub(crate) fn served(served: &Served) -> String {
    let Counts {
        answered,
        expired,
        undecodable,
        undetected,
        unpublished,
        unfinished,
    } = served.counts;
    let missed = served.scans.missed + served.clouds.missed;
    let dropped = served.scans.dropped + served.clouds.dropped;
    let mut text = format!(
        "{}: answered {answered}, expired {expired}, not decodable {undecodable}, not detected \
         {undetected}, not published {unpublished}, unfinished {unfinished}, missed {missed}, of \
         these dropped {dropped}",
        served.vehicle
    );
    if let Some(share) = served.share {
        let Share {
            included,
            stale,
            unplaced,
            absent,
        } = share;
        text.push_str(&format!(
            "; in {included} collective lists, left out of {stale} as too old, of {unplaced} without \
             a pose, of {absent} before its first list"
        ));
        if served.poses_refused > 0 {
            text.push_str(&format!("; {} poses not used", served.poses_refused));
        }
    }
    text
}

/// Why objects of a vehicle are not in the collective list, if that is so.
pub(crate) fn left_out(served: &Served) -> Option<String> {
    let Share {
        included,
        stale,
        unplaced,
        absent,
    } = served.share?;
    let lists = included + stale + unplaced + absent;
    (unplaced > 0 && included == 0).then(|| {
        format!(
            "without a pose, so its objects are in none of {lists} collective lists: give --pose \
             {}=X,Y,Z,YAW",
            served.vehicle
        )
    })
}

/// What became of the collective list, in a line.
pub(crate) fn collective(report: &collective::Report) -> String {
    let collective::Counts {
        published,
        unpublished,
        objects,
        merged,
    } = report.counts;
    format!(
        "collective lists: published {published}, not published {unpublished}, objects {objects}, \
         seen by two vehicles {merged}"
    )
}

/// The vehicles on the command line of a child.
pub(crate) fn flags(ids: &[VehicleId]) -> impl Iterator<Item = String> {
    ids.iter().map(|id| format!("--vehicle={id}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::Parser;

    #[test]
    fn one_vehicle_has_no_id_and_several_have_numbers() {
        assert_eq!(ids(1).unwrap(), []);
        assert_eq!(names(&[]), ["vehicle"]);
        let three = ids(3).unwrap();
        assert_eq!(names(&three), ["vehicle1", "vehicle2", "vehicle3"]);
        let topics = topics("depot", &three).unwrap();
        assert_eq!(topics[2].scan.as_str(), "depot/vehicle3/velodyne_packets");
    }

    #[test]
    fn mistakes_in_the_fleet_are_named() {
        let args = |poses: &[&str]| CollectiveArgs {
            poses: poses.iter().map(|pose| pose.parse().unwrap()).collect(),
            collective_rate: 10.0,
            collective_max_age: Duration::from_millis(500),
        };
        let two = ids(2).unwrap();
        let error = |poses: &[&str], ids: &[VehicleId]| {
            args(poses).vehicles("", ids).unwrap_err().to_string()
        };
        assert!(error(&["vehicle3=0,0,0,0"], &two).contains("pose of `vehicle3`"));
        assert!(error(&["vehicle1=0,0,0,0"], &[]).contains("pose of `vehicle1`"));
        assert!(error(&["vehicle1=0,0,0,0"; 2], &two).contains("two poses of `vehicle1`"));
        let twice = [two[0].clone(), two[0].clone()];
        assert!(error(&[], &twice).contains("`vehicle1` is given twice"));
        let many: Vec<_> = (0..65).map(|n| format!("v{n}").parse().unwrap()).collect();
        assert!(error(&[], &many).contains("65 vehicles; 64 at most"));
        for (text, wrong) in [
            ("vehicle1", "write for example"),
            ("1a=0,0,0,0", "starts with a letter"),
            ("a=0,0,0", "3 numbers"),
            ("a=0,0,0,0,0", "5 numbers"),
            ("a=0,0,x,0", "`x` is not a finite number"),
            ("a=0,0,inf,0", "`inf` is not a finite number"),
            ("a=,0,0,0", "`` is not a finite number"),
        ] {
            let error = text.parse::<VehiclePose>().unwrap_err();
            assert!(error.contains(wrong), "{text}: {error}");
        }
    }

    #[test]
    fn each_vehicle_has_a_street_of_its_own() {
        let sent = |source: &str, n| {
            let line = ["roundtrip", "--seed=7", "--source", source];
            let load = load(&Cli::parse_from(line).run.load, n);
            (load.source, load.seed)
        };
        for (source, wanted) in [
            ("synthetic:1?turns=5", "synthetic:3?turns=5"),
            ("synthetic:9", "synthetic:11"),
            ("synthetic:x", "synthetic:x"),
            ("pcap:synthetic:1", "pcap:synthetic:1"),
        ] {
            assert_eq!(sent(source, 0), (source.to_owned(), 7));
            assert_eq!(sent(source, 2), (wanted.to_owned(), 9));
        }
    }

    #[test]
    fn a_pose_is_metres_and_degrees() {
        let pose: VehiclePose = "a=1,-2.5,3,90".parse().unwrap();
        let Pose {
            position,
            orientation,
        } = pose.pose();
        assert_eq!([position.x, position.y, position.z], [1.0, -2.5, 3.0]);
        assert!((orientation.yaw() - std::f64::consts::FRAC_PI_2).abs() < 1e-12);
        assert_eq!(pose.to_string(), "a=1,-2.5,3,90");
    }
}
