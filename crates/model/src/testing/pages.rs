//! The tables of the documentation, for tests that compare them with the code.

/// The cells of each row of the first table below this heading of a page.
pub fn rows<'a>(page: &'a str, heading: &str) -> Vec<Vec<&'a str>> {
    let section = page.split(&format!("\n{heading}\n")).nth(1).unwrap();
    let lines = section.lines().skip_while(|line| !line.starts_with('|'));
    let rows = lines.take_while(|line| line.starts_with('|')).skip(2);
    let cells = |line: &'a str| {
        let cells = line.trim_matches('|').split('|');
        cells.map(str::trim).collect()
    };
    rows.map(cells).collect()
}

/// What is written as code in a text.
pub fn code(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

#[test]
fn a_table_is_found_below_its_heading() {
    let page = "## A\n\n| a |\n|---|\n| 1 |\n\n## B\n\nText.\n\n| `b`, `c` | d |\n|---|---|\n| 2 | |\n\n| e |\n";
    assert_eq!(rows(page, "## B"), [["2", ""]]);
    assert_eq!(code("`b`, `c`"), ["b", "c"]);
}
