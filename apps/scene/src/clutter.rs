//! Bodies without a label that are easily taken for road users.

use std::f32::consts::{FRAC_1_SQRT_2, TAU};

use crate::elementary::sin_cos;
use crate::random::Random;
use crate::shape::{Foliage, Shape};
use crate::solid::{Solid, Surface};

/// One of those that stand in a parking strip or a yard, with the radius of its place in metres.
pub(crate) fn large(random: &mut Random) -> (Shape, f32) {
    match random.below(5) {
        0 => (trailer(random), 2.2),
        1 => (container(random), 2.5),
        2 => (shelter(random), 2.0),
        3 => (shrubbery(random, 2.0), 2.0),
        _ => (crates(random), 1.2),
    }
}

/// One of those that stand on a pavement, with the radius of its place in metres.
pub(crate) fn small(random: &mut Random) -> (Shape, f32) {
    match random.below(6) {
        0 => (pillar(random), 0.6),
        1 => (bins(random), 1.0),
        2 => (shrubbery(random, 0.7), 0.7),
        3 => (sapling(random), 0.5),
        4 => (board(random), 0.6),
        _ => (bollard(random), 0.3),
    }
}

/// A box trailer or a low one with a load, without what pulls it.
fn trailer(random: &mut Random) -> Shape {
    let (x, y) = (random.range(1.0, 2.6), random.range(0.6, 1.05));
    let bottom = random.range(0.35, 0.6);
    let top = bottom + random.range(0.3, 2.0);
    let skin = Surface::matt(random.range(0.1, 0.9));
    let mut solids = vec![
        Solid::cuboid([-x, -y, bottom], [x, y, top], skin),
        Solid::cuboid([x, -0.06, 0.35], [x + 1.2, 0.06, 0.5], Surface::matt(0.2)),
    ];
    for side in [-1.0, 1.0] {
        let wheel = side * (y - 0.1);
        solids.push(Solid::cuboid(
            [-0.3, wheel - 0.1, 0.0],
            [0.3, wheel + 0.1, 0.6],
            Surface::matt(0.08),
        ));
    }
    Shape::new(solids, vec![])
}

/// A skip with sloping ends, or a site hut.
fn container(random: &mut Random) -> Shape {
    let (x, y) = (random.range(1.2, 3.0), random.range(0.8, 1.25));
    let height = random.range(0.9, 2.7);
    let mut body = Solid::cuboid(
        [-x, -y, 0.0],
        [x, y, height],
        Surface::matt(random.range(0.1, 0.7)),
    );
    if height < 1.7 {
        let lean = random.range(0.3, 0.9);
        for end in [-1.0, 1.0] {
            body = body.cut([end, 0.0, -lean], [end * x, 0.0, height]);
        }
    }
    Shape::new(vec![body], vec![])
}

/// A bus shelter: glass on three sides, a roof, a bench.
fn shelter(random: &mut Random) -> Shape {
    let (x, y) = (random.range(1.2, 2.2), random.range(0.6, 0.9));
    let height = random.range(2.2, 2.6);
    let glass = Surface::matt(0.3).glass(1.0);
    let frame = Surface::matt(random.range(0.2, 0.6));
    let mut solids = vec![
        Solid::cuboid([-x, y - 0.05, 0.1], [x, y, height], glass),
        Solid::cuboid([-x, -y, height - 0.1], [x, y, height], frame),
        Solid::cuboid([-0.6 * x, 0.2 * y, 0.4], [0.6 * x, 0.8 * y, 0.5], frame),
    ];
    for end in [-1.0, 1.0] {
        solids.push(Solid::column([end * x, -y], 0.05, [0.0, height], frame));
        let (low, high) = (end * x - 0.03, end * x + 0.03);
        solids.push(Solid::cuboid([low, -y, 0.1], [high, y, height], glass));
    }
    Shape::new(solids, vec![])
}

/// A ragged group of bushes.
fn shrubbery(random: &mut Random, reach: f32) -> Shape {
    let count = 2 + random.below(5);
    let foliage = (0..count)
        .map(|_| {
            let radius = random.range(0.25, 0.5 * reach + 0.15);
            let height = random.range(0.25, 1.1);
            Foliage {
                center: [
                    random.range(-0.6, 0.6) * reach,
                    random.range(-0.6, 0.6) * reach,
                    height * random.range(0.5, 1.0),
                ],
                radii: [radius, radius * random.range(0.6, 1.0), height],
                depth: random.range(0.05, 0.8),
                reflectivity: random.range(0.2, 0.6),
            }
        })
        .collect();
    Shape::new(vec![], foliage)
}

/// A tree with boughs of its own, some of them low.
pub(crate) fn tree(random: &mut Random) -> Shape {
    let bark = Surface::matt(random.range(0.1, 0.5));
    let (radius, height) = (random.range(0.08, 0.4), random.range(2.0, 6.0));
    let mut solids = vec![Solid::column([0.0; 2], radius, [0.0, height], bark)];
    let foliage = (0..2 + random.below(4))
        .map(|_| {
            let (sin, cos) = sin_cos(random.range(-0.5, 0.5) * TAU);
            let (out, up) = (random.range(0.0, 2.0), random.range(0.4, 1.2) * height);
            let size = random.range(0.5, 1.8);
            Foliage {
                center: [out * cos, out * sin, up],
                radii: [size, size, size * random.range(0.5, 1.0)],
                depth: random.range(0.15, 1.5),
                reflectivity: 0.4,
            }
        })
        .collect();
    if random.chance(0.3) {
        // A second stem.
        let at = [random.range(0.2, 0.5), random.range(-0.3, 0.3)];
        solids.push(Solid::column(at, 0.6 * radius, [0.0, height], bark));
    }
    Shape::new(solids, foliage)
}

/// Boxes and sacks on one another.
fn crates(random: &mut Random) -> Shape {
    let solids = (0..1 + random.below(4))
        .map(|_| {
            let at = [random.range(-0.7, 0.7), random.range(-0.7, 0.7)];
            let (x, y) = (random.range(0.2, 0.7), random.range(0.2, 0.7));
            Solid::cuboid(
                [at[0] - x, at[1] - y, 0.0],
                [at[0] + x, at[1] + y, random.range(0.2, 1.6)],
                Surface::matt(random.range(0.1, 0.8)),
            )
        })
        .collect();
    Shape::new(solids, vec![])
}

/// An advertising column, a gatepost or an arcade's pillar.
fn pillar(random: &mut Random) -> Shape {
    let radius = random.range(0.12, 0.65);
    let column = Solid::column(
        [0.0; 2],
        radius,
        [0.0, random.range(1.2, 4.0)],
        Surface::matt(random.range(0.2, 0.8)),
    );
    Shape::new(vec![column], vec![])
}

/// Dustbins in a row.
fn bins(random: &mut Random) -> Shape {
    let count = 1 + random.below(4);
    let solids = (0..count)
        .map(|index| {
            let at = 0.65 * (index as f32 - 0.5 * count as f32);
            let half = random.range(0.22, 0.3);
            Solid::cuboid(
                [at - half, -half, 0.0],
                [at + half, half, random.range(0.9, 1.35)],
                Surface::matt(random.range(0.1, 0.6)),
            )
            .cut([0.0, FRAC_1_SQRT_2, FRAC_1_SQRT_2], [0.0, half, 0.95])
        })
        .collect();
    Shape::new(solids, vec![])
}

/// A young tree with its stake and a bushy top, about as large as a person.
fn sapling(random: &mut Random) -> Shape {
    let trunk = random.range(0.5, 1.8);
    let crown = random.range(0.2, 0.6);
    let stem = Solid::column([0.0; 2], 0.04, [0.0, trunk], Surface::matt(0.3));
    let foliage = Foliage {
        center: [0.0, 0.0, trunk],
        radii: [crown, crown, random.range(0.3, 0.8)],
        depth: random.range(0.05, 0.4),
        reflectivity: 0.4,
    };
    Shape::new(vec![stem], vec![foliage])
}

/// A board on two legs, or an A-board before a shop.
fn board(random: &mut Random) -> Shape {
    let (half, height) = (random.range(0.25, 0.6), random.range(0.8, 2.0));
    let metal = Surface::matt(random.range(0.2, 0.9));
    let bottom = random.range(0.0, 0.5 * height);
    let mut solids = vec![Solid::cuboid(
        [-0.05, -half, bottom],
        [0.05, half, height],
        metal,
    )];
    for side in [-1.0, 1.0] {
        solids.push(Solid::column(
            [0.0, side * half],
            0.03,
            [0.0, height],
            metal,
        ));
    }
    Shape::new(solids, vec![])
}

/// As high as a child or lower.
fn bollard(random: &mut Random) -> Shape {
    let column = Solid::column(
        [0.0; 2],
        random.range(0.06, 0.2),
        [0.0, random.range(0.4, 1.3)],
        Surface::matt(random.range(0.2, 0.8)),
    );
    Shape::new(vec![column], vec![])
}

/// What juts out of a house front of `length` along x: columns, awnings, stairs.
pub(crate) fn frontage(random: &mut Random, length: f32) -> Shape {
    let x = length / 2.0;
    let stone = Surface::matt(random.range(0.2, 0.7));
    let mut solids = Vec::new();
    if random.chance(0.4) {
        let gap = random.range(2.0, 4.5);
        let (half, top) = (random.range(0.12, 0.35), random.range(2.6, 4.0));
        for index in 0..(length / gap) as u32 {
            let at = index as f32 * gap - x;
            solids.push(Solid::cuboid(
                [at - half, -half, 0.0],
                [at + half, half, top],
                stone,
            ));
        }
    }
    for _ in 0..random.below(4) {
        let (at, half) = (random.range(-x, x), random.range(0.5, 2.0));
        let bottom = random.range(2.0, 2.8);
        solids.push(Solid::cuboid(
            [at - half, -0.9, bottom],
            [at + half, 0.6, bottom + 0.1],
            Surface::matt(0.4),
        ));
    }
    for _ in 0..random.below(3) {
        let (at, half) = (random.range(-x, x), random.range(0.4, 1.2));
        let top = random.range(0.15, 0.9);
        solids.push(Solid::cuboid(
            [at - half, -0.3, 0.0],
            [at + half, 0.6, top],
            stone,
        ));
    }
    Shape::new(solids, vec![])
}

/// Rails on posts along x, mostly open.
pub(crate) fn fence(random: &mut Random, length: f32) -> Shape {
    let x = length / 2.0;
    let height = random.range(0.7, 2.0);
    let mesh = Surface {
        through: random.range(0.5, 0.95),
        ..Surface::matt(0.3)
    };
    let mut solids = vec![Solid::cuboid([-x, -0.03, 0.1], [x, 0.03, height], mesh)];
    for index in 0..=(length / 2.5) as u32 {
        let at = [index as f32 * 2.5 - x, 0.0];
        solids.push(Solid::column(at, 0.05, [0.0, height], Surface::matt(0.4)));
    }
    Shape::new(solids, vec![])
}
