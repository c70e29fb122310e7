//! The files of the page, compiled in.

/// A file: its path, its type, its content.
pub(crate) struct File {
    pub(crate) path: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) content: &'static [u8],
}

macro_rules! file {
    ($path:literal, $name:literal, $kind:literal) => {
        File {
            path: $path,
            kind: $kind,
            content: include_bytes!(concat!("../page/", $name)),
        }
    };
}

macro_rules! script {
    ($name:literal) => {
        File {
            path: concat!("/", $name),
            kind: "text/javascript; charset=utf-8",
            content: include_bytes!(concat!("../page/", $name)),
        }
    };
}

const FILES: &[File] = &[
    file!("/", "index.html", "text/html; charset=utf-8"),
    file!("/view.css", "view.css", "text/css; charset=utf-8"),
    file!("/icon.svg", "icon.svg", "image/svg+xml"),
    script!("main.js"),
    script!("camera.js"),
    script!("classes.js"),
    script!("controls.js"),
    script!("figures.js"),
    script!("message.js"),
    script!("overlay.js"),
    script!("panel.js"),
    script!("scene.js"),
    script!("spark.js"),
    script!("theme.js"),
];

pub(crate) fn find(path: &str) -> Option<&'static File> {
    FILES.iter().find(|file| file.path == path)
}
