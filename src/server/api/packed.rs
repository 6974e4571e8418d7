//! Files that are compiled in, without what nobody reads in a program: indentation and comments.

/// Copies a text without the blanks at the begin of lines, and without lines that are comments (`//`). Returns it with
/// its length.
pub(super) const fn pack<const N: usize>(text: &[u8; N]) -> ([u8; N], usize) {
    let (mut packed, mut length, mut at) = ([0; N], 0, 0);
    while at < N {
        while at < N && (text[at] == b'\t' || text[at] == b' ') {
            at += 1;
        }
        let is_comment = at + 1 < N && text[at] == b'/' && text[at + 1] == b'/';
        let mut in_line = true;
        while in_line && at < N {
            in_line = text[at] != b'\n';
            if !is_comment {
                packed[length] = text[at];
                length += 1;
            }
            at += 1;
        }
    }
    (packed, length)
}

/// The first bytes of a text.
pub(super) const fn first<const N: usize, const M: usize>(text: &[u8; M]) -> [u8; N] {
    let (mut begin, mut at) = ([0; N], 0);
    while at < N {
        begin[at] = text[at];
        at += 1;
    }
    begin
}

/// The packed text of a file, as bytes.
macro_rules! packed {
    ($name:literal) => {{
        use $crate::server::api::packed::{first, pack};
        const TEXT: &[u8; include_bytes!($name).len()] = include_bytes!($name);
        const LENGTH: usize = pack(TEXT).1;
        static PACKED: [u8; LENGTH] = first(&pack(TEXT).0);
        PACKED.as_slice()
    }};
}

pub(super) use packed;

#[cfg(test)]
mod tests {
    use super::*;

    fn packed<const N: usize>(text: &[u8; N]) -> String {
        let (packed, length) = pack(text);
        String::from_utf8(packed[..length].to_vec()).unwrap()
    }

    // spec: O-44
    #[test]
    fn indentation_and_lines_of_comments_are_left_out_and_nothing_else() {
        assert_eq!(packed(b"a"), "a");
        assert_eq!(packed(b"\ta b \n"), "a b \n");
        assert_eq!(packed(b"  \ta\t\n\n // b\n\tc // d"), "a\t\n\nc // d");
        assert_eq!(packed(b"// a"), "");
        assert_eq!(packed(b"/"), "/");
        assert_eq!(packed(b" \t"), "");
        assert_eq!(first::<2, 3>(b"abc"), *b"ab");
    }
}
