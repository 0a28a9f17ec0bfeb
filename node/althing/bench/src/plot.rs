//! The report as a picture: how late releases were noticed, one curve for each row.

use std::fmt::Write as _;

use serde_json::Value;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 70.0;
const BOTTOM: f64 = 50.0;
const TOP: f64 = 20.0;
const RIGHT: f64 = 160.0;
/// Decades of the share of releases that came later.
const DECADES: f64 = 5.0;
const POWERS: usize = 20;
const COLOURS: [&str; 4] = ["#1b6ca8", "#c0392b", "#7f8c8d", "#27ae60"];

/// The share of releases that were noticed later than 2^k µs, over k; both axes logarithmic.
pub fn svg(report: &Value) -> String {
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\">\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>"
    );
    axes(&mut out);
    for (place, row) in report["rows"].as_array().into_iter().flatten().enumerate() {
        let counts: Vec<u64> = row["histogram"].as_array().into_iter().flatten().filter_map(Value::as_u64).collect();
        let total: u64 = counts.iter().sum();
        let mut later = total;
        let points: Vec<String> = counts
            .iter()
            .enumerate()
            .map(|(power, count)| {
                later -= count;
                let (x, y) = place_of(power, later as f64 / total.max(1) as f64);
                format!("{x:.1},{y:.1}")
            })
            .collect();
        let colour = COLOURS[place % COLOURS.len()];
        let name = row["name"].as_str().unwrap_or_default().replace(['<', '&', '>'], " ");
        let (x, y) = (WIDTH - RIGHT + 10.0, TOP + 20.0 + 18.0 * place as f64);
        let _ = write!(
            out,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>\
             <text x=\"{x}\" y=\"{y}\" fill=\"{colour}\">{name}</text>",
            points.join(" ")
        );
    }
    out.push_str("</svg>\n");
    out
}

fn place_of(power: usize, share: f64) -> (f64, f64) {
    let x = LEFT + (WIDTH - LEFT - RIGHT) * power as f64 / POWERS as f64;
    let depth = (-share.max(1e-12).log10() / DECADES).clamp(0.0, 1.0);
    (x, TOP + (HEIGHT - TOP - BOTTOM) * depth)
}

fn axes(out: &mut String) {
    for power in (0..=POWERS).step_by(4) {
        let (x, _) = place_of(power, 1.0);
        let label = match 1_u64 << power {
            us @ 0..1_000 => format!("{us} µs"),
            us @ 1_000..1_000_000 => format!("{:.0} ms", us as f64 / 1e3),
            us => format!("{:.0} s", us as f64 / 1e6),
        };
        let bottom = HEIGHT - BOTTOM;
        let _ = write!(
            out,
            "<line x1=\"{x}\" x2=\"{x}\" y1=\"{TOP}\" y2=\"{bottom}\" stroke=\"#ddd\"/>\
             <text x=\"{x}\" y=\"{}\" text-anchor=\"middle\">{label}</text>",
            bottom + 18.0
        );
    }
    for decade in 0..=DECADES as u32 {
        let (_, y) = place_of(0, 10f64.powi(-(decade.cast_signed())));
        let _ = write!(
            out,
            "<line x1=\"{LEFT}\" x2=\"{}\" y1=\"{y}\" y2=\"{y}\" stroke=\"#ddd\"/>\
             <text x=\"{}\" y=\"{}\" text-anchor=\"end\">1 in {}</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            y + 4.0,
            ["1", "10", "100", "1000", "10⁴", "10⁵"][decade as usize]
        );
    }
    let _ = write!(
        out,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">releases noticed later than this</text>",
        (LEFT + WIDTH - RIGHT) / 2.0,
        HEIGHT - 10.0
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_curve_falls_from_all_to_none() {
        let report = json!({ "rows": [{ "name": "a<b", "histogram": [0, 5, 5] }] });
        let svg = svg(&report);
        assert!(svg.contains("a b"), "{svg}");
        let (x0, top) = place_of(0, 1.0);
        let (x2, bottom) = place_of(2, 0.0);
        assert!(svg.contains(&format!("{x0:.1},{top:.1}")) && svg.contains(&format!("{x2:.1},{bottom:.1}")), "{svg}");
    }
}
