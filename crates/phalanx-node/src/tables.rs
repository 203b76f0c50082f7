//! Files that people write as lists of tables (`[[rule]]`, `[[group]]`), read with errors that name the table.

use serde::de::DeserializeOwned;
use thiserror::Error;

/// Tables of one kind beyond this are a mistake; they are looked at whenever a link, or a space, is opened.
const MOST: usize = 1000;

/// What is wrong with such a file.
#[derive(Debug, Error)]
pub enum TablesError {
    #[error("{0}")]
    Syntax(#[from] toml::de::Error),
    #[error("{kind} {number}: {what}")]
    Table { kind: &'static str, number: usize, what: String },
    #[error("more than {MOST} tables [[{kind}]]")]
    TooMany { kind: &'static str },
}

/// Reads TOML: a struct of lists of tables.
pub fn parse<File: DeserializeOwned>(text: &str) -> Result<File, TablesError> {
    Ok(toml::from_str(text)?)
}

/// What the tables of one kind mean, in their order.
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
