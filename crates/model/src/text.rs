//! Texts from outside, which are shown to people.

/// Whether a character could control a terminal or change the order of what is read: a control character, a line
/// separator, or one of those that turn the direction of writing.
pub fn controls_display(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
