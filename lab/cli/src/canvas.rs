//! What all drawings have in common.

use plotters::style::RGBColor;

/// Okabe and Ito's colours, which everybody can tell apart.
pub const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(80, 80, 80),
    RGBColor(230, 159, 0),
    RGBColor(0, 0, 0),
];

/// What comes of drawing.
pub type Drawn<T> = Result<T, Box<dyn std::error::Error>>;
