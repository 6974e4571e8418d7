//! Draws the played curves as SVG, byte-identical each time.

use std::fmt::Write;

use crate::curves::Curve;
use crate::play::{Played, SLOTS};

const WIDTH: u32 = 760;
const HEIGHT: u32 = 300;
const LEFT: u32 = 44;
const RIGHT: u32 = 30;
const TOP: u32 = 56;
const BOTTOM: u32 = 34;

/// A line of the picture: its name, colour, dashes, and value at a second.
type Line = (&'static str, &'static str, &'static str, fn(&Played) -> u32);

const LINES: [Line; 4] = [
    ("demand, in executors", "#9a6700", "5 3", |now| {
        now.demand.div_ceil(SLOTS)
    }),
    ("target", "#0550ae", "", |now| now.target),
    ("running", "#1a7f37", "", |now| now.running),
    ("idle", "#cf222e", "2 2", |now| now.idle),
];

pub fn draw(curve: &Curve, played: &[Played]) -> String {
    let most = LINES
        .iter()
        .flat_map(|(.., of)| played.iter().map(of))
        .max()
        .unwrap_or(1);
    // Rounded up to whole tens, so that the grid lines are at round numbers.
    let top = most.div_ceil(10) * 10;
    let (wide, high) = (WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM);
    let x = |second: u32| {
        f64::from(LEFT) + f64::from(second) * f64::from(wide) / f64::from(curve.seconds)
    };
    let y =
        |number: u32| f64::from(TOP + high) - f64::from(number) * f64::from(high) / f64::from(top);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#ffffff\"/>\n\
         <text x=\"{LEFT}\" y=\"18\" font-size=\"14\" fill=\"#1f2328\">{}</text>\n",
        curve.title
    );
    // Writing to a String never fails.
    for number in (0..=top).step_by(10) {
        let at = y(number);
        let _ = writeln!(
            svg,
            "<line x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{}\" y2=\"{at:.1}\" stroke=\"#d8dee4\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#57606a\">{number}</text>",
            WIDTH - RIGHT,
            LEFT - 6,
            at + 4.0
        );
    }
    for minute in (0..=curve.seconds / 60).step_by(if curve.seconds > 900 { 5 } else { 1 }) {
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\" fill=\"#57606a\">{minute} min</text>",
            x(minute * 60),
            HEIGHT - 14
        );
    }
    for (at, (name, colour, dashes, of)) in LINES.iter().enumerate() {
        let left = LEFT + at as u32 * 180;
        let _ = writeln!(
            svg,
            "<line x1=\"{left}\" y1=\"36\" x2=\"{}\" y2=\"36\" stroke=\"{colour}\" stroke-width=\"2\" \
             stroke-dasharray=\"{dashes}\"/><text x=\"{}\" y=\"40\" fill=\"#1f2328\">{name}</text>",
            left + 24,
            left + 30
        );
        let _ = writeln!(
            svg,
            "<path d=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\" stroke-dasharray=\"{dashes}\"/>",
            path(played, *of, x, y)
        );
    }
    svg.push_str("</svg>\n");
    svg
}

/// A step line, with points only where the value changes.
fn path(
    played: &[Played],
    of: fn(&Played) -> u32,
    x: impl Fn(u32) -> f64,
    y: impl Fn(u32) -> f64,
) -> String {
    let mut path = String::new();
    let mut before = None;
    for now in played {
        let number = of(now);
        let _ = match before {
            None => write!(path, "M{:.1} {:.1}", x(now.second), y(number)),
            Some(known) if known != number => {
                write!(path, "H{:.1}V{:.1}", x(now.second), y(number))
            }
            Some(_) => Ok(()),
        };
        before = Some(number);
    }
    if let Some(last) = played.last() {
        let _ = write!(path, "H{:.1}", x(last.second));
    }
    path
}
