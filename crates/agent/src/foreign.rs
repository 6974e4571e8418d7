//! Answers that are not of the server that was meant: a page of a proxy or of a login.

/// The most characters of a page that are quoted.
const LONGEST: usize = 120;

/// What stands in the way, if this answer is an HTML page.
pub fn page(body: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(body);
    let text = text.trim_start_matches('\u{feff}').trim_start();
    if !text.starts_with('<') {
        return None;
    }
    let words = words(text);
    Some(format!(
        "an HTML page answers ({words:?}): a proxy or a login page is in between, or it is the address of another server"
    ))
}

/// The page's title, else its first words.
fn words(page: &str) -> String {
    let lower = page.to_ascii_lowercase();
    let title = lower.find("<title").and_then(|at| {
        let begin = at + lower[at..].find('>')? + 1;
        let end = begin + lower[begin..].find('<')?;
        page.get(begin..end)
    });
    let mut plain = String::new();
    let mut in_tag = false;
    for c in title
        .filter(|title| !title.trim().is_empty())
        .unwrap_or(page)
        .chars()
    {
        match c {
            '<' => in_tag = true,
            '>' => in_tag = false,
            // Tags separate words.
            _ if in_tag || c.is_control() => plain.push(' '),
            c => plain.push(c),
        }
    }
    let plain = plain.split_whitespace().collect::<Vec<_>>().join(" ");
    plain.chars().take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: O-43, O-2
    #[test]
    fn a_page_is_told_by_its_title_or_its_first_words() {
        let said = page(b"\n<!DOCTYPE html><HTML><head><Title>Sign in</Title></head>").unwrap();
        assert!(
            said.starts_with("an HTML page answers (\"Sign in\")"),
            "{said}"
        );
        let said =
            page("<html><body><h1>502 Bad\u{1b}Gateway</h1>nginx</body>".as_bytes()).unwrap();
        assert!(said.contains("\"502 Bad Gateway nginx\""), "{said}");
        for other in ["", "{}", "gateway timeout", "\u{0}<"] {
            assert_eq!(page(other.as_bytes()), None, "{other}");
        }
        assert!(page(b"<title").is_some() && page(&[b'<', 0xff]).is_some());
    }
}
