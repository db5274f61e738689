//! The report as a page: one HTML file that needs nothing else, and no script.

use std::fmt::Write as _;

use crate::chart::{Look, Panel, Place, Svg, css, escape};
use crate::picture::{Over, at_load, goodput, loads, over_time};
use crate::poster::{describe, legend};
use crate::row::{COLUMNS, Row};
use crate::words::Setting;

const STYLE: &str = include_str!("page.css");

/// What the page shows. `step` are the rows of the load that jumps up and falls back, if there are any.
pub(crate) struct Page<'a> {
    pub(crate) title: &'a str,
    pub(crate) setting: &'a Setting,
    pub(crate) rows: &'a [Row],
    pub(crate) step: &'a [Row],
    pub(crate) findings: &'a [String],
    /// What the columns of the table mean.
    pub(crate) columns: &'a str,
}

impl Page<'_> {
    pub(crate) fn html(&self) -> String {
        let mut html = String::new();
        self.push_head(&mut html);
        self.push_main_chart(&mut html);
        push_list(&mut html, self.findings);
        self.push_runs(&mut html);
        self.push_step(&mut html);
        self.push_table(&mut html);
        html.push_str("</main>\n</body>\n</html>\n");
        html
    }

    fn push_head(&self, html: &mut String) {
        let title = escape(self.title);
        push(
            html,
            format_args!(
                "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
                 <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
                 <title>{title}</title>\n<style>\n{STYLE}{}</style>\n</head>\n<body>\n<main>\n\
                 <h1>{title}</h1>\n",
                css()
            ),
        );
        for sentence in self.setting.sentences() {
            push(html, format_args!("<p class=\"soft\">{}</p>\n", escape(&sentence)));
        }
    }

    fn push_main_chart(&self, html: &mut String) {
        push_legend(html, self.rows);
        if loads(self.rows).len() > 1 {
            html.push_str("<div class=\"main card\">\n");
            let (title, description) = ("Good answers as the load grows", describe(self.rows));
            push_chart(html, "good", &goodput(self.rows), (560.0, 380.0), title, &description);
            html.push_str("</div>\n");
        }
    }

    fn push_runs(&self, html: &mut String) {
        let overs = [Over::P50, Over::P99, Over::Queue, Over::Memory];
        for (index, load) in loads(self.rows).into_iter().enumerate() {
            let id = format!("load{index}");
            let title = format!("In the course of a run at {load}× the capacity");
            push_run(html, &id, &title, &at_load(self.rows, load), &overs);
        }
    }

    fn push_step(&self, html: &mut String) {
        if self.step.is_empty() {
            return;
        }
        let rows: Vec<_> = self.step.iter().collect();
        let title = "From half the capacity to 2.5 times it and back, a third of the run each";
        push_run(html, "step", title, &rows, &[Over::Good, Over::P99, Over::Queue, Over::Memory]);
    }

    fn push_table(&self, html: &mut String) {
        html.push_str("<h2>All figures</h2>\n<div class=\"scroll card\">\n<table>\n<thead><tr>");
        for column in COLUMNS {
            push(html, format_args!("<th>{}</th>", escape(column)));
        }
        html.push_str("</tr></thead>\n<tbody>\n");
        let mut load = 0.0;
        for row in self.rows {
            if row.load != load {
                load = row.load;
                let heading = format!("{load}× of capacity, {} offered", row.offered);
                let row = format!(
                    "<tr><th colspan=\"{}\">{}</th></tr>\n",
                    COLUMNS.len(),
                    escape(&heading)
                );
                html.push_str(&row);
            }
            push(html, format_args!("<tr class=\"{}\">", escape(row.pool)));
            for cell in row.cells() {
                push(html, format_args!("<td>{}</td>", escape(&cell)));
            }
            html.push_str("</tr>\n");
        }
        html.push_str("</tbody>\n</table>\n</div>\n");
        push(
            html,
            format_args!(
                "<details><summary>What the columns mean</summary>\n<pre class=\"scroll\">{}</pre>\n</details>\n",
                escape(self.columns)
            ),
        );
    }
}

fn push_run(html: &mut String, id: &str, title: &str, rows: &[&Row], overs: &[Over]) {
    push(html, format_args!("<h2>{}</h2>\n<div class=\"grid2\">\n", escape(title)));
    for (index, &over) in overs.iter().enumerate() {
        html.push_str("<div class=\"card\">\n");
        let panel = over_time(over, rows);
        let id = format!("{id}-{index}");
        let description = format!("{title}: {}, {}, over time.", panel.title, panel.y.name);
        push_chart(html, &id, &panel, (500.0, 270.0), &panel.title, &description);
        html.push_str("</div>\n");
    }
    html.push_str("</div>\n");
}

fn push_chart(
    html: &mut String,
    id: &str,
    panel: &Panel,
    (width, height): (f64, f64),
    title: &str,
    description: &str,
) {
    let mut svg = Svg::default();
    panel.draw(&mut svg, Place { x: 0.0, y: 0.0, width, height });
    html.push_str(&svg.finish(id, (width, height), title, description, ""));
}

fn push_legend(html: &mut String, rows: &[Row]) {
    html.push_str("<ul class=\"legend\">\n");
    for (Look { class, shape, .. }, name, explanation) in legend(rows) {
        push(
            html,
            format_args!(
                "<li><svg class=\"chart\" aria-hidden=\"true\" style=\"width:34px\" width=\"34\" height=\"14\" \
                 viewBox=\"-17 -7 34 14\"><g class=\"series {class}\"><polyline points=\"-16,0 16,0\"/>\
                 <path class=\"marker\" d=\"{shape}\"/></g></svg><span><b class=\"{class}\">{}</b> {}\
                 </span></li>\n",
                escape(name),
                escape(explanation)
            ),
        );
    }
    html.push_str("</ul>\n");
}

fn push_list(html: &mut String, sentences: &[String]) {
    html.push_str("<ul>\n");
    for sentence in sentences {
        push(html, format_args!("<li>{}</li>\n", escape(sentence)));
    }
    html.push_str("</ul>\n");
}

fn push(html: &mut String, text: std::fmt::Arguments<'_>) {
    html.write_fmt(text).expect("a String takes any text");
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::pools::Kind;
    use crate::poster::poster;

    fn setting(folder: &str) -> Setting {
        Setting {
            input_len: 1 << 20,
            folder: folder.to_owned(),
            piece_len: 40_000,
            job_time: Duration::from_millis(1),
            workers: 2,
            capacity: 1000.0,
            slots: None,
            period: Duration::from_secs(1),
            rounds: 1,
        }
    }

    fn documents(folder: &str, rows: &[Row]) -> [String; 2] {
        let setting = setting(folder);
        let findings = setting.findings(rows);
        let page = Page {
            title: "t",
            setting: &setting,
            rows,
            step: rows,
            findings: &findings,
            columns: "c",
        };
        [page.html(), poster(&setting, rows)]
    }

    #[test]
    fn documents_are_whole_whatever_is_missing() {
        let row = Row::example;
        let all: Vec<_> = [0.8, 2.5, 10.0]
            .into_iter()
            .flat_map(|load| Kind::ALL.map(|kind| row(kind, load, 900.0)))
            .collect();
        let nothing = Row { slices: Vec::new(), ..row(Kind::Tokio, 2.5, 0.0) };
        for rows in [vec![], vec![row(Kind::Rayon, 0.05, 0.0)], vec![nothing], all] {
            for document in documents("here", &rows) {
                for tag in ["g", "svg", "text", "ul", "div", "table", "tr"] {
                    let opened = document.matches(&format!("<{tag} ")).count()
                        + document.matches(&format!("<{tag}>")).count();
                    assert_eq!(opened, document.matches(&format!("</{tag}>")).count(), "{tag}");
                }
                let coordinates = document
                    .split(['\"', ' ', ','])
                    .filter(|word| matches!(*word, "NaN" | "inf" | "-inf"));
                assert_eq!(coordinates.count(), 0);
            }
        }
    }

    #[test]
    fn names_of_folders_are_no_markup() {
        for document in documents("<script>&\"'", &[Row::example(Kind::Door, 1.2, 1.0)]) {
            assert!(
                !document.contains("<script") && document.contains("&lt;script&gt;&amp;&quot;")
            );
        }
    }

    #[test]
    fn documents_need_nothing_else() {
        for document in documents("here", &[Row::example(Kind::Door, 1.2, 1.0)]) {
            let namespace = "xmlns=\"http://www.w3.org/2000/svg\"";
            let rest = document.replace(namespace, "");
            for link in ["http", "href", "src=", "url(", "@import"] {
                assert!(!rest.contains(link), "{link}");
            }
        }
    }
}
