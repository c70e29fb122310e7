//! `--view`: what a page gets from real runs, and what a real browser makes of it.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod browser;
mod process;

use std::io::{Read, Write};
use std::net::TcpStream;

use browser::Browser;
use nix::sys::signal::Signal;
use process::{Process, peer, roundtrip};
use serde_json::Value;

/// Starts a command with a view on a free port, and says where it is.
fn with_view(arguments: &[&str]) -> (Process, String) {
    let mut command = roundtrip(arguments);
    command.args(["--view", "127.0.0.1:0", "--source=synthetic:1?turns=4"]);
    // Longer than any test looks, and for an edge that may take its time.
    command.args([
        "--samples=100000",
        "--warmup=2",
        "--rate=2",
        "--local-detector=off",
    ]);
    let mut process = Process::start(command);
    process.says("view: http://");
    process.says("/\n");
    let url = process.said.split("view: http://").nth(1).unwrap();
    let address = url.split('/').next().unwrap().to_owned();
    (process, address)
}

/// The head and the points of what is new.
fn news(address: &str, stream: usize, after: u64) -> (Value, Vec<u8>) {
    let mut connection = TcpStream::connect(address).unwrap();
    connection
        .set_read_timeout(Some(process::WATCHDOG))
        .unwrap();
    let question = format!(
        "GET /live?stream={stream}&after={after} HTTP/1.1\r\nHost: {address}\r\nConnection: \
         close\r\n\r\n"
    );
    connection.write_all(question.as_bytes()).unwrap();
    let mut answer = Vec::new();
    connection.read_to_end(&mut answer).unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 200"));
    let body = answer
        .windows(4)
        .position(|end| end == b"\r\n\r\n")
        .unwrap()
        + 4;
    let body = &answer[body..];
    assert_eq!(&body[..4], b"RTV1");
    let length = u32::from_le_bytes(body[4..8].try_into().unwrap()) as usize;
    let head = serde_json::from_slice(&body[8..8 + length]).unwrap();
    (head, body[8 + length..].to_vec())
}

/// Asks as a page does until a frame with objects of the edge is there.
fn answered_frame(address: &str, stream: usize) -> (Value, Vec<u8>) {
    let begin = std::time::Instant::now();
    let mut after = 0;
    loop {
        let (head, points) = news(address, stream, after);
        if head["frame"]["source"] == "edge" && head["frame"]["objects"] != Value::Array(vec![]) {
            return (head, points);
        }
        assert!(begin.elapsed() < process::WATCHDOG, "no objects: {head:#}");
        after = head["version"].as_u64().unwrap();
    }
}

#[test]
fn a_run_shows_the_scans_that_its_vehicle_sends_and_the_objects_in_them() {
    let results = tempfile::tempdir().unwrap();
    let folder = results.path().to_str().unwrap();
    let transports = ["--transport=local:view", "--transport=local:view-2"];
    let (mut run, address) = with_view(&["run", "--results", folder, transports[0], transports[1]]);
    let (head, points) = answered_frame(&address, 0);
    let labels: Vec<_> = [0, 1].map(|n| head["streams"][n]["label"].clone()).to_vec();
    assert_eq!(labels, ["local", "local-2"]);
    assert_eq!(head["streams"][1]["state"]["is"], "waiting");
    assert!(points.len() > 8 * 10_000, "{} bytes", points.len());
    let object = &head["frame"]["objects"][0];
    assert!(
        (1..=4).contains(&object["class"].as_i64().unwrap()),
        "{object}"
    );
    run.send(Signal::SIGINT);
    assert_eq!(run.code(), Some(1), "{}", run.said);
}

#[test]
fn a_lone_vehicle_shows_its_clouds() {
    let arguments = [
        "vehicle",
        "--with-edge",
        "--transport=local:view",
        "--data-type=cloud",
    ];
    let (mut vehicle, address) = with_view(&arguments);
    let (head, points) = answered_frame(&address, 0);
    assert_eq!(head["frame"]["data_type"], "cloud");
    assert_eq!(head["frame"]["rings"], 32);
    assert!(points.len() > 8 * 10_000, "{} bytes", points.len());
    vehicle.send(Signal::SIGTERM);
    vehicle.code();
}

#[test]
fn an_address_that_cannot_be_had_is_an_error_that_says_what_to_do() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = roundtrip(&["run", "--view", &address]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(
        said.contains(&address) && said.contains("--view ADDRESS"),
        "{said}"
    );
}

/// Colours on the cloud's canvas, read in the frame in which it is drawn, and the share of pixels that
/// points cover.
const PIXELS: &str = "new Promise((done) => {
  const cloud = document.getElementById('cloud');
  const copy = new OffscreenCanvas(cloud.width, cloud.height).getContext('2d');
  const look = () => {
    copy.drawImage(cloud, 0, 0);
    const { data } = copy.getImageData(0, 0, cloud.width, cloud.height);
    const colours = new Set();
    let covered = 0;
    for (let n = 0; n < data.length; n += 4) {
      if (data[n + 3] < 255) continue;
      covered += 1;
      colours.add((data[n] << 16) | (data[n + 1] << 8) | data[n + 2]);
    }
    // Nothing was drawn in this frame: the next one, then.
    if (covered === 0) requestAnimationFrame(look);
    else done([colours.size, covered / (data.length / 4)]);
  };
  requestAnimationFrame(look);
})";

/// What the parts of the page that only compute give for known values.
const ARITHMETIC: &str = "(async () => {
  const { quantile, millis, Window } = await import('/figures.js');
  const { decode } = await import('/message.js');
  const camera = await import('/camera.js');
  const wrong = [];
  const same = (what, is, should) => {
    if (JSON.stringify(is) !== JSON.stringify(should)) wrong.push(`${what}: ${JSON.stringify(is)}`);
  };
  same('median', quantile([5, 1, 4, 2, 3], 0.5), 3);
  same('95 %', quantile(Array.from({ length: 100 }, (_, n) => n + 1), 0.95), 95);
  same('none', quantile([], 0.5), null);
  same('ms', [1234, 12345, 123456, null].map(millis), ['1.23', '12.3', '123', '–']);
  const window = new Window();
  for (let n = 0; n < 700; n++) window.push([{ n }]);
  same('window', [window.samples.length, window.samples[0].n], [600, 100]);
  for (const bytes of [[], [1, 2, 3, 4, 5, 6, 7, 8], [82, 84, 86, 49, 255, 255, 255, 255]]) {
    let refused = false;
    try { decode(new Uint8Array(bytes).buffer); } catch { refused = true; }
    same(`refuses ${bytes}`, refused, true);
  }
  // From above: ahead is up, left is left, and what is looked at is in the middle.
  const above = camera.matrix(camera.start(true), 1);
  const at = (point) => camera.project(above, point, 100, 100).map(Math.round);
  same('middle', at([0, 0, 0]), [50, 50]);
  same('ahead', at([20, 0, 0])[1] < 40 && at([20, 0, 0])[0] === 50, true);
  same('left', at([0, 20, 0])[0] < 40 && at([0, 20, 0])[1] === 50, true);
  const front = camera.corners({ center: [10, 0, 0], size: [4, 2, 1], yaw: Math.PI / 2 })[0];
  same('box', front.map((side) => Math.round(side * 10) / 10), [9, 2, -0.5]);
  return wrong;
})()";

#[test]
fn a_browser_draws_a_run_and_hears_of_its_end() {
    let Some(chromium) = peer("chromium", "ROUNDTRIP_CHROMIUM") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let results = folder.path().join("results");
    let (mut run, address) = with_view(&[
        "run",
        "--transport=local:drawn",
        "--transport=local:drawn-2",
        "--results",
        results.to_str().unwrap(),
    ]);
    let mut browser = Browser::start(&chromium, &folder.path().join("profile"));
    browser.resize(1280, 800);
    browser.open(&format!("http://{address}/"));
    browser.until("Number(document.getElementById('cloud')?.dataset.frames) >= 3");
    browser.until("document.getElementById('status').dataset.is === 'live'");
    assert_eq!(browser.evaluate(ARITHMETIC), Value::Array(vec![]));
    assert_eq!(
        browser
            .evaluate("[...document.querySelectorAll('.card strong')].map((n) => n.textContent)"),
        serde_json::json!(["local", "local-2"])
    );
    for choice in [
        "input[value=height]",
        "input[value=ring]",
        "input[value=above]",
    ] {
        browser.evaluate(&format!("document.querySelector('{choice}').click()"));
        let seen = browser.evaluate(PIXELS);
        let (colours, share) = (seen[0].as_u64().unwrap(), seen[1].as_f64().unwrap());
        assert!(colours > 10 && share > 0.002, "{choice}: {seen}");
    }
    // What does not fit is scrolled in its own box, never the page.
    for width in [390, 1280] {
        browser.resize(width, 800);
        browser.until("document.documentElement.scrollWidth <= window.innerWidth");
    }
    // The one that waits has nothing to show, and says so.
    browser.evaluate("document.querySelectorAll('#streams input')[1].click()");
    browser.until("document.getElementById('message').textContent.includes('local-2')");
    browser.evaluate("document.querySelectorAll('#streams input')[0].click()");
    browser.until("document.getElementById('status').dataset.is === 'live'");
    assert_eq!(browser.complaints, [""; 0]);
    run.send(Signal::SIGINT);
    // A browser too slow to ask once more before the program is gone only finds that it is gone.
    browser.until("['ended', 'lost'].includes(document.getElementById('status').dataset.is)");
    browser.until("Number(document.querySelector('.card b').textContent.replace(',', '')) > 0");
    run.code();
}
