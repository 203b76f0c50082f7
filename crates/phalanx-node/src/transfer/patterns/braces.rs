//! Brace expansion: `a{b,c}` stands for `ab` and `ac`.

/// Most patterns that one pattern may expand to. It bounds the memory that a peer's pattern costs.
const MOST_ALTERNATIVES: usize = 256;

/// Expands all braces of a pattern, also nested ones, and adds the results to `all`.
pub fn expand(text: &str, all: &mut Vec<String>) -> Result<(), &'static str> {
    let Some((before, alternatives, after)) = first_braces(text)? else {
        all.push(text.to_owned());
        return if all.len() <= MOST_ALTERNATIVES { Ok(()) } else { Err("too many alternatives") };
    };
    alternatives.iter().try_for_each(|one| expand(&format!("{before}{one}{after}"), all))
}

type Braces<'a> = (&'a str, Vec<&'a str>, &'a str);

/// The text before the first braces, the alternatives in them, and the text after them. Inside `[...]`, braces are ordinary
/// characters.
fn first_braces(text: &str) -> Result<Option<Braces<'_>>, &'static str> {
    let (mut depth, mut open, mut from) = (0, 0, 0);
    let mut alternatives = Vec::new();
    let mut signs = text.char_indices();
    while let Some((at, sign)) = signs.next() {
        match sign {
            '\\' => drop(signs.next()),
            '[' => skip_class(&mut signs)?,
            '{' => {
                if depth == 0 {
                    (open, from) = (at, at + 1);
                }
                depth += 1;
            }
            ',' if depth == 1 => {
                alternatives.push(&text[from..at]);
                from = at + 1;
            }
            '}' if depth == 1 => {
                alternatives.push(&text[from..at]);
                return Ok(Some((&text[..open], alternatives, &text[at + 1..])));
            }
            '}' if depth == 0 => return Err("a } without its {"),
            '}' => depth -= 1,
            _ => {}
        }
    }
    if depth == 0 { Ok(None) } else { Err("a { without its }") }
}

/// Skips to the end of `[...]`. A `]` in the first place is one of the characters of the class.
///
/// Only ASCII characters are allowed, because the class is matched byte by byte: each byte of a longer character would match
/// alone, and so would other characters that contain it.
fn skip_class(signs: &mut std::str::CharIndices<'_>) -> Result<(), &'static str> {
    let (mut is_negated, mut is_first) = (false, true);
    for (_, sign) in signs.by_ref() {
        match sign {
            '!' | '^' if is_first && !is_negated => is_negated = true,
            ']' if !is_first => return Ok(()),
            _ if !sign.is_ascii() => return Err("a letter in [ ] that is not ASCII: write {ä,ö} for such"),
            _ => is_first = false,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alternatives_are_written_out() {
        let all = |text: &str| {
            let mut all = Vec::new();
            expand(text, &mut all).map(|()| all)
        };
        assert_eq!(all("a{b,c/d}e{f,}").expect("is one"), ["abef", "abe", "ac/def", "ac/de"]);
        assert_eq!(all("{a,{b,c}}[{,]\\{").expect("is one"), ["a[{,]\\{", "b[{,]\\{", "c[{,]\\{"]);
        assert!(all("{a").is_err() && all("a}").is_err());
        assert!(all(&"{a,b}".repeat(9)).is_err(), "512 of them");
    }
}
