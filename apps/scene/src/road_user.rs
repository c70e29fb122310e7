//! Bodies of what moves on a street. Dimensions are those of ordinary European traffic.

use crate::random::Random;
use crate::shape::Shape;
use crate::solid::{Solid, Surface};

/// Kind of a labelled object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// Passenger cars, vans and pickups.
    Car,
    /// Lorries and buses.
    Truck,
    /// People on foot.
    Pedestrian,
    /// Bicycles and motorcycles, with or without a rider.
    Cyclist,
}

/// A body and its label: the box is `[length, width, height]` in metres.
#[derive(Debug, Clone)]
pub(crate) struct RoadUser {
    pub(crate) class: Class,
    pub(crate) size: [f32; 3],
    pub(crate) shape: Shape,
}

impl RoadUser {
    /// Cars mostly, some lorries and buses.
    pub(crate) fn vehicle(random: &mut Random, heavy: f32) -> Self {
        if !random.chance(heavy) {
            return Self::car(random);
        }
        if random.chance(0.35) {
            Self::bus(random)
        } else {
            Self::lorry(random)
        }
    }

    pub(crate) fn car(random: &mut Random) -> Self {
        let body = Body::draw(random);
        let [length, width, height] = body.size(random);
        let (front, side) = (length / 2.0, width / 2.0);
        let paint = Surface::matt(paint(random));
        let clearance = random.range(0.15, 0.3);
        let belt = height * random.range(0.52, 0.64);

        let bevel = random.range(0.5, 1.3);
        let mut lower = Solid::cuboid([-front, -side, clearance], [front, side, belt], paint)
            .cut(
                [1.0, 0.0, random.range(0.1, 0.5)],
                [front, 0.0, belt * 0.75],
            )
            .cut(
                [-1.0, 0.0, random.range(0.05, 0.3)],
                [-front, 0.0, belt * 0.8],
            );
        for sign in [-1.0, 1.0] {
            lower = lower
                .cut([1.0, sign * bevel, 0.0], [front, sign * (side - 0.3), 0.0])
                .cut(
                    [-1.0, sign * bevel, 0.0],
                    [-front, sign * (side - 0.2), 0.0],
                )
                .cut([0.0, sign, 0.12], [0.0, sign * side, belt * 0.7]);
        }

        // x of windscreen foot and top, rear window foot and top, as shares of the length.
        let [screen, roof_front, tail, roof_rear] = body.cabin().map(|share| share * length);
        let jitter = random.range(-0.1, 0.1);
        let rise = height - belt;
        let glass = paint.glass(random.range(0.1, 0.7));
        let tumblehome = random.range(0.08, 0.22);
        let mut cabin = Solid::cuboid(
            [tail, -side, belt - 0.02],
            [screen + 0.1, side, height],
            glass,
        )
        .cut(
            [rise, 0.0, screen - roof_front],
            [screen + jitter, 0.0, belt],
        )
        .cut(
            [-rise, 0.0, (roof_rear - tail).max(0.02)],
            [tail, 0.0, belt],
        );
        for sign in [-1.0, 1.0] {
            cabin = cabin.cut(
                [0.0, sign * rise, tumblehome],
                [0.0, sign * (side - 0.03), belt],
            );
        }

        let mut solids = vec![lower, cabin];
        if body == Body::Pickup {
            for sign in [-1.0, 1.0] {
                let (inner, outer) = (sign * (side - 0.1), sign * side);
                solids.push(Solid::cuboid(
                    [-front, inner.min(outer), belt - 0.1],
                    [-0.12 * length, inner.max(outer), belt + 0.15],
                    paint,
                ));
            }
        }
        for sign in [-1.0, 1.0] {
            let mirror = sign * (side + 0.1);
            solids.push(Solid::cuboid(
                [0.16 * length, mirror - 0.1, belt],
                [0.16 * length + 0.15, mirror + 0.1, belt + 0.15],
                Surface::matt(paint.reflectivity * 0.5),
            ));
        }
        let radius = random.range(0.29, 0.38);
        solids.extend(wheels(
            &[-0.31 * length, 0.31 * length],
            side - 0.12,
            radius,
            0.11,
        ));
        Self {
            class: Class::Car,
            size: [length, width, height],
            shape: Shape::new(solids, vec![]),
        }
    }

    fn bus(random: &mut Random) -> Self {
        let length = random.range(8.5, 13.0);
        let (width, height) = (random.range(2.4, 2.55), random.range(2.8, 3.6));
        let (front, side) = (length / 2.0, width / 2.0);
        let paint = Surface::matt(paint(random)).glass(0.25);
        let mut solids = vec![
            Solid::cuboid([-front, -side, 0.35], [front, side, height], paint)
                .cut([1.0, 0.0, 0.15], [front, 0.0, height * 0.5]),
        ];
        solids.extend(wheels(
            &[-0.28 * length, 0.3 * length],
            side - 0.2,
            0.48,
            0.15,
        ));
        Self {
            class: Class::Truck,
            size: [length, width, height],
            shape: Shape::new(solids, vec![]),
        }
    }

    fn lorry(random: &mut Random) -> Self {
        let length = random.range(6.0, 12.5);
        let (width, height) = (random.range(2.2, 2.55), random.range(2.7, 3.9));
        let (front, side) = (length / 2.0, width / 2.0);
        let cab = random.range(1.6, 2.4);
        let cab_top = height * random.range(0.7, 1.0);
        let bed = random.range(0.8, 1.2);
        let mut solids = vec![
            Solid::cuboid(
                [front - cab, 0.05 - side, 0.5],
                [front, side - 0.05, cab_top],
                Surface::matt(paint(random)).glass(0.15),
            )
            .cut(
                [1.0, 0.0, random.range(0.05, 0.4)],
                [front, 0.0, cab_top * 0.55],
            ),
            // Chassis.
            Solid::cuboid(
                [-front, 0.5 - side, 0.5],
                [front - 0.5, side - 0.5, bed],
                Surface::matt(0.1),
            ),
        ];
        let load = Surface::matt(random.range(0.1, 0.9));
        let load_front = front - cab - random.range(0.1, 0.6);
        let flatbed = random.chance(0.25);
        let load_top = if flatbed { bed + 0.3 } else { height };
        solids.push(Solid::cuboid(
            [-front, -side, bed],
            [load_front, side, load_top],
            load,
        ));
        if flatbed {
            let start = random.range(-front, 0.0);
            let end = (start + random.range(1.0, 0.4 * length)).min(load_front);
            let top = bed + random.range(0.8, 1.6);
            solids.push(Solid::cuboid(
                [start, 0.2 - side, bed + 0.3],
                [end, side - 0.2, top],
                load,
            ));
        }
        let axles = [-0.36 * length, -0.26 * length, 0.32 * length];
        solids.extend(wheels(&axles, side - 0.2, 0.5, 0.15));
        // A flatbed is as high as its cab.
        let top = if flatbed {
            cab_top.max(bed + 1.6).min(height)
        } else {
            height
        };
        Self {
            class: Class::Truck,
            size: [length, width, top],
            shape: Shape::new(solids, vec![]),
        }
    }

    pub(crate) fn pedestrian(random: &mut Random) -> Self {
        let height = if random.chance(0.15) {
            random.range(1.0, 1.45)
        } else {
            random.range(1.5, 1.95)
        };
        let stride = random.range(0.0, 0.35);
        let shoulder = random.range(0.18, 0.27);
        let legs = Surface::matt(random.range(0.05, 0.6));
        let coat = Surface::matt(random.range(0.1, 0.8));
        let arm = random.range(-0.2, 0.25);
        let mut solids = vec![
            Solid::column([0.0, 0.0], shoulder, [height * 0.46, height * 0.84], coat)
                .cut([1.0, 0.0, 0.0], [shoulder * 0.7, 0.0, 0.0])
                .cut([-1.0, 0.0, 0.0], [-shoulder * 0.7, 0.0, 0.0]),
            Solid::column([0.0, 0.0], 0.1, [height * 0.85, height], Surface::matt(0.3)),
        ];
        let leg = random.range(0.06, 0.1);
        for sign in [-1.0, 1.0] {
            solids.push(Solid::column(
                [sign * stride, sign * 0.1],
                leg,
                [0.0, height * 0.48],
                legs,
            ));
            let hand = [sign * arm, sign * (shoulder + 0.04)];
            solids.push(Solid::column(
                hand,
                0.055,
                [height * 0.42, height * 0.8],
                coat,
            ));
        }
        let length = 2.0 * (stride.max(arm.abs()) + 0.12);
        let width = 2.0 * (shoulder + 0.1);
        Self {
            class: Class::Pedestrian,
            size: [length, width, height],
            shape: Shape::new(solids, vec![]),
        }
    }

    pub(crate) fn cyclist(random: &mut Random) -> Self {
        let length = random.range(1.55, 2.0);
        let motor = random.chance(0.25);
        let thickness = if motor { 0.15 } else { 0.04 };
        let open = |share| Surface {
            through: share,
            ..Surface::matt(0.25)
        };
        let (wheel, hub) = (0.33, length / 2.0 - 0.33);
        let mut solids = vec![Solid::cuboid(
            [-hub, -thickness, 0.4],
            [hub, thickness, 0.95],
            open(if motor { 0.0 } else { 0.5 }),
        )];
        for center in [-hub, hub] {
            solids.push(Solid::cuboid(
                [center - wheel, -thickness, 0.0],
                [center + wheel, thickness, 2.0 * wheel],
                open(if motor { 0.0 } else { 0.6 }),
            ));
        }
        // Handlebar.
        solids.push(Solid::cuboid(
            [hub - 0.25, -0.28, 1.0],
            [hub - 0.15, 0.28, 1.08],
            open(0.0),
        ));
        let rider = motor || random.chance(0.9);
        let mut height = 1.08;
        if rider {
            height = random.range(1.55, 1.9);
            let coat = Surface::matt(random.range(0.1, 0.8));
            let lean = random.range(0.1, 0.5);
            let neck = height - 0.25;
            let torso = Solid::cuboid([-0.6, -0.2, 0.85], [0.6, 0.2, neck], coat)
                .cut([1.0, 0.0, -lean], [0.05, 0.0, 0.85])
                .cut([-1.0, 0.0, lean], [-0.25, 0.0, 0.85]);
            let head = [lean * (neck - 0.85) - 0.05, 0.0];
            solids.push(torso);
            solids.push(Solid::column(
                head,
                0.12,
                [neck, height],
                Surface::matt(0.3),
            ));
            for sign in [-1.0, 1.0] {
                let leg = sign * 0.15;
                solids.push(Solid::cuboid(
                    [-0.1, leg - 0.06, 0.35],
                    [0.25, leg + 0.06, 0.9],
                    coat,
                ));
            }
        }
        let width = if motor { 0.75 } else { 0.6 };
        Self {
            class: Class::Cyclist,
            size: [length, width, height],
            shape: Shape::new(solids, vec![]),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Body {
    Saloon,
    Hatchback,
    Estate,
    Van,
    Pickup,
}

impl Body {
    fn draw(random: &mut Random) -> Self {
        match random.unit() {
            share if share < 0.3 => Self::Saloon,
            share if share < 0.6 => Self::Hatchback,
            share if share < 0.85 => Self::Estate,
            share if share < 0.95 => Self::Van,
            _ => Self::Pickup,
        }
    }

    fn size(self, random: &mut Random) -> [f32; 3] {
        let mut size = |length: [f32; 2], width: [f32; 2], height: [f32; 2]| {
            [length, width, height].map(|[low, high]| random.range(low, high))
        };
        match self {
            Self::Saloon => size([4.2, 5.1], [1.7, 1.95], [1.38, 1.55]),
            Self::Hatchback => size([3.5, 4.4], [1.6, 1.85], [1.4, 1.6]),
            Self::Estate => size([4.2, 5.0], [1.75, 2.0], [1.5, 1.85]),
            Self::Van => size([4.4, 5.9], [1.8, 2.05], [1.8, 2.5]),
            Self::Pickup => size([4.9, 5.8], [1.8, 2.05], [1.7, 1.95]),
        }
    }

    fn cabin(self) -> [f32; 4] {
        match self {
            Self::Saloon => [0.18, -0.02, -0.40, -0.22],
            Self::Hatchback => [0.20, 0.02, -0.47, -0.36],
            Self::Estate => [0.20, 0.04, -0.485, -0.44],
            Self::Van => [0.33, 0.20, -0.49, -0.475],
            Self::Pickup => [0.16, 0.02, -0.12, -0.08],
        }
    }
}

/// Car paint: black, middling, or bright.
fn paint(random: &mut Random) -> f32 {
    match random.below(4) {
        0 => random.range(0.03, 0.08),
        1 => random.range(0.08, 0.3),
        _ => random.range(0.3, 0.9),
    }
}

fn wheels(axles: &[f32], track: f32, radius: f32, half_width: f32) -> Vec<Solid> {
    let mut wheels = Vec::with_capacity(2 * axles.len());
    for &x in axles {
        for y in [-track, track] {
            let low = [x - radius, y - half_width, 0.0];
            let high = [x + radius, y + half_width, 2.0 * radius];
            let mut wheel = Solid::cuboid(low, high, Surface::matt(0.08));
            for [a, c] in [[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]] {
                let [a, c] = [a, c].map(|sign: f32| sign * std::f32::consts::FRAC_1_SQRT_2);
                wheel = wheel.cut([a, 0.0, c], [x + a * radius, y, radius + c * radius]);
            }
            wheels.push(wheel);
        }
    }
    wheels
}
