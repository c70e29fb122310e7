//! What the processes of a trial use while it runs, once a second.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::failure::Failure;

const PERIOD: Duration = Duration::from_secs(1);

/// Writes `resources.csv` until it is dropped.
#[derive(Debug)]
pub(crate) struct Resources {
    watched: Arc<Mutex<Vec<(String, u32)>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Resources {
    /// Starts recording into `folder`.
    pub(crate) fn record(folder: &Path) -> Result<Self, Failure> {
        let path = folder.join("resources.csv");
        let what = format!("write {}", path.display());
        let file = File::create(&path).map_err(|error| Failure::new(&what, error))?;
        let mut out = BufWriter::new(file);
        writeln!(out, "seconds,process,resident_bytes,cpu_ms")
            .map_err(|error| Failure::new(&what, error))?;
        let watched = Arc::new(Mutex::new(Vec::new()));
        let list = Arc::clone(&watched);
        let task = tokio::spawn(async move {
            let begin = Instant::now();
            let mut ticks = tokio::time::interval(PERIOD);
            loop {
                ticks.tick().await;
                let seconds = begin.elapsed().as_secs_f64();
                let processes = list.lock().unwrap_or_else(PoisonError::into_inner).clone();
                for (name, pid) in processes {
                    // A process that has just ended has no row.
                    let Some((resident, cpu)) = usage(pid) else {
                        continue;
                    };
                    if let Err(error) = writeln!(out, "{seconds:.1},{name},{resident},{cpu}") {
                        tracing::warn!(%error, "resources are no longer recorded");
                        return;
                    }
                }
                // Flushed so that an interrupted run keeps its rows; a failure shows at the next.
                let _ = out.flush();
            }
        });
        Ok(Self { watched, task })
    }

    /// Records a process from now on.
    pub(crate) fn watch(&self, name: &str, pid: Option<u32>) {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        watched.extend(pid.map(|pid| (name.to_owned(), pid)));
    }
}

impl Drop for Resources {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Resident memory in bytes of a process that runs.
pub(crate) fn resident(pid: u32) -> Option<u64> {
    usage(pid).map(|(resident, _)| resident)
}

/// Resident memory in bytes and processor time in milliseconds.
fn usage(pid: u32) -> Option<(u64, u64)> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let resident: u64 = line.split_whitespace().next()?.parse().ok()?;
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold spaces; user and system time are fields 14 and 15.
    let mut fields = stat.rsplit_once(") ")?.1.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    // Linux reports these in hundredths of a second on every architecture.
    Some((resident * 1024, (ticks()? + ticks()?) * 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_memory() {
        let (resident, _) = usage(std::process::id()).unwrap();
        assert!(resident > 100_000);
        assert_eq!(usage(u32::MAX), None);
    }
}
