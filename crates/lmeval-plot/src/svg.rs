//! Drawings as SVG.

use std::fmt::Write as _;

use crate::shape::{Anchor, Color, DASH, Drawing, OPACITY, RADIUS, SIZE, Shape};

/// Writes a document. Only attributes give styles, so that it can be shown where styles are forbidden.
pub(crate) fn write(drawing: &Drawing) -> String {
    let Drawing { width, height, shapes } = drawing;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         font-family=\"system-ui, sans-serif\" font-size=\"{SIZE}\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n"
    );
    for shape in shapes {
        // Writing to a string cannot fail.
        let _ = match shape {
            Shape::Line { points, color, width, is_dashed } => {
                let [dash, gap] = DASH;
                let dashes =
                    if *is_dashed { format!(" stroke-dasharray=\"{dash} {gap}\"") } else { String::new() };
                let (points, color) = (list(points), hex(*color));
                writeln!(
                    out,
                    "<polyline points=\"{points}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"{width}\" \
                     stroke-linejoin=\"round\"{dashes}/>"
                )
            }
            Shape::Area { points, color } => {
                let (points, color) = (list(points), hex(*color));
                writeln!(out, "<polygon points=\"{points}\" fill=\"{color}\" fill-opacity=\"{OPACITY}\"/>")
            }
            Shape::Mark { points, color } => {
                let (points, color) = (list(points), hex(*color));
                writeln!(out, "<polygon points=\"{points}\" fill=\"{color}\"/>")
            }
            Shape::Dot { center: (x, y), color } => {
                writeln!(out, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{RADIUS}\" fill=\"{}\"/>", hex(*color))
            }
            Shape::Text { at: (x, y), text, anchor, is_bold, color } => {
                let anchor = match anchor {
                    Anchor::Start => "start",
                    Anchor::Middle => "middle",
                    Anchor::End => "end",
                };
                let weight = if *is_bold { " font-weight=\"600\"" } else { "" };
                let (color, text) = (hex(*color), escaped(text));
                writeln!(
                    out,
                    "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" fill=\"{color}\"{weight}>{text}</text>"
                )
            }
        };
    }
    out + "</svg>\n"
}

fn list(points: &[(f64, f64)]) -> String {
    let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    points.join(" ")
}

fn hex([red, green, blue]: Color) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use crate::{Axis, Figure, Level, Mark, Panel, Point, Scale, Series};

    fn axis(label: &str) -> Axis {
        Axis { label: label.to_owned(), scale: Scale::Linear }
    }

    #[test]
    fn draws_lines_bands_levels_and_a_legend() {
        let point = |x, y| Point { x, y, band: Some((y - 0.1, y + 0.1)), mark: None };
        let series = |name: &str, is_dashed| Series {
            name: name.to_owned(),
            points: vec![point(0.0, 0.2), point(1.0, f64::NAN), point(2.0, 0.4), point(3.0, 0.5)],
            is_dashed,
        };
        let panel = Panel {
            title: "a <b> & \"c\"\u{1b}".to_owned(),
            x: axis("step"),
            y: axis("acc"),
            series: vec![series("acc", false), series("finished", true)],
            levels: vec![Level { name: "chance".to_owned(), value: 0.25 }],
        };
        let svg = Figure { title: "t".to_owned(), panels: vec![panel; 4] }.to_svg();
        assert!(svg.contains("a &lt;b&gt; &amp; &quot;c&quot; </text>"), "{svg}");
        // A band needs two points in a row; the missing point splits each line.
        assert_eq!(svg.matches("<polygon").count(), 8);
        assert_eq!(svg.matches(">finished</text>").count(), 4);
        assert_eq!(svg.matches(">chance</text>").count(), 4);
        assert_eq!(svg.matches("<circle").count(), 12);
        assert!(!svg.contains("NaN") && !svg.contains("style"));
    }

    #[test]
    fn marks_point_up_where_values_rise_and_are_green_where_that_is_better() {
        let point = |x, mark| Point { x, y: 0.5, band: None, mark };
        let mark = |rises, is_better| Some(Mark { rises, is_better });
        let marked = [None, mark(true, true), mark(false, true), mark(false, false)];
        let points = marked.into_iter().enumerate().map(|(x, mark)| point(x as f64, mark)).collect();
        let series = Series { name: String::new(), points, is_dashed: false };
        let panel =
            Panel { title: String::new(), x: axis(""), y: axis(""), series: vec![series], levels: vec![] };
        let svg = Figure { title: String::new(), panels: vec![panel] }.to_svg();
        let line = svg.lines().find(|line| line.starts_with("<circle")).unwrap();
        let number = |text: &str| text.split('"').next().unwrap().parse::<f64>().unwrap();
        let height = number(line.split("cy=\"").nth(1).unwrap());
        let marks: Vec<(&str, Vec<f64>)> = svg
            .lines()
            .filter(|line| line.starts_with("<polygon"))
            .map(|line| {
                let points = line.split('"').nth(1).unwrap();
                let heights = points.split(' ').map(|point| number(point.split(',').nth(1).unwrap()));
                (line.split('"').nth(3).unwrap(), heights.collect())
            })
            .collect();
        assert_eq!(marks.len(), 3, "{svg}");
        assert!(marks[0].0 == "#1a7f37" && marks[0].1.iter().all(|y| *y > height), "{svg}");
        assert!(marks[1].0 == "#1a7f37" && marks[1].1.iter().all(|y| *y < height), "{svg}");
        assert!(marks[2].0 == "#c62828" && marks[2].1.iter().all(|y| *y < height), "{svg}");
    }

    #[test]
    fn empty_figures_are_documents() {
        let svg = Figure::default().to_svg();
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
        let panel = Panel { title: String::new(), x: axis(""), y: axis(""), series: vec![], levels: vec![] };
        assert!(Figure { title: String::new(), panels: vec![panel] }.to_svg().contains("0.5"));
    }
}
