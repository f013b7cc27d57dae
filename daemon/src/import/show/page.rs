//! Lines of a terminal: broken at words, coloured where wanted.

use std::io::{self, Write};

use ringscope_api::Severity;

/// Where the lines go.
pub(super) struct Page<'o, W> {
    pub(super) out: &'o mut W,
    pub(super) style: Style,
}

/// How the lines are to look.
#[derive(Clone, Copy)]
pub(crate) struct Style {
    /// With colours.
    pub(crate) colours: bool,
    /// Columns that a line may take.
    pub(crate) columns: usize,
}

#[derive(Clone, Copy)]
pub(super) enum Colour {
    Red = 31,
    Green = 32,
    Yellow = 33,
    Grey = 90,
}

impl From<Severity> for Colour {
    fn from(severity: Severity) -> Self {
        match severity {
            Severity::Critical => Self::Red,
            Severity::Warning => Self::Yellow,
            Severity::Info => Self::Grey,
        }
    }
}

impl<W: Write> Page<'_, W> {
    pub(super) fn coloured(&self, colour: Colour, text: &str) -> String {
        if self.style.colours { format!("\x1b[{}m{text}\x1b[0m", colour as u8) } else { text.to_owned() }
    }

    /// Text broken at words, with a title on its first line.
    pub(super) fn paragraph(&mut self, title: &str, text: &str) -> io::Result<()> {
        self.wrapped(title, &" ".repeat(title.len()), text)
    }

    /// Text broken at words; its lines but the first begin with `indent`.
    pub(super) fn wrapped(&mut self, first: &str, indent: &str, text: &str) -> io::Result<()> {
        let mut line = first.to_owned();
        let mut is_fresh = true;
        for word in text.split(' ') {
            if !is_fresh && columns(&line) + 1 + columns(word) > self.style.columns {
                writeln!(self.out, "{line}")?;
                indent.clone_into(&mut line);
                is_fresh = true;
            }
            if !is_fresh {
                line.push(' ');
            }
            line.push_str(word);
            is_fresh = false;
        }
        writeln!(self.out, "{}", line.trim_end())
    }
}

/// Columns that a text takes: what colours it takes none.
fn columns(text: &str) -> usize {
    let mut is_escape = false;
    let seen = text.chars().filter(|c| {
        let hidden = is_escape || *c == '\x1b';
        is_escape = hidden && *c != 'm';
        !hidden
    });
    seen.count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_at_words_and_colours_take_no_room() {
        let mut out = Vec::new();
        let style = Style { colours: true, columns: 12 };
        let mut page = Page { out: &mut out, style };
        let red = page.coloured(Colour::Red, "red");
        page.paragraph("  - ", &format!("{red} text and more")).unwrap();
        page.paragraph("", "a_word_that_is_longer than that").unwrap();
        let expected = "  - \x1b[31mred\x1b[0m text\n    and more\na_word_that_is_longer\nthan that\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
