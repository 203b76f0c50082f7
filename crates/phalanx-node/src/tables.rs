//! Files that users write as lists of tables (`[[rule]]`, `[[group]]`). Errors name the table.

use serde::de::DeserializeOwned;
use thiserror::Error;

/// Most tables of one kind. More are a mistake, and they are all checked whenever a link or a space is opened.
const MOST: usize = 1000;

/// What is wrong with such a file.
#[derive(Debug, Error)]
pub enum TablesError {
    /// The text is not TOML of this form.
    #[error("{0}")]
    Syntax(#[from] toml::de::Error),
    /// A table of the file says something wrong.
    #[error("{kind} {number}: {what}")]
    Table {
        /// The kind of the table.
        kind: &'static str,
        /// Its position among those of its kind, from 1.
        number: usize,
        /// What is wrong.
        what: String,
    },
    /// The file has too many tables.
    #[error("more than {MOST} tables [[{kind}]]")]
    TooMany {
        /// The kind of these tables.
        kind: &'static str,
    },
}

/// Reads TOML into a struct of lists of tables.
pub fn parse<File: DeserializeOwned>(text: &str) -> Result<File, TablesError> {
    Ok(toml::from_str(text)?)
}

/// Converts the tables of one kind, in order.
pub fn each<Table, Meaning>(
    kind: &'static str,
    tables: Vec<Table>,
    meaning: impl Fn(Table) -> Result<Meaning, String>,
) -> Result<Vec<Meaning>, TablesError> {
    if tables.len() > MOST {
        return Err(TablesError::TooMany { kind });
    }
    let numbered = tables.into_iter().zip(1..);
    numbered.map(|(table, number)| meaning(table).map_err(|what| TablesError::Table { kind, number, what })).collect()
}
