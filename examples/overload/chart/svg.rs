//! Writing elements: numbers that every reader takes, and text that can't break out.

use std::fmt::Write as _;

/// The elements of a picture, in the order in which they are painted.
#[derive(Default)]
pub(crate) struct Svg(String);

impl Svg {
    pub(crate) fn open_group(&mut self, class: &str) {
        self.push(format_args!("<g class=\"{}\">", escape(class)));
    }

    pub(crate) fn close_group(&mut self) {
        self.push(format_args!("</g>"));
    }

    pub(crate) fn line(&mut self, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
        self.push(format_args!(
            "<line class=\"{}\" x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"/>",
            escape(class),
            number(x1),
            number(y1),
            number(x2),
            number(y2)
        ));
    }

    pub(crate) fn polyline(&mut self, class: &str, points: &[(f64, f64)]) {
        let points: Vec<_> =
            points.iter().map(|&(x, y)| format!("{},{}", number(x), number(y))).collect();
        self.push(format_args!(
            "<polyline class=\"{}\" points=\"{}\"/>",
            escape(class),
            points.join(" ")
        ));
    }

    /// `shape` is path data around the origin; `hint`, if any, is shown to whoever points at it.
    pub(crate) fn marker(&mut self, shape: &str, (x, y): (f64, f64), hint: &str) {
        let hint = match hint {
            "" => String::new(),
            hint => format!("<title>{}</title>", escape(hint)),
        };
        self.push(format_args!(
            "<path class=\"marker\" d=\"{}\" transform=\"translate({} {})\">{hint}</path>",
            escape(shape),
            number(x),
            number(y)
        ));
    }

    pub(crate) fn text(&mut self, class: &str, (x, y): (f64, f64), text: &str) {
        self.push(format_args!(
            "<text class=\"{}\" x=\"{}\" y=\"{}\">{}</text>",
            escape(class),
            number(x),
            number(y),
            escape(text)
        ));
    }

    /// The whole picture, on a surface of its own: a page in other colours can't make it unreadable.
    /// `id` is one that no other picture of the page has; `style` is empty where
    /// the page has it.
    pub(crate) fn finish(
        self,
        id: &str,
        (width, height): (f64, f64),
        title: &str,
        description: &str,
        style: &str,
    ) -> String {
        let (width, height) = (number(width), number(height));
        let style = match style {
            "" => String::new(),
            style => format!("<style>\n{style}</style>\n"),
        };
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
             width=\"{width}\" height=\"{height}\" role=\"img\" class=\"chart\" \
             aria-labelledby=\"{id}-title {id}-desc\">\n\
             <title id=\"{id}-title\">{}</title>\n<desc id=\"{id}-desc\">{}</desc>\n{style}\
             <rect class=\"surface\" width=\"100%\" height=\"100%\"/>\n{}</svg>\n",
            escape(title),
            escape(description),
            self.0,
            id = escape(id),
        )
    }

    fn push(&mut self, element: std::fmt::Arguments<'_>) {
        writeln!(self.0, "{element}").expect("a String takes any text");
    }
}

/// To a tenth of a unit. What isn't a number is drawn at 0, rather than making a file that nobody
/// can read.
fn number(x: f64) -> String {
    let tenths = if x.is_finite() { (x * 10.0).round() / 10.0 } else { 0.0 };
    // Adding zero turns -0 into 0.
    format!("{}", tenths + 0.0)
}

/// Text for the inside of an element or of an attribute.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // XML has no way to write these.
            c if c.is_control() && c != '\n' && c != '\t' => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_finite() {
        let said = [1.0, 1.25, -0.01, 1e3, f64::NAN, f64::INFINITY, f64::NEG_INFINITY].map(number);
        assert_eq!(said, ["1", "1.3", "0", "1000", "0", "0", "0"]);
    }

    #[test]
    fn text_stays_text() {
        assert_eq!(escape("a<b & \"c\"'\u{1b}"), "a&lt;b &amp; &quot;c&quot;&#39;\u{fffd}");
        let mut svg = Svg::default();
        svg.text("x\" onload=\"y", (0.0, 0.0), "</text><script>");
        let picture = svg.finish("p", (1.0, 1.0), "<t>", "&", "");
        assert!(!picture.contains("<script") && !picture.contains("\" onload"));
        assert!(picture.contains("<title id=\"p-title\">&lt;t&gt;</title>"));
    }
}
