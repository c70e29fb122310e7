//! Bodies of what stands beside a street and has no label.

use crate::random::Random;
use crate::shape::{Foliage, Shape};
use crate::solid::{Solid, Surface};

/// A house front `length` along x and `depth` along y, with bays, balconies and doors.
pub(crate) fn building(random: &mut Random, length: f32, depth: f32, height: f32) -> Shape {
    let (x, y) = (length / 2.0, depth / 2.0);
    let mirror = random.range(0.05, 0.3);
    let wall = Surface {
        mirror,
        ..Surface::matt(random.range(0.15, 0.7))
    };
    // Half a metre into the ground: no gap on a slope.
    let mut solids = vec![Solid::cuboid([-x, -y, -0.5], [x, y, height], wall)];
    for _ in 0..random.below(6) {
        let start = random.range(-x, x - 1.0);
        let end = (start + random.range(0.5, 4.0)).min(x);
        let out = random.range(0.2, 1.2);
        let bottom = if random.chance(0.5) {
            0.0
        } else {
            random.range(2.0, 4.0)
        };
        let top = bottom + random.range(0.5, 3.5);
        solids.push(Solid::cuboid(
            [start, -y - out, bottom],
            [end, y + out, top],
            wall,
        ));
    }
    Shape::new(solids, vec![])
}

/// A straight wall or fence.
pub(crate) fn wall(random: &mut Random, length: f32, height: f32) -> Shape {
    let x = length / 2.0;
    let open = if random.chance(0.4) {
        random.range(0.2, 0.7)
    } else {
        0.0
    };
    let surface = Surface {
        through: open,
        ..Surface::matt(0.3)
    };
    Shape::new(
        vec![Solid::cuboid([-x, -0.12, -0.2], [x, 0.12, height], surface)],
        vec![],
    )
}

/// A row of bushes along x.
pub(crate) fn hedge(random: &mut Random, length: f32, height: f32) -> Shape {
    let depth = random.range(0.15, 0.5);
    let count = (length / 1.2).max(1.0) as u32;
    let foliage = (0..count)
        .map(|index| Foliage {
            center: [(index as f32 + 0.5) * 1.2 - length / 2.0, 0.0, height * 0.5],
            radii: [0.8, 0.6, height * 0.55],
            depth,
            reflectivity: 0.4,
        })
        .collect();
    Shape::new(vec![], foliage)
}

pub(crate) fn tree(random: &mut Random) -> Shape {
    let trunk = random.range(1.2, 3.5);
    let bark = Surface::matt(random.range(0.1, 0.5));
    let crown = random.range(0.8, 3.5);
    let half_height = random.range(1.0, 4.0);
    let foliage = Foliage {
        center: [
            0.3 * random.normal(),
            0.3 * random.normal(),
            trunk + 0.6 * half_height,
        ],
        radii: [crown, crown * random.range(0.8, 1.0), half_height],
        depth: random.range(0.3, 2.0),
        reflectivity: 0.4,
    };
    let radius = random.range(0.06, 0.35);
    Shape::new(
        vec![Solid::column([0.0; 2], radius, [0.0, trunk + 1.5], bark)],
        vec![foliage],
    )
}

pub(crate) fn bush(random: &mut Random) -> Shape {
    let (radius, height) = (random.range(0.4, 1.6), random.range(0.3, 1.2));
    let foliage = Foliage {
        center: [0.0, 0.0, 0.6 * height],
        radii: [radius, radius * random.range(0.5, 1.0), height],
        depth: random.range(0.15, 1.0),
        reflectivity: 0.4,
    };
    Shape::new(vec![], vec![foliage])
}

/// A lamp post, a bollard, or a post with a retroreflecting sign.
pub(crate) fn post(random: &mut Random) -> Shape {
    let radius = random.range(0.03, 0.18);
    let height = if random.chance(0.3) {
        random.range(0.6, 1.2)
    } else {
        random.range(2.0, 9.0)
    };
    let metal = Surface::matt(random.range(0.2, 0.8));
    let mut solids = vec![Solid::column([0.0; 2], radius, [0.0, height], metal)];
    if height > 2.0 && random.chance(0.4) {
        let half = random.range(0.2, 0.5);
        solids.push(Solid::cuboid(
            [-0.05, -half, height - 2.0 * half],
            [0.05, half, height],
            Surface::matt(RETROREFLECTIVE),
        ));
    }
    Shape::new(solids, vec![])
}

/// Reflectivity above 1 stands for a retroreflector.
const RETROREFLECTIVE: f32 = 2.0;

/// A bin, a bench, a cabinet.
pub(crate) fn furniture(random: &mut Random) -> Shape {
    let (x, y) = (random.range(0.15, 1.5), random.range(0.12, 0.7));
    let height = random.range(0.3, 2.2);
    let bottom = if random.chance(0.2) {
        height * 0.6
    } else {
        0.0
    };
    let surface = Surface::matt(random.range(0.1, 0.8));
    Shape::new(
        vec![Solid::cuboid([-x, -y, bottom], [x, y, height], surface)],
        vec![],
    )
}
