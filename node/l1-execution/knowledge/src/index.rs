//! The full-text index of a folder: one document for each paragraph, ranked by BM25.

use std::path::Path;

use althing_store::file::{FileError, read_bytes};
use tantivy::collector::TopDocs;
use tantivy::query::{BooleanQuery, BoostQuery, Occur, Query, TermQuery};
use tantivy::schema::{Field, IndexRecordOption, STORED, Schema, TextFieldIndexing, TextOptions, Value as _};
use tantivy::tokenizer::{
    Language, LowerCaser, RemoveLongFilter, SimpleTokenizer, Stemmer, StopWordFilter, TextAnalyzer,
};
use tantivy::{TantivyDocument, Term};

use crate::Limits;
use crate::folder::{FolderError, State};

/// Lines of one passage at most.
const PASSAGE_LINES: usize = 12;
/// The memory of the index writer, bytes; the minimum of tantivy.
const WRITER_BYTES: usize = 15_000_000;
/// Words of a question that are searched for.
const WORDS_MAX: usize = 64;
/// Characters of a word; longer ones are ignored.
const WORD_CHARS_MAX: usize = 64;
/// The weight of a word in the heading, relative to the text.
const HEADING_WEIGHT: f32 = 0.5;

/// A passage of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Passage {
    /// The file, relative to the folder.
    pub file: String,
    /// First line, counted from 1.
    pub line: u64,
    /// Last line.
    pub last_line: u64,
    /// The lines as they stand in the file.
    pub text: String,
    /// The BM25 score; comparable within one search only.
    pub score: f32,
}

/// An index in memory.
pub struct Index {
    reader: tantivy::IndexReader,
    fields: Fields,
    analyzer: TextAnalyzer,
    /// Files that could not be read as text.
    pub left_out: Vec<std::path::PathBuf>,
}

#[derive(Clone, Copy)]
struct Fields {
    file: Field,
    line: Field,
    text: Field,
    heading: Field,
}

fn analyzer() -> TextAnalyzer {
    let stop_words = StopWordFilter::new(Language::English).expect("tantivy knows English");
    TextAnalyzer::builder(SimpleTokenizer::default())
        .filter(RemoveLongFilter::limit(WORD_CHARS_MAX))
        .filter(LowerCaser)
        .filter(stop_words)
        .filter(Stemmer::new(Language::English))
        .build()
}

impl Index {
    /// Reads the files of `state` from `folder`. Files that are too large or not text are left out; of encodings other than
    /// UTF-8 only ASCII is read.
    ///
    /// # Errors
    /// See [`FolderError`].
    pub(crate) fn build(folder: &Path, state: &State) -> Result<Index, FolderError> {
        let mut schema = Schema::builder();
        let indexing =
            TextFieldIndexing::default().set_tokenizer("althing").set_index_option(IndexRecordOption::WithFreqs);
        let text = TextOptions::default().set_indexing_options(indexing);
        let fields = Fields {
            file: schema.add_text_field("file", STORED),
            line: schema.add_u64_field("line", STORED),
            text: schema.add_text_field("text", text.clone().set_stored()),
            heading: schema.add_text_field("heading", text),
        };
        let index = tantivy::Index::create_in_ram(schema.build());
        index.tokenizers().register("althing", analyzer());
        let mut writer = index.writer_with_num_threads(1, WRITER_BYTES)?;
        let mut left_out = Vec::new();
        let Limits { file_bytes, bytes: mut bytes_left, .. } = Limits::default();
        for (file, (size, _)) in state {
            if *size > file_bytes {
                left_out.push(file.clone());
                continue;
            }
            let path = folder.join(file);
            // It may have grown or been replaced since the folder was listed.
            let bytes = match read_bytes(&path, file_bytes.min(bytes_left)) {
                Ok(bytes) => bytes,
                Err(FileError::TooLong(_) | FileError::NotRegular(_)) => {
                    left_out.push(file.clone());
                    continue;
                }
                Err(reason) => return Err(FolderError::File { path, reason }),
            };
            bytes_left -= bytes.len() as u64;
            if bytes.contains(&0) {
                left_out.push(file.clone());
                continue;
            }
            let content = String::from_utf8_lossy(&bytes);
            for passage in passages(&content) {
                let mut document = TantivyDocument::default();
                document.add_text(fields.file, file.to_string_lossy());
                document.add_u64(fields.line, passage.line);
                document.add_text(fields.text, passage.text);
                document.add_text(fields.heading, passage.heading);
                writer.add_document(document)?;
            }
        }
        writer.commit()?;
        writer.wait_merging_threads()?;
        Ok(Index { reader: index.reader()?, fields, analyzer: analyzer(), left_out })
    }

    /// The best passages for `question`, best first.
    ///
    /// # Errors
    /// [`FolderError::Index`].
    pub fn search(&self, question: &str, most: usize) -> Result<Vec<Passage>, FolderError> {
        let words = self.words(question);
        let searcher = self.reader.searcher();
        let clause = |word: &String| -> Vec<(Occur, Box<dyn Query>)> {
            let term = |field| TermQuery::new(Term::from_field_text(field, word), IndexRecordOption::WithFreqs);
            let heading = BoostQuery::new(Box::new(term(self.fields.heading)), HEADING_WEIGHT);
            vec![(Occur::Should, Box::new(term(self.fields.text))), (Occur::Should, Box::new(heading))]
        };
        let query = BooleanQuery::new(words.iter().flat_map(clause).collect());
        let hits = searcher.search(&query, &TopDocs::with_limit(most).order_by_score())?;
        let mut found = Vec::with_capacity(hits.len());
        for (score, address) in hits {
            let document: TantivyDocument = searcher.doc(address)?;
            let text =
                |field| document.get_first(field).and_then(|value| value.as_str()).unwrap_or_default().to_owned();
            let line = document.get_first(self.fields.line).and_then(|value| value.as_u64()).unwrap_or(1);
            let content = text(self.fields.text);
            let last_line = line + content.lines().count().max(1) as u64 - 1;
            found.push(Passage { file: text(self.fields.file), line, last_line, text: content, score });
        }
        Ok(found)
    }

    fn words(&self, question: &str) -> Vec<String> {
        let mut analyzer = self.analyzer.clone();
        let mut tokens = analyzer.token_stream(question);
        let mut words = Vec::new();
        while words.len() < WORDS_MAX && tokens.advance() {
            let word = tokens.token().text.clone();
            if !words.contains(&word) {
                words.push(word);
            }
        }
        words
    }
}

struct Paragraph<'a> {
    line: u64,
    text: String,
    heading: &'a str,
}

/// Cuts text at blank lines, before headings, and after [`PASSAGE_LINES`] lines.
fn passages(content: &str) -> Vec<Paragraph<'_>> {
    let mut all = Vec::new();
    let mut heading = "";
    let mut open: Option<(u64, Vec<&str>)> = None;
    let mut close = |open: &mut Option<(u64, Vec<&str>)>, heading| {
        if let Some((line, lines)) = open.take() {
            all.push(Paragraph { line, text: lines.join("\n"), heading });
        }
    };
    for (line, number) in content.lines().zip(1u64..) {
        let is_heading = line.starts_with('#');
        let full = open.as_ref().is_some_and(|(_, lines)| lines.len() == PASSAGE_LINES);
        if line.trim().is_empty() || is_heading || full {
            close(&mut open, heading);
        }
        if is_heading {
            heading = line.trim_start_matches('#').trim();
        } else if !line.trim().is_empty() {
            open.get_or_insert_with(|| (number, Vec::new())).1.push(line);
        }
    }
    close(&mut open, heading);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::{Limits, look};

    fn index(files: &[(&str, &str)]) -> Index {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).expect("a written file");
        }
        let state = look(folder.path(), &Limits::default()).expect("a folder of text");
        Index::build(folder.path(), &state).expect("an index")
    }

    #[test]
    fn the_best_passage_comes_first_and_cites_its_lines() {
        let index = index(&[
            ("a.md", "# Ports\n\nThe gateway listens on port 7420.\nIt may be changed.\n\n# Keys\n\nKeys rotate.\n"),
            ("b.txt", "Nothing of interest.\n"),
            ("c.bin", "the gateway listens"),
        ]);
        let found = index.search("Where is the gateway listening?", 3).expect("a search");
        assert_eq!((found[0].file.as_str(), found[0].line, found[0].last_line), ("a.md", 3, 4));
        assert!(found.iter().all(|passage| passage.file != "c.bin"));
    }

    #[test]
    fn nothing_is_made_up_for_unknown_words() {
        let index = index(&[("a.md", "Only this.\n")]);
        assert_eq!(index.search("zebra", 3).expect("a search"), []);
        assert_eq!(index.search("the of and", 3).expect("a search"), []);
        assert_eq!(index.search("", 3).expect("a search"), []);
    }

    #[test]
    fn a_file_that_became_a_pipe_or_grew_since_it_was_seen_is_left_out_and_holds_up_nobody() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = |name: &str| folder.path().join(name);
        for name in ["good.md", "grows.md", "pipe.md"] {
            std::fs::write(file(name), "The heron fishes.\n").expect("a written file");
        }
        let state = look(folder.path(), &Limits::default()).expect("a folder of text");
        std::fs::remove_file(file("pipe.md")).expect("removed");
        nix::unistd::mkfifo(&file("pipe.md"), nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
        let grown = std::fs::File::options().write(true).open(file("grows.md")).expect("open");
        grown.set_len(1 << 40).expect("a sparse file");
        let index = Index::build(folder.path(), &state).expect("an index");
        let left_out: Vec<String> = index.left_out.iter().map(|file| file.display().to_string()).collect();
        assert_eq!(left_out, ["grows.md", "pipe.md"]);
        assert_eq!(index.search("heron", 3).expect("a search").len(), 1);
    }
}
