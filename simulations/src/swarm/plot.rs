//! The report as a picture: how long look-ups and puts took, all of them, ours and the bare ones.

use std::fmt::Write as _;

use super::Measured;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 60.0;
const BOTTOM: f64 = 40.0;

/// An SVG of the shares of look-ups and puts that took no longer than so many milliseconds.
#[must_use]
pub fn svg(ours: &Measured, bare: &Measured) -> String {
    let lines = [
        ("look-up, ours", &ours.look_up_ms, "#1f6feb", ""),
        ("look-up, bare", &bare.look_up_ms, "#1f6feb", "6 4"),
        ("put, ours", &ours.put_ms, "#bf3989", ""),
        ("put, bare", &bare.put_ms, "#bf3989", "6 4"),
        ("find with evidence", &ours.find_ms, "#1a7f37", ""),
    ];
    let most = lines.iter().flat_map(|(_, times, ..)| times.iter()).fold(1.0, |most: f64, time| most.max(*time));
    // A power of ten above it, so that the axis has round ends.
    let decades = most.log10().ceil().max(1.0) + 1.0;
    let x = |ms: f64| LEFT + (ms.max(0.1).log10() + 1.0) / decades * (WIDTH - LEFT - 20.0);
    let y = |share: f64| HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - 20.0);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    // Writing to a string cannot fail, here and below.
    let mut ms = 0.1;
    while x(ms) <= WIDTH - 19.0 {
        let (at, low, high) = (x(ms), y(0.0), y(1.0));
        let _ = writeln!(svg, "<line x1=\"{at:.1}\" y1=\"{low:.1}\" x2=\"{at:.1}\" y2=\"{high:.1}\" stroke=\"#ddd\"/>");
        let _ = writeln!(svg, "<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{ms} ms</text>", low + 16.0);
        ms *= 10.0;
    }
    for percent in [0, 50, 100] {
        let at = y(f64::from(percent) / 100.0);
        let _ =
            writeln!(svg, "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{percent} %</text>", LEFT - 8.0, at + 4.0);
    }
    for (row, (name, times, colour, dashes)) in lines.iter().enumerate() {
        let mut sorted = (*times).clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let count = sorted.len() as f64;
        let points =
            sorted.iter().zip(1u32..).map(|(ms, rank)| format!("{:.1},{:.1}", x(*ms), y(f64::from(rank) / count)));
        let points = points.collect::<Vec<_>>().join(" ");
        let stroke = format!("fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" stroke-dasharray=\"{dashes}\"");
        let _ = writeln!(svg, "<polyline points=\"{points}\" {stroke}/>");
        let at = 30.0 + 16.0 * row as f64;
        let _ = writeln!(svg, "<polyline points=\"{:.1},{at:.1} {:.1},{at:.1}\" {stroke}/>", LEFT + 8.0, LEFT + 36.0);
        let _ = writeln!(svg, "<text x=\"{:.1}\" y=\"{:.1}\">{name}</text>", LEFT + 42.0, at + 4.0);
    }
    svg.push_str("</svg>\n");
    svg
}
