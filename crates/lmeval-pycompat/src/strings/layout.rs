//! Padding and tab stops.

fn padding(text: &str, width: usize) -> usize {
    width.saturating_sub(text.chars().count())
}

fn pad(text: &str, left: usize, right: usize, fill: char) -> String {
    let mut out = String::with_capacity(text.len() + (left + right) * fill.len_utf8());
    out.extend(std::iter::repeat_n(fill, left));
    out.push_str(text);
    out.extend(std::iter::repeat_n(fill, right));
    out
}

/// `str.center`. The caller must reject absurd widths.
///
/// An odd space goes to the left if the width is odd, otherwise to the right.
pub fn center(text: &str, width: usize, fill: char) -> String {
    let margin = padding(text, width);
    let left = margin / 2 + (margin & width & 1);
    pad(text, left, margin - left, fill)
}

/// `str.ljust`.
pub fn ljust(text: &str, width: usize, fill: char) -> String {
    pad(text, 0, padding(text, width), fill)
}

/// `str.rjust`.
pub fn rjust(text: &str, width: usize, fill: char) -> String {
    pad(text, padding(text, width), 0, fill)
}

/// `str.zfill`: zeros after the sign.
pub fn zfill(text: &str, width: usize) -> String {
    let zeros = padding(text, width);
    let (sign, digits) = text.split_at(usize::from(text.starts_with(['+', '-'])));
    format!("{sign}{}", pad(digits, zeros, 0, '0'))
}

/// `str.expandtabs`: the next tab stop counts characters since the last line break.
pub fn expandtabs(text: &str, tab_size: usize) -> String {
    let mut out = String::with_capacity(text.len());
    let mut column = 0;
    for character in text.chars() {
        if character == '\t' {
            if tab_size > 0 {
                let spaces = tab_size - column % tab_size;
                out.extend(std::iter::repeat_n(' ', spaces));
                column += spaces;
            }
            continue;
        }
        column = if matches!(character, '\n' | '\r') { 0 } else { column + 1 };
        out.push(character);
    }
    out
}
