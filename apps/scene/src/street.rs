use std::f32::consts::{FRAC_PI_2, PI};

use crate::clutter;
use crate::elementary::sin_cos;
use crate::ground::Ground;
use crate::object::{Label, Object};
use crate::random::{Random, mix};
use crate::road_user::{Class, RoadUser};
use crate::scene::{LENGTH, Scene};
use crate::scenery;
use crate::shape::Shape;

/// What kind of street to build. Shares and densities are 0 to 1; values outside are clamped.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Street {
    /// Height of the sensor above the road, in metres.
    pub mount_height: f32,
    /// Rise of the ground per metre along x and y.
    pub slope: [f32; 2],
    /// Share of plots with a building on them; the others are yards, car parks and gardens.
    pub built_up: f32,
    /// Density of moving vehicles.
    pub traffic: f32,
    /// Density of parked vehicles.
    pub parked: f32,
    /// Density of pedestrians.
    pub people: f32,
    /// Density of trees, posts, street furniture, trailers and fences.
    pub clutter: f32,
    /// Share of lorries and buses among moving vehicles; a third of it among parked ones.
    pub lorries: f32,
    /// Density of cyclists.
    pub cyclists: f32,
}

/// An ordinary built-up street: a VLP-32C turn has about 49,000 returns of 57,984 in it.
impl Default for Street {
    fn default() -> Self {
        Self {
            mount_height: 1.9,
            slope: [0.0; 2],
            built_up: 0.75,
            traffic: 0.6,
            parked: 0.6,
            people: 0.6,
            clutter: 0.6,
            lorries: 0.15,
            cyclists: 0.24,
        }
    }
}

/// Radius around the sensor that the ego vehicle keeps free, in metres.
const EGO_RADIUS: f32 = 3.0;
const BICYCLE_LANE: f32 = 1.3;
const PARKING_STRIP: f32 = 2.3;

impl Street {
    /// The street of this kind with this seed.
    pub fn build(&self, seed: u64) -> Scene {
        let clamp = |share: f32| share.clamp(0.0, 1.0);
        let street = Self {
            built_up: clamp(self.built_up),
            traffic: clamp(self.traffic),
            parked: clamp(self.parked),
            people: clamp(self.people),
            clutter: clamp(self.clutter),
            lorries: clamp(self.lorries),
            cyclists: clamp(self.cyclists),
            ..*self
        };
        let mut random = Random::new(mix(seed));
        let layout = Layout::draw(&mut random, street.mount_height, street.slope);
        let mut builder = Builder {
            street,
            layout,
            random,
            occupied: vec![[0.0, 0.0, EGO_RADIUS]],
            objects: vec![],
        };
        builder.lanes();
        builder.parking();
        builder.plots();
        builder.pavements();
        builder.people();
        builder.clutter();
        Scene::new(
            layout.ground,
            builder.objects,
            street.mount_height,
            mix(!seed),
        )
    }
}

/// Cross-section of the street, from its middle outwards: lanes, bicycle lane, parking, pavement.
#[derive(Debug, Clone, Copy)]
struct Layout {
    ground: Ground,
    lane_width: f32,
    lanes_each_way: u32,
    /// Which lane of its side, counted from the middle, the sensor stands in.
    ego_lane: u32,
    pavement: f32,
}

impl Layout {
    fn draw(random: &mut Random, mount_height: f32, slope: [f32; 2]) -> Self {
        let lane_width = random.range(3.0, 3.6);
        let lanes_each_way = 1 + random.below(2);
        let ego_lane = random.below(lanes_each_way);
        let half_width = lanes_each_way as f32 * lane_width + BICYCLE_LANE + PARKING_STRIP;
        let ground = Ground {
            level: -mount_height,
            slope,
            // Traffic keeps right: the sensor's lane is right of the middle.
            middle: (ego_lane as f32 + 0.5) * lane_width,
            half_width,
            kerb: random.range(0.03, 0.18),
            reflectivity: random.range(0.1, 0.25),
        };
        Self {
            ground,
            lane_width,
            lanes_each_way,
            ego_lane,
            pavement: random.range(2.8, 5.0),
        }
    }
}

struct Builder {
    street: Street,
    layout: Layout,
    random: Random,
    /// Circles `[x, y, radius]` that something stands in.
    occupied: Vec<[f32; 3]>,
    objects: Vec<Object>,
}

impl Builder {
    fn lanes(&mut self) {
        for side in [-1.0, 1.0] {
            for lane in 0..self.layout.lanes_each_way {
                let lateral = side * (lane as f32 + 0.5) * self.layout.lane_width;
                // The sensor stands in a queue; the other lanes move.
                let queue = side < 0.0 && lane == self.layout.ego_lane;
                let speed = if queue {
                    0.0
                } else {
                    -side * self.random.range(4.0, 14.0)
                };
                let mut x = -LENGTH / 2.0 + self.random.range(0.0, 15.0);
                while x < LENGTH / 2.0 - 14.0 {
                    let vehicle = RoadUser::vehicle(&mut self.random, self.street.lorries);
                    let half = vehicle.size[0] / 2.0;
                    x += half;
                    let y = self.layout.ground.middle + lateral + 0.15 * self.random.normal();
                    let yaw = heading(side) + 0.02 * self.random.normal();
                    if self.random.chance(self.street.traffic)
                        && self.vehicle_fits(&vehicle, x, y, yaw)
                    {
                        self.add(vehicle, [x, y], yaw, speed);
                    }
                    x += half + self.random.range(2.0, 18.0);
                }
            }
        }
    }

    fn parking(&mut self) {
        let lateral = self.layout.ground.half_width - PARKING_STRIP / 2.0;
        for side in [-1.0, 1.0] {
            let fill = self.street.parked * self.random.range(0.5, 1.4);
            let mut x = -LENGTH / 2.0;
            while x < LENGTH / 2.0 {
                let vehicle = RoadUser::vehicle(&mut self.random, self.street.lorries / 3.0);
                let half = vehicle.size[0] / 2.0;
                x += half;
                let y = self.layout.ground.middle + side * lateral + 0.08 * self.random.normal();
                let turned = if self.random.chance(0.15) { PI } else { 0.0 };
                let yaw = heading(side) + turned + 0.02 * self.random.normal();
                if self.random.chance(fill) && self.vehicle_fits(&vehicle, x, y, yaw) {
                    self.add(vehicle, [x, y], yaw, 0.0);
                }
                x += half + self.random.range(0.7, 1.8);
            }
        }
    }

    /// Buildings, and on open plots yards with anything in them.
    fn plots(&mut self) {
        const END: f32 = 130.0;
        for side in [-1.0, 1.0] {
            let mut x = -END;
            while x < END {
                let length = self.random.range(8.0, 30.0);
                let front = self.layout.ground.half_width
                    + self.layout.pavement
                    + self.random.range(0.0, 2.5);
                if self.random.chance(self.street.built_up) {
                    let depth = self.random.range(8.0, 16.0);
                    let height = self.random.range(6.0, 22.0);
                    let house = scenery::building(&mut self.random, length, depth, height);
                    let y = self.layout.ground.middle + side * (front + 1.2 + depth / 2.0);
                    self.place(house, [x + length / 2.0, y], 0.0);
                } else {
                    self.yard(side, front, x + length / 2.0, length);
                }
                x += length
                    + if self.random.chance(0.2) {
                        self.random.range(1.0, 6.0)
                    } else {
                        0.0
                    };
            }
        }
        // Both ends meet a cross street.
        for end in [-1.0, 1.0] {
            if self.random.chance(self.street.built_up) {
                let height = self.random.range(8.0, 22.0);
                let house = scenery::building(&mut self.random, 60.0, 10.0, height);
                let x = end * self.random.range(110.0, 130.0);
                self.place(house, [x, self.layout.ground.middle], FRAC_PI_2);
            }
        }
    }

    fn yard(&mut self, side: f32, front: f32, x: f32, length: f32) {
        let middle = self.layout.ground.middle;
        if self.random.chance(0.5) {
            let height = self.random.range(0.6, 2.0);
            let shape = if self.random.chance(0.5) {
                scenery::wall(&mut self.random, length, height)
            } else {
                scenery::hedge(&mut self.random, length, height)
            };
            self.place(shape, [x, middle + side * front], 0.0);
        }
        let rows = if self.random.chance(self.street.parked) {
            1 + self.random.below(3)
        } else {
            0
        };
        for row in 0..rows {
            let lateral = side * (front + 4.0 + 7.0 * row as f32);
            let tilt = if self.random.chance(0.7) {
                FRAC_PI_2
            } else {
                self.random.range(-PI, PI)
            };
            let mut along = 1.5 - length / 2.0;
            while along < length / 2.0 - 1.5 {
                let car = RoadUser::car(&mut self.random);
                let flip = if self.random.chance(0.5) { PI } else { 0.0 };
                let yaw = tilt + flip + 0.04 * self.random.normal();
                let at = [x + along, middle + lateral];
                if self.random.chance(0.7) && self.vehicle_fits(&car, at[0], at[1], yaw) {
                    self.add(car, at, yaw, 0.0);
                }
                along += self.random.range(2.5, 3.3);
            }
        }
        for _ in 0..self.count(8.0, self.street.clutter) {
            let along = self.random.range(-0.5, 0.5) * length;
            let lateral = side * (front + self.random.range(1.0, 25.0));
            let shape = match self.random.below(4) {
                0 => scenery::tree(&mut self.random),
                1 => scenery::furniture(&mut self.random),
                2 => scenery::post(&mut self.random),
                _ => scenery::bush(&mut self.random),
            };
            let yaw = self.random.range(-PI, PI);
            self.place_if_free(shape, [x + along, middle + lateral], yaw, 0.8);
        }
    }

    /// Trees, posts and furniture at the kerb and along the house fronts.
    fn pavements(&mut self) {
        for side in [-1.0, 1.0] {
            let kerb = self.layout.ground.half_width;
            let fronts = kerb + self.layout.pavement;
            for _ in 0..self.count(50.0, self.street.clutter) {
                let x = self.random.range(-LENGTH / 2.0, LENGTH / 2.0);
                let (shape, lateral, radius) = match self.random.below(5) {
                    0 => (scenery::tree(&mut self.random), kerb + 0.6, 0.5),
                    1 | 2 => (scenery::post(&mut self.random), kerb + 0.4, 0.4),
                    3 => (scenery::furniture(&mut self.random), fronts, 0.8),
                    _ => (scenery::bush(&mut self.random), fronts, 0.8),
                };
                let lateral = lateral + 0.1 * self.random.normal();
                let yaw = if self.random.chance(0.7) {
                    0.0
                } else {
                    self.random.range(-PI, PI)
                };
                self.place_if_free(
                    shape,
                    [x, self.layout.ground.middle + side * lateral],
                    yaw,
                    radius,
                );
            }
        }
    }

    fn people(&mut self) {
        let kerb = self.layout.ground.half_width;
        for _ in 0..self.count(50.0, self.street.people) {
            let person = RoadUser::pedestrian(&mut self.random);
            let x = self.random.range(-80.0, 80.0);
            let walking = self.random.chance(0.7);
            let side = self.random.sign();
            let lateral = if walking {
                side * self
                    .random
                    .range(kerb + 1.1, kerb + self.layout.pavement - 0.6)
            } else {
                // Waiting, crossing, getting into a car.
                side * self.random.range(0.0, kerb + self.layout.pavement)
            };
            let at = [x, self.layout.ground.middle + lateral];
            let (yaw, speed) = if walking {
                let way = self.random.sign();
                (heading(-way), way * self.random.range(0.7, 1.8))
            } else {
                (self.random.range(-PI, PI), 0.0)
            };
            if self.free(at, 0.4) {
                self.add(person, at, yaw, speed);
            }
        }
        let lateral = kerb - PARKING_STRIP - BICYCLE_LANE / 2.0;
        for side in [-1.0, 1.0] {
            // One speed a lane: nobody rides into the one ahead.
            let speed = -side * self.random.range(3.0, 7.0);
            for _ in 0..self.count(25.0, self.street.cyclists) {
                let cyclist = RoadUser::cyclist(&mut self.random);
                let at = [
                    self.random.range(-80.0, 80.0),
                    self.layout.ground.middle + side * lateral,
                ];
                let yaw = heading(side) + 0.05 * self.random.normal();
                if self.free(at, 0.95) {
                    self.add(cyclist, at, yaw, speed);
                }
            }
        }
    }

    /// What is easily taken for a road user, and cyclists who are not where they belong.
    fn clutter(&mut self) {
        let middle = self.layout.ground.middle;
        let kerb = self.layout.ground.half_width;
        let fronts = kerb + self.layout.pavement;
        for _ in 0..self.count(5.0, self.street.cyclists) {
            let cyclist = RoadUser::cyclist(&mut self.random);
            let lateral = self.random.range(-fronts, fronts);
            let at = [self.random.range(-60.0, 60.0), middle + lateral];
            let yaw = self.random.range(-PI, PI);
            if self.free(at, 0.95) {
                self.add(cyclist, at, yaw, 0.0);
            }
        }
        for _ in 0..self.count(14.0, self.street.clutter) {
            let side = self.random.sign();
            let x = self.random.range(-LENGTH / 2.0, LENGTH / 2.0);
            let (shape, radius) = clutter::large(&mut self.random);
            let parked = self.random.chance(0.4);
            let lateral = if parked {
                kerb - PARKING_STRIP / 2.0
            } else {
                fronts + self.random.range(0.0, 12.0)
            };
            let yaw = if parked {
                0.0
            } else {
                self.random.range(-PI, PI)
            };
            self.place_if_free(shape, [x, middle + side * lateral], yaw, radius);
        }
        for _ in 0..self.count(30.0, self.street.clutter) {
            let side = self.random.sign();
            let x = self.random.range(-LENGTH / 2.0, LENGTH / 2.0);
            let (shape, radius) = match self.random.below(7) {
                0 => (clutter::tree(&mut self.random), 0.6),
                _ => clutter::small(&mut self.random),
            };
            let lateral = side * self.random.range(kerb + 0.3, fronts + 6.0);
            let yaw = self.random.range(-PI, PI);
            self.place_if_free(shape, [x, middle + lateral], yaw, radius);
        }
        for _ in 0..self.count(10.0, self.street.clutter) {
            let side = self.random.sign();
            let x = self.random.range(-LENGTH / 2.0, LENGTH / 2.0);
            let length = self.random.range(4.0, 16.0);
            let fence = self.random.chance(0.5);
            let shape = if fence {
                clutter::fence(&mut self.random, length)
            } else {
                clutter::frontage(&mut self.random, length)
            };
            let lateral = fronts + self.random.range(0.2, 1.0);
            self.place(shape, [x, middle + side * lateral], 0.0);
        }
    }

    fn count(&mut self, most: f32, density: f32) -> u32 {
        (most * density * self.random.range(0.4, 1.0)).round() as u32
    }

    fn free(&self, [x, y]: [f32; 2], radius: f32) -> bool {
        self.occupied.iter().all(|&[ox, oy, other]| {
            let reach = radius + other;
            (ox - x) * (ox - x) + (oy - y) * (oy - y) > reach * reach
        })
    }

    fn vehicle_fits(&self, vehicle: &RoadUser, x: f32, y: f32, yaw: f32) -> bool {
        circles(vehicle, [x, y], yaw)
            .iter()
            .all(|&[x, y, radius]| self.free([x, y], radius))
    }

    fn add(&mut self, user: RoadUser, [x, y]: [f32; 2], yaw: f32, speed: f32) {
        match user.class {
            Class::Car | Class::Truck => self.occupied.extend(circles(&user, [x, y], yaw)),
            Class::Pedestrian => self.occupied.push([x, y, 0.4]),
            Class::Cyclist => self.occupied.push([x, y, 0.95]),
        }
        let label = Label {
            class: user.class,
            size: user.size,
        };
        self.place(user.shape, [x, y], yaw);
        if let Some(object) = self.objects.last_mut() {
            object.speed = speed;
            object.label = Some(label);
        }
    }

    fn place_if_free(&mut self, shape: Shape, at: [f32; 2], yaw: f32, radius: f32) {
        if self.free(at, radius) {
            self.occupied.push([at[0], at[1], radius]);
            self.place(shape, at, yaw);
        }
    }

    fn place(&mut self, shape: Shape, [x, y]: [f32; 2], yaw: f32) {
        let z = self.layout.ground.height(x, y);
        self.objects.push(Object::new(shape, [x, y, z], yaw));
    }
}

/// Driving direction on a side of the road: right of the middle (`-1`) along x.
fn heading(side: f32) -> f32 {
    if side < 0.0 { 0.0 } else { PI }
}

/// Circles along a vehicle that together cover most of its footprint and little beside it.
fn circles(vehicle: &RoadUser, [x, y]: [f32; 2], yaw: f32) -> [[f32; 3]; 5] {
    let (sin, cos) = sin_cos(yaw);
    let [length, width, _] = vehicle.size;
    [-0.4, -0.2, 0.0, 0.2, 0.4].map(|share| {
        [
            x + share * length * cos,
            y + share * length * sin,
            width * 0.55,
        ]
    })
}
