//! Colours, dashes and shapes.
//!
//! Nobody has to tell two lines apart by colour alone: each has a shape and a label, and the peers
//! differ by their dashes. On both surfaces every colour has a contrast of at least 4.5 to 1, and
//! the hues are those that stay apart with red-green blindness: blue, green-blue, purple, orange.

/// How a line looks wherever it appears.
#[derive(Clone, Copy)]
pub(crate) struct Look {
    /// The class of its elements.
    pub(crate) class: &'static str,
    /// Path data of its marker, around the origin, about 9 units across.
    pub(crate) shape: &'static str,
    on_light: &'static str,
    on_dark: &'static str,
    dashes: &'static str,
}

impl Look {
    /// The look of the pool with that name. One that isn't known looks like the last.
    pub(crate) fn of(class: &str) -> Look {
        *LOOKS.iter().find(|look| look.class == class).unwrap_or(&LOOKS[LOOKS.len() - 1])
    }

    const fn new(
        class: &'static str,
        shape: &'static str,
        [on_light, on_dark]: [&'static str; 2],
        dashes: &'static str,
    ) -> Self {
        Look { class, shape, on_light, on_dark, dashes }
    }
}

const CIRCLE: &str = "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0Z";
const SQUARE: &str = "M-3.8-3.8h7.6v7.6h-7.6Z";
const DIAMOND: &str = "M0-5.3 5.3 0 0 5.3-5.3 0Z";
const UP: &str = "M0-5 4.8 3.6H-4.8Z";
const DOWN: &str = "M0 5 4.8-3.6H-4.8Z";
const CROSS: &str = "M-4-2.4-2.4-4 0-1.6 2.4-4 4-2.4 1.6 0 4 2.4 2.4 4 0 1.6-2.4 4-4 2.4-1.6 0Z";
const PLUS: &str = "M-1.2-5h2.4v3.8H5v2.4H1.2V5h-2.4V1.2H-5v-2.4h3.8Z";
const BAR: &str = "M-5-1.8H5v3.6H-5Z";
const PILLAR: &str = "M-1.8-5h3.6V5h-3.6Z";

const SOLID: &str = "none";
const GREY: [&str; 2] = ["#535b65", "#aab4c0"];

const LOOKS: [Look; 9] = [
    Look::new("weirpool", CIRCLE, ["#0060a8", "#5cb6f7"], SOLID),
    Look::new("door", SQUARE, ["#007a5e", "#33c79e"], SOLID),
    Look::new("vegas", DIAMOND, ["#8a3a9c", "#d59ce4"], SOLID),
    Look::new("codel", UP, ["#a05a00", "#f0a840"], SOLID),
    Look::new("bounded", DOWN, ["#b4123f", "#ff8398"], SOLID),
    Look::new("rayon", CROSS, GREY, SOLID),
    Look::new("tokio", PLUS, GREY, "7 4"),
    Look::new("threadpool", BAR, GREY, "2 3"),
    Look::new("rusty_pool", PILLAR, GREY, "9 3 2 3"),
];

const LIGHT: &str = "\
.surface{fill:#ffffff}
.halo{stroke:#ffffff}
.ink{fill:#1b1f24}
.soft{fill:#57606a}
.grid{stroke:#e3e7eb}
.axis{stroke:#8c959f}
.rule{stroke:#57606a}
";

const DARK: &str = "\
.surface{fill:#12161b}
.halo{stroke:#12161b}
.ink{fill:#eceff3}
.soft{fill:#a3adb8}
.grid{stroke:#2a313a}
.axis{stroke:#69737e}
.rule{stroke:#a3adb8}
";

const SHAPES: &str = "\
.chart text{font:13px system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif}
.chart .title{font-weight:600;font-size:15px}
.chart .label{font-size:12.5px}
.chart .strong{font-weight:700}
.chart .halo{stroke-width:3;stroke-linejoin:round;paint-order:stroke}
.chart .end{text-anchor:end}
.chart .middle{text-anchor:middle}
.chart line,.chart polyline{fill:none;stroke-width:1}
.chart .rule{stroke-dasharray:4 4}
.chart .series polyline{stroke:currentColor;stroke-width:1.7;stroke-linejoin:round;stroke-linecap:round}
.chart .series.weirpool polyline{stroke-width:3}
.chart .series .leader{stroke:currentColor;stroke-width:.8;opacity:.55}
.chart .series text{fill:currentColor}
.chart .marker{fill:currentColor}
";

/// The style sheet of all charts, for both colour schemes.
pub(crate) fn css() -> String {
    let mut css = format!("{SHAPES}{LIGHT}");
    for Look { class, on_light, dashes, .. } in LOOKS {
        css.push_str(&format!(".{class}{{color:{on_light}}}\n"));
        if dashes != SOLID {
            css.push_str(&format!(".chart .{class} polyline{{stroke-dasharray:{dashes}}}\n"));
        }
    }
    css.push_str("@media (prefers-color-scheme:dark){\n");
    css.push_str(DARK);
    for Look { class, on_dark, .. } in LOOKS {
        css.push_str(&format!(".{class}{{color:{on_dark}}}\n"));
    }
    css.push_str("}\n");
    css
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance as in WCAG 2.
    fn luminance(colour: &str) -> f64 {
        let channel = |at: usize| {
            let c = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
            if c <= 0.040_45 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
    }

    fn contrast(a: &str, b: &str) -> f64 {
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    #[test]
    fn every_line_can_be_read_on_both_surfaces() {
        for Look { class, on_light, on_dark, .. } in LOOKS {
            assert!(contrast(on_light, "#ffffff") >= 4.5, "{class}");
            assert!(contrast(on_dark, "#12161b") >= 4.5, "{class}");
        }
    }
}
