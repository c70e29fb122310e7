//! The collective list: what all vehicles see, in one frame.
//!
//! It is published at a fixed rate, whatever the vehicles send: a vehicle that floods makes no more of
//! it, and when all have fallen silent it says so by being empty.

use std::collections::VecDeque;
use std::time::Duration;

use exchange::MAP;
use lidar_messages::{Detection3D, Detection3DArray, Header, Pose, PoseStamped, Text, Time};
use serde::{Deserialize, Serialize};
use transport_api::{Message, Publisher, PublisherCounters, Refused, Sequence, TopicName, Why};

use crate::frame::Frame;

/// How the collective list is made.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where it goes.
    pub topic: TopicName,
    /// Time from one to the next.
    pub period: Duration,
    /// Lists of vehicles whose scan came longer ago than this, by the edge's clock, are left out. A
    /// pose that was received counts as long.
    pub max_age: Duration,
}

/// Objects of one class that two vehicles see are one object if their centres are no farther apart than
/// this, in metres on the ground.
pub const SAME_OBJECT: f64 = 1.5;

/// What became of the collective list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The lists.
    pub counts: Counts,
    /// Their publisher.
    pub publisher: PublisherCounters,
}

/// What became of the collective lists and the objects in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Lists published.
    pub published: u64,
    /// Lists that the transport did not take.
    pub unpublished: u64,
    /// Objects in the published lists, all together.
    pub objects: u64,
    /// Objects left out of them since another vehicle saw the same with a better score.
    pub merged: u64,
}

/// What one vehicle gave to the collective lists; each list counts in one of these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// The vehicle's newest list was in it.
    pub included: u64,
    /// Its newest list was too old.
    pub stale: u64,
    /// Its newest list had objects and no pose.
    pub unplaced: u64,
    /// It had no list yet.
    pub absent: u64,
}

/// Poses that are kept of a vehicle, to find the one of a scan.
pub(crate) const POSES: usize = 8;

/// What is known of one vehicle.
#[derive(Debug)]
pub(crate) struct Contribution {
    /// First part of the name of the frame that its objects come from.
    vehicle: String,
    /// Where it stands, if that was said by settings.
    fixed: Option<Frame>,
    poses: VecDeque<Placement>,
    newest: Option<Listed>,
    share: Share,
    /// Whether it was said that there is no pose.
    said: bool,
}

#[derive(Clone, Copy, Debug)]
struct Placement {
    frame: Frame,
    stamp: Time,
    /// When it was received.
    at: i64,
}

/// A list in the common frame.
#[derive(Debug)]
struct Listed {
    /// `None` without a pose.
    objects: Option<Vec<Detection3D>>,
    /// When its scan came.
    at: i64,
}

impl Contribution {
    /// Of a vehicle that stands at `pose` or, without it, tells where it is; the error is for the user.
    pub(crate) fn new(vehicle: &str, pose: Option<&Pose>) -> Result<Self, String> {
        Ok(Self {
            vehicle: vehicle.to_owned(),
            fixed: pose.map(Frame::at).transpose()?,
            poses: VecDeque::with_capacity(POSES),
            newest: None,
            share: Share::default(),
            said: false,
        })
    }

    pub(crate) fn share(&self) -> Share {
        self.share
    }

    /// Takes a pose that came at `now`; the error is for the log.
    pub(crate) fn locate(&mut self, pose: &PoseStamped, now: i64) -> Result<(), String> {
        let frame = &*pose.header.frame_id;
        if frame.strip_prefix('/').unwrap_or(frame) != MAP {
            return Err(format!("the pose is in frame `{frame}`, not in `{MAP}`"));
        }
        let placement = Placement {
            frame: Frame::at(&pose.pose)?,
            stamp: pose.header.stamp,
            at: now,
        };
        if self.poses.len() == POSES {
            self.poses.pop_front();
        }
        self.poses.push_back(placement);
        Ok(())
    }

    /// Takes the objects of a scan that came at `at`.
    pub(crate) fn list(&mut self, list: Detection3DArray, at: i64, max_age: Duration) {
        let origin = Header {
            frame_id: self.origin(&list.header.frame_id),
            ..list.header
        };
        let mut objects = list.detections;
        // No objects need no pose.
        let placed = objects.is_empty()
            || match self.frame(origin.stamp, at, max_age) {
                Some(frame) => {
                    for object in &mut objects {
                        frame.place(object);
                        object.header.frame_id = MAP.into();
                        object.source_cloud.header = origin.clone();
                    }
                    true
                }
                None => false,
            };
        if !placed && !self.said {
            self.said = true;
            let vehicle = &self.vehicle;
            tracing::warn!(
                "{vehicle} has no pose, so its objects are not in the collective list; give --pose \
                 {vehicle}=X,Y,Z,YAW or publish geometry_msgs/PoseStamped on its topic `pose`"
            );
        }
        let objects = placed.then_some(objects);
        self.newest = Some(Listed { objects, at });
    }

    /// The name of the sensor's frame among those of all vehicles.
    fn origin(&self, sensor: &str) -> Text {
        match sensor {
            "" => self.vehicle.clone().into(),
            _ => format!("{}/{sensor}", self.vehicle).into(),
        }
    }

    /// Where the sensor was at `stamp`: the pose of just that time, else the newest one.
    fn frame(&self, stamp: Time, now: i64, max_age: Duration) -> Option<Frame> {
        if self.fixed.is_some() {
            return self.fixed;
        }
        let mut newest_first = self.poses.iter().rev();
        let exact = newest_first.clone().find(|pose| pose.stamp == stamp);
        let pose = exact.or(newest_first.next())?;
        is_fresh(pose.at, now, max_age).then_some(pose.frame)
    }

    /// The objects for a list that is published `now`.
    fn objects(&mut self, now: i64, max_age: Duration) -> &[Detection3D] {
        let count = match &mut self.newest {
            None => &mut self.share.absent,
            Some(Listed { at, objects }) if !is_fresh(*at, now, max_age) => {
                // The vehicle may never come back.
                *objects = None;
                &mut self.share.stale
            }
            Some(Listed { objects: None, .. }) => &mut self.share.unplaced,
            Some(Listed {
                objects: Some(objects),
                ..
            }) => {
                self.share.included += 1;
                return objects;
            }
        };
        *count += 1;
        &[]
    }
}

fn is_fresh(at: i64, now: i64, max_age: Duration) -> bool {
    u64::try_from(now.wrapping_sub(at)).is_ok_and(|age| u128::from(age) <= max_age.as_nanos())
}

/// Publishes what all vehicles see.
pub(crate) struct Collective {
    publisher: Box<dyn Publisher>,
    ids: Sequence,
    max_age: Duration,
    counts: Counts,
}

impl Collective {
    pub(crate) fn new(publisher: Box<dyn Publisher>, settings: &Settings) -> Self {
        Self {
            publisher,
            ids: Sequence::random(),
            max_age: settings.max_age,
            counts: Counts::default(),
        }
    }

    pub(crate) fn max_age(&self) -> Duration {
        self.max_age
    }

    pub(crate) fn report(&self) -> Report {
        Report {
            counts: self.counts,
            publisher: self.publisher.counters(),
        }
    }

    /// Publishes the list of `now`, by the edge's clock; `stamp` is the same for the readers.
    pub(crate) fn publish<'a>(
        &mut self,
        vehicles: impl Iterator<Item = &'a mut Contribution>,
        now: i64,
        stamp: Time,
    ) {
        let lists = vehicles.map(|vehicle| vehicle.objects(now, self.max_age));
        let (detections, merged) = merge(lists);
        let id = self.ids.next_id();
        let objects = detections.len() as u64;
        let list = Detection3DArray {
            header: Header {
                // Sequence numbers of ROS wrap.
                seq: id.seq as u32,
                stamp,
                frame_id: MAP.into(),
            },
            detections,
        };
        match self
            .publisher
            .try_publish(Message::new(list.encode()).with_id(id))
        {
            Ok(_) => {
                self.counts.published += 1;
                self.counts.objects += objects;
                self.counts.merged += merged;
            }
            Err(Refused { why, .. }) => {
                self.counts.unpublished += 1;
                if self.counts.unpublished.is_power_of_two()
                    && let Why::Fatal(error) = why
                {
                    tracing::warn!(%error, count = self.counts.unpublished,
                        "collective list not published");
                }
            }
        }
    }
}

/// The objects of all lists, best first. Of those of the same class in lists of different vehicles that
/// are no farther apart than [`SAME_OBJECT`] the best scored is kept; how many were not.
fn merge<'a>(lists: impl Iterator<Item = &'a [Detection3D]>) -> (Vec<Detection3D>, u64) {
    let mut all: Vec<(usize, &Detection3D)> = lists
        .enumerate()
        .flat_map(|(vehicle, list)| list.iter().map(move |object| (vehicle, object)))
        .collect();
    // Stable, so that equal scores stay in the order of the vehicles.
    all.sort_by(|(_, a), (_, b)| score(b).total_cmp(&score(a)));
    let mut kept: Vec<(usize, &Detection3D)> = Vec::with_capacity(all.len());
    let count = all.len();
    for (vehicle, object) in all {
        let seen = |(other, better): &(usize, &Detection3D)| {
            *other != vehicle
                && class(better) == class(object)
                && distance(better, object) <= SAME_OBJECT
        };
        if !kept.iter().any(seen) {
            kept.push((vehicle, object));
        }
    }
    let merged = (count - kept.len()) as u64;
    let kept = kept.into_iter().map(|(_, object)| object.clone());
    (kept.collect(), merged)
}

fn score(object: &Detection3D) -> f64 {
    object.results.first().map_or(0.0, |best| best.score)
}

fn class(object: &Detection3D) -> Option<i64> {
    object.results.first().map(|best| best.id)
}

/// In metres on the ground.
fn distance(a: &Detection3D, b: &Detection3D) -> f64 {
    let (a, b) = (a.bbox.center.position, b.bbox.center.position);
    (a.x - b.x).hypot(a.y - b.y)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lidar_messages::{
        BoundingBox3D, ObjectHypothesisWithPose, Point, PoseWithCovariance, Quaternion,
    };

    const CAR: i64 = 1;
    const PEDESTRIAN: i64 = 3;
    const SECOND: i64 = 1_000_000_000;
    const AGE: Duration = Duration::from_millis(500);

    fn at(x: f64, y: f64) -> Pose {
        Pose {
            position: Point { x, y, z: 0.0 },
            orientation: Quaternion::default(),
        }
    }

    fn object(id: i64, score: f64, x: f64, y: f64) -> Detection3D {
        let pose = PoseWithCovariance {
            pose: at(x, y),
            ..Default::default()
        };
        Detection3D {
            results: vec![ObjectHypothesisWithPose { id, score, pose }],
            bbox: BoundingBox3D {
                center: at(x, y),
                ..Default::default()
            },
            ..Default::default()
        }
    }

    fn list(secs: u32, detections: Vec<Detection3D>) -> Detection3DArray {
        let header = Header {
            seq: secs,
            stamp: Time { secs, nsecs: 0 },
            frame_id: "velodyne".into(),
        };
        Detection3DArray { header, detections }
    }

    fn pose(secs: u32, x: f64) -> PoseStamped {
        PoseStamped {
            header: Header {
                stamp: Time { secs, nsecs: 0 },
                frame_id: MAP.into(),
                ..Header::default()
            },
            pose: at(x, 0.0),
        }
    }

    fn xs(objects: &[Detection3D]) -> Vec<f64> {
        objects
            .iter()
            .map(|object| object.bbox.center.position.x)
            .collect()
    }

    #[test]
    fn of_what_two_vehicles_see_the_better_one_is_kept() {
        let one = [
            object(CAR, 0.5, 10.0, 0.0),
            object(CAR, 0.9, 20.0, 0.0),
            object(PEDESTRIAN, 0.6, 30.0, 0.0),
            // Two of one vehicle are two, however near.
            object(CAR, 0.4, 40.0, 0.0),
            object(CAR, 0.4, 40.5, 0.0),
        ];
        let two = [
            object(CAR, 0.8, 10.9, 1.1),
            object(CAR, 0.7, 21.6, 0.0),
            object(CAR, 0.7, 30.0, 0.0),
        ];
        let (kept, merged) = merge([&one[..], &two[..]].into_iter());
        assert_eq!(merged, 1);
        assert_eq!(xs(&kept), [20.0, 10.9, 21.6, 30.0, 30.0, 40.0, 40.5]);
        // In any order of the vehicles, and nothing of nothing.
        let (mut other, merged) = merge([&two[..], &one[..]].into_iter());
        assert_eq!(merged, 1);
        other.sort_by(|a, b| {
            a.bbox
                .center
                .position
                .x
                .total_cmp(&b.bbox.center.position.x)
        });
        assert_eq!(xs(&other), [10.9, 20.0, 21.6, 30.0, 30.0, 40.0, 40.5]);
        assert_eq!(merge(std::iter::empty()), (Vec::new(), 0));
    }

    #[test]
    fn objects_say_whose_they_are() {
        let mut vehicle = Contribution::new("veh1", Some(&at(100.0, 0.0))).unwrap();
        vehicle.list(list(7, vec![object(CAR, 0.5, 1.0, 2.0)]), 0, AGE);
        let objects = vehicle.objects(0, AGE);
        assert_eq!(xs(objects), [101.0]);
        assert_eq!(objects[0].header.frame_id, "map");
        let origin = &objects[0].source_cloud.header;
        assert_eq!(
            (&*origin.frame_id, origin.seq, origin.stamp.secs),
            ("veh1/velodyne", 7, 7)
        );
    }

    #[test]
    fn what_is_left_out_is_counted_by_its_reason() {
        let mut vehicle = Contribution::new("veh1", None).unwrap();
        let count = |vehicle: &mut Contribution, now| vehicle.objects(now, AGE).len();
        assert_eq!(count(&mut vehicle, 0), 0);
        let seen = || vec![object(CAR, 0.5, 1.0, 0.0)];
        vehicle.list(list(1, seen()), SECOND, AGE);
        assert_eq!(count(&mut vehicle, SECOND), 0);
        vehicle.locate(&pose(0, 50.0), 2 * SECOND).unwrap();
        vehicle.list(list(2, seen()), 2 * SECOND, AGE);
        assert_eq!(count(&mut vehicle, 2 * SECOND + SECOND / 2), 1);
        assert_eq!(count(&mut vehicle, 2 * SECOND + SECOND / 2 + 1), 0);
        // A pose that is older than allowed is none.
        vehicle.list(list(3, seen()), 3 * SECOND, AGE);
        assert_eq!(count(&mut vehicle, 3 * SECOND), 0);
        let expected = Share {
            included: 1,
            stale: 1,
            unplaced: 2,
            absent: 1,
        };
        assert_eq!(vehicle.share(), expected);
    }

    #[test]
    fn a_scan_is_placed_by_the_pose_of_its_time_or_the_newest() {
        let mut vehicle = Contribution::new("veh1", None).unwrap();
        // More than are kept.
        for secs in 0..20 {
            vehicle
                .locate(&pose(secs, f64::from(secs) * 10.0), 0)
                .unwrap();
        }
        assert_eq!(vehicle.poses.len(), POSES);
        let mut place = |secs| {
            vehicle.list(list(secs, vec![object(CAR, 0.5, 1.0, 0.0)]), 0, AGE);
            xs(vehicle.objects(0, AGE))
        };
        assert_eq!(place(17), [171.0]);
        assert_eq!(place(3), [191.0]);
        assert_eq!(place(99), [191.0]);
        let foreign = PoseStamped {
            header: Header::default(),
            ..pose(0, 0.0)
        };
        let error = vehicle.locate(&foreign, 0).unwrap_err();
        assert!(error.contains("in frame ``, not in `map`"), "{error}");
    }
}
