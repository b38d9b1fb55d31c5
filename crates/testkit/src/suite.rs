//! How a conformance suite runs: every case on every subject, each on a fresh one, each a test of its own.
//!
//! Here: what the suites of all ports share. Not here: the cases, and what they stand on.

use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Trial};

pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Makes a fresh subject `S`.
pub type Make<S> = fn() -> BoxFuture<'static, Arc<S>>;

/// A case stands on a ground `G`. Its name is its claim.
pub(crate) struct Case<G: 'static> {
    pub(crate) name: &'static str,
    pub(crate) run: fn(G) -> BoxFuture<'static, ()>,
}

/// The cases of one subject matter.
pub(crate) type Group<G> = (&'static str, &'static [Case<G>]);

/// Names the cases of a module. A function that is left out is dead code, and the compiler says so: that is what
/// the macro is for.
macro_rules! cases {
    ($($name:ident),+ $(,)?) => {
        [$(crate::suite::Case {
            name: stringify!($name),
            run: |ground| Box::pin($name(ground)),
        }),+]
    };
}
pub(crate) use cases;

/// The answer is the exit code of the test binary.
pub(crate) fn run_suite<S, G>(
    subjects: &[(&'static str, Make<S>)],
    groups: &[Group<G>],
    ground: fn(Arc<S>) -> BoxFuture<'static, G>,
) -> ExitCode
where
    S: ?Sized + Send + Sync + 'static,
    G: Send + 'static,
{
    let mut trials = Vec::new();
    for (subject, make) in subjects {
        for (group, cases) in groups {
            for case in *cases {
                let (make, run) = (*make, case.run);
                let name = format!("{subject}::{group}::{}", case.name);
                trials.push(Trial::test(name, move || {
                    run_case(make, ground, run);
                    Ok(())
                }));
            }
        }
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn run_case<S, G>(
    make: Make<S>,
    ground: fn(Arc<S>) -> BoxFuture<'static, G>,
    run: fn(G) -> BoxFuture<'static, ()>,
) where
    S: ?Sized + Send + Sync + 'static,
    G: Send + 'static,
{
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a machine that runs tests has two threads to spare");
    runtime.block_on(async {
        let subject = make().await;
        let ground = ground(Arc::clone(&subject)).await;
        // A task of its own, so that a panic of the case still lets the subject clean up.
        let outcome = tokio::spawn(run(ground)).await;
        if let Err(failure) = outcome {
            std::panic::resume_unwind(failure.into_panic());
        }
    });
}
