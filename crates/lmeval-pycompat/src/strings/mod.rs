//! Methods of Python's `str` on `&str`.
//!
//! Positions and widths count characters, as in Python. Character classes are those of CPython 3.11 (Unicode 14);
//! characters that Unicode added later are unassigned here as well.

mod case;
mod class;
mod layout;
mod split;
mod tables;

pub use case::{
    capitalize, casefold, is_lower_text, is_title_text, is_upper_text, lower, swapcase, title, upper,
};
pub use class::{
    decimal_value, digit_value, is_alnum, is_alpha, is_decimal, is_digit, is_identifier, is_numeric,
    is_printable, is_punctuation, is_space,
};
pub use layout::{center, expandtabs, ljust, rjust, zfill};
pub use split::{
    count, find, lstrip, lstrip_chars, partition, rfind, rpartition, rsplit, rsplit_whitespace, rstrip,
    rstrip_chars, split, split_whitespace, splitlines, strip, strip_chars,
};
