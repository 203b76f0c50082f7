"""The documentation site: what mkdocs does with the pages beyond what its plugins do."""
