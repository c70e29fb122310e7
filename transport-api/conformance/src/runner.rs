//! Runs the checks on the fixtures.

use std::env;
use std::fmt;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};

use crate::checks::all;
use crate::checks::check::Check;
use crate::checks::need::Unmet;
use crate::fixture::{FIRST, Fixture};
use crate::remote;
use crate::runtime::runtime;
use crate::scene::{Control, Facts, Failure, Outcome, Scene};
use crate::unavailable::Unavailable;

/// A check that is not through by then hangs. No measure of speed.
const WATCHDOG: Duration = Duration::from_secs(120);

/// How long the tasks of a check may take to end after it.
const WIND_DOWN: Duration = Duration::from_secs(5);

/// Fewer checks than this prove too little about a transport.
const LEAST: usize = 30;

/// The fixtures of one test program; filled by [`crate::conformance_main!`].
#[derive(Default)]
pub struct Suite {
    entries: Vec<Entry>,
}

struct Entry {
    name: &'static str,
    trials: fn() -> Vec<Trial>,
    serve: fn(remote::Orders) -> ExitCode,
}

impl Suite {
    /// Adds a fixture.
    pub fn add<F: Fixture>(&mut self) {
        self.entries.push(Entry {
            name: F::NAME,
            trials: trials::<F>,
            serve: |orders| remote::serve(F::factory(), &orders),
        });
    }

    /// Runs the checks that the arguments select; in a child process that a check started, plays
    /// its part instead.
    pub fn run(self) -> ExitCode {
        if let Some(orders) = remote::Orders::from_env() {
            let entry = self.entries.iter().find(|e| e.name == orders.fixture());
            return (entry.expect("a child runs the program of its parent").serve)(orders);
        }
        let mut arguments = Arguments::from_args();
        // Checks measure the process (threads, descriptors) and load the machine: one by one.
        arguments.test_threads = Some(1);
        let trials = self.entries.iter().flat_map(|e| (e.trials)()).collect();
        libtest_mimic::run(&arguments, trials).exit_code()
    }
}

impl fmt::Debug for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.entries.iter().map(|entry| entry.name))
            .finish()
    }
}

/// Whether what is missing is a failure.
fn all_required() -> bool {
    env::var("CONFORMANCE_REQUIRE").is_ok_and(|value| value == "all")
}

/// Why a fixture could not be looked at.
enum Unknown {
    Unavailable(Unavailable),
    Failed(Failure),
}

fn trials<F: Fixture>() -> Vec<Trial> {
    let single = |what: &str, ignored, outcome: Result<(), Failed>| {
        let trial = Trial::test(format!("{}::{what}", F::NAME), move || outcome);
        vec![trial.with_ignored_flag(ignored)]
    };
    let facts = match within(look::<F>) {
        Ok(Ok(facts)) => facts,
        Ok(Err(Unknown::Unavailable(reason))) => {
            let failed = Err(Failed::from(&reason));
            return single(&format!("available [{reason}]"), !all_required(), failed);
        }
        Ok(Err(Unknown::Failed(failure))) | Err(failure) => {
            return single("opens", false, Err(Failed::from(failure)));
        }
    };
    let mut running = 0;
    let mut trials: Vec<Trial> = all()
        .map(|check| {
            let need = (check.needs)(&facts);
            running += usize::from(need.is_ok());
            let name = format!("{}::{}", F::NAME, check.name);
            match need {
                Ok(()) => {
                    let run = move || within(move || perform::<F>(check))?.map_err(Failed::from);
                    Trial::test(name, run)
                }
                Err(Unmet { reason, missing }) => {
                    let ignored = !(missing && all_required());
                    let name = format!("{name} [{reason}]");
                    Trial::test(name, move || Err(Failed::from(reason))).with_ignored_flag(ignored)
                }
            }
        })
        .collect();
    trials.extend(single(
        "at_least_thirty_checks_run",
        false,
        if running < LEAST {
            Err(format!("only {running} checks apply").into())
        } else {
            Ok(())
        },
    ));
    trials
}

/// Runs `work` on a runtime and a thread of its own, under the watchdog.
fn within<T: Send + 'static, W: Future<Output = T>>(
    work: impl FnOnce() -> W + Send + 'static,
) -> Outcome<T> {
    let (done, result) = sync_channel(1);
    let worker = thread::spawn(move || {
        let runtime = runtime();
        let value = runtime.block_on(work());
        runtime.shutdown_timeout(WIND_DOWN);
        // The receiver is gone if the watchdog was faster.
        let _ = done.send(value);
    });
    match result.recv_timeout(WATCHDOG) {
        Ok(value) => {
            // It has ended but for its last instructions.
            let _ = worker.join();
            Ok(value)
        }
        Err(_) if worker.is_finished() => Err(Failure("panicked; the message is above".to_owned())),
        Err(_) => Err(Failure(format!(
            "not through after {} s; something blocks the runtime",
            WATCHDOG.as_secs()
        ))),
    }
}

async fn look<F: Fixture>() -> Result<Facts, Unknown> {
    let scene = Scene::start::<F>().await.map_err(Unknown::Unavailable)?;
    let facts = async {
        let first = scene.open(FIRST).await?;
        let capabilities = first.capabilities();
        first.close(crate::scene::CLOSE).await;
        Ok(Facts {
            capabilities,
            link: Control::of(scene.has_link(), F::NO_LINK),
            server: Control::of(scene.has_server(), F::NO_SERVER),
            address: scene.config("second").url().has_host(),
        })
    };
    let facts = facts.await;
    scene.stop().await;
    facts.map_err(Unknown::Failed)
}

async fn perform<F: Fixture>(check: Check) -> Outcome {
    let scene = Scene::start::<F>()
        .await
        .map_err(|reason| Failure(reason.to_string()))?;
    let scene = Arc::new(scene);
    let stage = Arc::clone(&scene);
    // A task of its own, since that is where apps run, and a panic there leaves the fixture to us.
    let outcome = tokio::spawn(async move { (check.run)(&stage).await }).await;
    if let Some(scene) = Arc::into_inner(scene) {
        scene.stop().await;
    }
    outcome.unwrap_or_else(|_| Err(Failure("panicked; the message is above".to_owned())))
}
