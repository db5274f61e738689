//! Showing and writing what was measured.

use std::fs;
use std::io::{self, Write as _};
use std::path::PathBuf;

use crate::AnyError;
use crate::args::{Args, HELP};
use crate::markdown::markdown;
use crate::measure::Results;
use crate::page::Page;
use crate::poster::poster;
use crate::row::Row;
use crate::table::table;
use crate::words::Setting;
use crate::{flood, row};

/// Where the results go.
pub(crate) struct Files {
    page: PathBuf,
    pictures: Vec<PathBuf>,
    json: Option<PathBuf>,
    markdown: Option<PathBuf>,
}

impl Files {
    /// Finds out before the measurement, rather than after it, what can't be written.
    pub(crate) fn check(args: &Args) -> Result<Self, AnyError> {
        fs::create_dir_all(&args.out)
            .map_err(|error| format!("cannot make {}: {error}", args.out.display()))?;
        let name = if args.flood { "flood" } else { "overload" };
        let page = args.out.join(name).with_extension("html");
        let picture = args.out.join(name).with_extension("svg");
        let pictures: Vec<_> = [picture].into_iter().chain(args.svg.clone()).collect();
        let (json, markdown) = (args.json.clone(), args.markdown.clone());
        for file in pictures.iter().chain([&page]).chain(&json).chain(&markdown) {
            row::check_writable(file)?;
        }
        Ok(Files { page, pictures, json, markdown })
    }

    pub(crate) fn write(&self, args: &Args, results: &Results) -> Result<(), AnyError> {
        if let Some(json) = &self.json {
            row::write_json(json, &results.rows)?;
        }
        if let Some(file) = &self.markdown {
            row::write(file, &markdown(&results.rows))?;
        }
        let Some(setting) = &results.setting else { return Ok(()) };
        let picture = poster(setting, &results.rows);
        for file in &self.pictures {
            row::write(file, &picture)?;
        }
        let page = Page {
            title: if args.flood { "The flood" } else { "Thread pools in overload" },
            setting,
            rows: &results.rows,
            step: &results.step,
            findings: &findings(args, setting, &results.rows),
            columns: columns(),
        };
        row::write(&self.page, &page.html())?;
        let written: Vec<_> = [&self.page].into_iter().chain(&self.pictures).collect();
        print(&format!("\nwritten: {}\n", names(&written)));
        Ok(())
    }
}

fn names(files: &[&PathBuf]) -> String {
    let names: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
    names.join(", ")
}

pub(crate) fn print_heading(setting: &Setting) {
    print(&format!("{}\n", setting.sentences().join("\n")));
}

/// The table and what it says.
pub(crate) fn print_body(args: &Args, results: &Results) {
    let Some(setting) = results.setting.as_ref().filter(|_| !results.rows.is_empty()) else {
        return;
    };
    let findings = findings(args, setting, &results.rows);
    print(&format!("{}\n{}\n", table(&results.rows), findings.join("\n")));
}

fn findings(args: &Args, setting: &Setting, rows: &[Row]) -> Vec<String> {
    let goals = if args.flood { flood::verdicts(rows) } else { Vec::new() };
    goals.into_iter().chain(setting.findings(rows)).collect()
}

/// The part of the help that explains the columns and the charts.
fn columns() -> &'static str {
    let begin = HELP.find("Columns:\n").unwrap_or(0);
    let end = HELP.find("\nThe JSON").unwrap_or(HELP.len());
    HELP.get(begin..end).unwrap_or(HELP)
}

/// Writes to standard output; whoever has stopped reading there misses nothing.
pub(crate) fn print(text: &str) {
    let _ = io::stdout().write_all(text.as_bytes());
}
