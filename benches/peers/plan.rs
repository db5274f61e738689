//! What is measured, from the options after `--`.

use std::path::PathBuf;

use crate::support::options::{Given, Options};

const HELP: &str = "\
What a job costs, beside the pools people have today.

  --quick          fewer jobs and rounds: for a first look
  --rounds N       rounds after the first, which only warms up (11)
  --jobs N         empty jobs per round and shape (40000)
  --workers LIST   for example 1,2,4 (the default)
  --shapes LIST    some of the shapes, by name
  --pools LIST     some of the pools, by name
  --list           shows the names
";

#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) rounds: usize,
    pub(crate) jobs: u64,
    pub(crate) workers: Vec<usize>,
    /// None: all.
    pub(crate) shapes: Option<Vec<String>>,
    pub(crate) pools: Option<Vec<String>>,
    pub(crate) only_lists: bool,
    /// This process measures one number of workers, and leaves its records here.
    pub(crate) records: Option<PathBuf>,
}

impl Plan {
    pub(crate) fn of_this_process() -> Self {
        let mut plan = Self {
            rounds: 11,
            jobs: 40_000,
            workers: vec![1, 2, 4],
            shapes: None,
            pools: None,
            only_lists: false,
            records: None,
        };
        let mut options = Options::of_this_process();
        while let Some(given) = options.next() {
            let Given::Option(name) = given else {
                print!("{HELP}");
                std::process::exit(0);
            };
            match name.as_str() {
                "quick" => (plan.rounds, plan.jobs) = (3, 8_000),
                "rounds" => plan.rounds = options.value(),
                "jobs" => plan.jobs = options.value(),
                "workers" => plan.workers = options.list(),
                "shapes" => plan.shapes = Some(options.list()),
                "pools" => plan.pools = Some(options.list()),
                "list" => plan.only_lists = true,
                "records" => plan.records = Some(options.value()),
                unknown => options.reject(unknown),
            }
        }
        assert!(plan.rounds > 0 && plan.jobs >= 400, "at least 1 round of 400 jobs");
        assert!(plan.workers.iter().all(|workers| *workers > 0), "at least 1 worker");
        plan
    }

    pub(crate) fn wants_pool(&self, name: &str) -> bool {
        is_in(&self.pools, name)
    }

    pub(crate) fn wants_shape(&self, name: &str) -> bool {
        is_in(&self.shapes, name)
    }
}

fn is_in(wanted: &Option<Vec<String>>, name: &str) -> bool {
    wanted.as_ref().is_none_or(|wanted| wanted.iter().any(|one| one == name))
}
