//! Line charts as SVG, just as much of it as the picture needs.
//!
//! Why not `plotters`? It writes colours into every element, so that a picture can't follow a dark
//! page; it writes no title or description for those who can't see it; it places labels with no
//! regard for each other, where nine lines meet; and it comes with a dozen further crates. What is
//! needed of it here is two scales and a polyline.

mod labels;
mod legend;
mod panel;
mod scale;
mod style;
mod svg;

pub(crate) use legend::Legend;
pub(crate) use panel::{Axis, Panel, Place, Rule, Series};
pub(crate) use scale::Scale;
pub(crate) use style::{Look, css};
pub(crate) use svg::{Svg, escape};
