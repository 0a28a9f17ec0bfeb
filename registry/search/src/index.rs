//! The index on disk: descriptions by the hashes of their terms.

use std::fs;
use std::path::Path;
use std::sync::{Arc, RwLock};

use tantivy::collector::{Collector, SegmentCollector};
use tantivy::columnar::Column;
use tantivy::index::SegmentReader;
use tantivy::indexer::IndexWriterOptions;
use tantivy::query::{BooleanQuery, Occur, Query, RangeQuery, TermQuery};
use tantivy::schema::{BytesOptions, Field, IndexRecordOption, NumericOptions, Schema};
use tantivy::store::Compressor;
use tantivy::{
    DocId, IndexReader, IndexSettings, IndexWriter, ReloadPolicy, Score, Searcher, SegmentOrdinal, TantivyDocument,
    TantivyError, Term,
};

use crate::{Need, Terms};

/// What is written differently is another format: an index of another one is begun anew.
const FORMAT: &str = "althing-search 1";
/// Memory of the writer, bytes.
const WRITER_BYTES: usize = 24_000_000;
/// The term of descriptions that may have any.
const ANY: u64 = 0;

/// Whom a description is of: the first half of a digest of the id.
pub type Key = [u8; 16];

/// What an index stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// How many entries of the log, from the first on.
    pub entries: u64,
    /// The root over them, by which one log is told from another.
    pub root: [u8; 32],
}

/// Why an index is of no use at the moment. What it narrowed can be looked at without it.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// Its files cannot be used.
    #[error("the search index cannot be used: {0}; searches go on without it")]
    Index(#[from] TantivyError),
    /// Its folder cannot be used.
    #[error("the folder of the search index cannot be used: {0}; searches go on without it")]
    Folder(#[from] std::io::Error),
}

#[derive(Debug, Clone, Copy)]
struct Fields {
    key: Field,
    entry: Field,
    ends: Field,
    term: Field,
}

/// An index.
pub struct Index {
    index: tantivy::Index,
    reader: IndexReader,
    fields: Fields,
    view: RwLock<View>,
}

/// What an index has at some time.
#[derive(Clone)]
pub struct View {
    searcher: Searcher,
    fields: Fields,
    entries: u64,
}

fn schema() -> (Schema, Fields) {
    let mut schema = Schema::builder();
    let number = NumericOptions::default();
    let fields = Fields {
        key: schema.add_bytes_field("key", BytesOptions::default().set_indexed()),
        entry: schema.add_u64_field("entry", number.clone().set_fast()),
        ends: schema.add_u64_field("ends", number.clone().set_fast()),
        term: schema.add_u64_field("term", number.set_indexed()),
    };
    (schema.build(), fields)
}

impl Index {
    /// Opens the index of a folder, and says what it stands for: no entries where it was begun anew, because there was none,
    /// it was damaged, it was of another format, or the caller's log does not go on from what it stands for.
    ///
    /// # Errors
    /// [`IndexError`]: no index can be begun either.
    pub fn open(folder: &Path, goes_on: impl Fn(Standing) -> bool) -> Result<(Index, Standing), IndexError> {
        match Index::kept(folder) {
            Ok(Some((index, standing))) if goes_on(standing) => return Ok((index, standing)),
            // Whatever it is, everything in it can be made again.
            Ok(_) | Err(_) => {}
        }
        let begun = Standing { entries: 0, root: [0; 32] };
        empty(folder)?;
        let (schema, fields) = schema();
        let settings = IndexSettings { docstore_compression: Compressor::None, ..IndexSettings::default() };
        let index = tantivy::Index::builder().schema(schema).settings(settings).create_in_dir(folder)?;
        Ok((Index::read(index, fields, begun)?, begun))
    }

    /// The index that is there; none if it is damaged or of another format.
    fn kept(folder: &Path) -> Result<Option<(Index, Standing)>, IndexError> {
        let index = tantivy::Index::open_in_dir(folder)?;
        let (schema, fields) = schema();
        if index.schema() != schema || !index.validate_checksum()?.is_empty() {
            return Ok(None);
        }
        let payload = index.load_metas()?.payload.unwrap_or_default();
        let Some(standing) = Standing::read(&payload) else { return Ok(None) };
        Ok(Some((Index::read(index, fields, standing)?, standing)))
    }

    fn read(index: tantivy::Index, fields: Fields, standing: Standing) -> Result<Index, IndexError> {
        let reader = index.reader_builder().reload_policy(ReloadPolicy::Manual).try_into()?;
        let view = RwLock::new(View { searcher: reader.searcher(), fields, entries: standing.entries });
        Ok(Index { index, reader, fields, view })
    }

    /// What it has now.
    ///
    /// # Panics
    /// If another holder panicked, as everywhere here.
    #[must_use]
    pub fn view(&self) -> View {
        self.view.read().expect("no holder panics").clone()
    }

    /// The right to write to it; one at a time.
    ///
    /// # Errors
    /// [`IndexError`].
    pub fn writer(self: &Arc<Index>) -> Result<Writer, IndexError> {
        let options = IndexWriterOptions::builder()
            .memory_budget_per_thread(WRITER_BYTES)
            .num_worker_threads(1)
            .num_merge_threads(1)
            .build();
        Ok(Writer { index: self.clone(), writer: self.index.writer_with_options(options)? })
    }
}

/// Makes an empty folder. One that is there stays: it may be a disk of its own.
fn empty(folder: &Path) -> std::io::Result<()> {
    fs::create_dir_all(folder)?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

impl Standing {
    fn text(&self) -> String {
        let root: String = self.root.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{FORMAT}\n{}\n{root}", self.entries)
    }

    fn read(text: &str) -> Option<Standing> {
        let mut lines = text.lines();
        if lines.next()? != FORMAT {
            return None;
        }
        let (entries, hex) = (lines.next()?.parse().ok()?, lines.next()?);
        let mut root = [0; 32];
        for (at, byte) in root.iter_mut().enumerate() {
            *byte = u8::from_str_radix(hex.get(2 * at..2 * at + 2)?, 16).ok()?;
        }
        Some(Standing { entries, root })
    }
}

/// Writes to an index. Nothing of it is seen before [`Writer::commit`], and nothing of it is kept if it is dropped before.
pub struct Writer {
    index: Arc<Index>,
    writer: IndexWriter,
}

impl Writer {
    /// Adds the description of an entry, which may end.
    ///
    /// # Errors
    /// [`IndexError`].
    pub fn add(&self, key: &Key, entry: u64, terms: &Terms, ends_ms: Option<u64>) -> Result<(), IndexError> {
        let fields = self.index.fields;
        let mut document = TantivyDocument::default();
        document.add_bytes(fields.key, key);
        document.add_u64(fields.entry, entry);
        if let Some(ends_ms) = ends_ms {
            document.add_u64(fields.ends, ends_ms);
        }
        match terms {
            Terms::These(terms) => terms.iter().for_each(|term| document.add_u64(fields.term, *term)),
            Terms::Any => document.add_u64(fields.term, ANY),
        }
        self.writer.add_document(document)?;
        Ok(())
    }

    /// Takes away all descriptions of one that were added before.
    pub fn remove(&self, key: &Key) {
        self.writer.delete_term(Term::from_field_bytes(self.index.fields.key, key));
    }

    /// Takes away the descriptions that have ended by then.
    ///
    /// # Errors
    /// [`IndexError`].
    pub fn remove_ended(&self, by_ms: u64) -> Result<(), IndexError> {
        use std::ops::Bound::{Included, Unbounded};
        let last = Term::from_field_u64(self.index.fields.ends, by_ms);
        self.writer.delete_query(Box::new(RangeQuery::new(Unbounded, Included(last))))?;
        Ok(())
    }

    /// Makes seen what was written, which stands for these entries of the log. It is on disk when this returns.
    ///
    /// # Errors
    /// [`IndexError`]: what was written since the last time is lost. The index stands for what it stood for before.
    ///
    /// # Panics
    /// If another holder panicked.
    pub fn commit(&mut self, standing: Standing) -> Result<(), IndexError> {
        let mut prepared = self.writer.prepare_commit()?;
        prepared.set_payload(&standing.text());
        prepared.commit()?;
        self.index.reader.reload()?;
        let view =
            View { searcher: self.index.reader.searcher(), fields: self.index.fields, entries: standing.entries };
        *self.index.view.write().expect("no holder panics") = view;
        Ok(())
    }
}

impl View {
    /// How many entries of the log it stands for.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// The entries whose descriptions may have what is needed, in the order of the log; none if they are more than that, or
    /// nothing is needed. Descriptions that were changed or taken away since are among them.
    ///
    /// # Errors
    /// [`IndexError`].
    pub fn candidates(&self, need: &Need, max: usize) -> Result<Option<Vec<u64>>, IndexError> {
        if *need == Need::Nothing {
            return Ok(None);
        }
        let any = Need::Term(ANY);
        let query = union([self.query(need), self.query(&any)]);
        let mut found = self.searcher.search(&query, &Entries { max })?;
        found.sort_unstable();
        Ok((found.len() <= max).then_some(found))
    }

    fn query(&self, need: &Need) -> Box<dyn Query> {
        match need {
            Need::Nothing => Box::new(tantivy::query::AllQuery),
            Need::Term(term) => {
                let term = Term::from_field_u64(self.fields.term, *term);
                Box::new(TermQuery::new(term, IndexRecordOption::Basic))
            }
            Need::All(all) => {
                let all = all.iter().map(|need| (Occur::Must, self.query(need)));
                Box::new(BooleanQuery::new(all.collect()))
            }
            Need::One(one) => Box::new(union(one.iter().map(|need| self.query(need)))),
        }
    }
}

fn union(queries: impl IntoIterator<Item = Box<dyn Query>>) -> BooleanQuery {
    BooleanQuery::new(queries.into_iter().map(|query| (Occur::Should, query)).collect())
}

/// Collects the entries of descriptions, and stops to keep them where they are too many.
struct Entries {
    max: usize,
}

struct SegmentEntries {
    entries: Column<u64>,
    found: Vec<u64>,
    max: usize,
}

impl Collector for Entries {
    type Fruit = Vec<u64>;
    type Child = SegmentEntries;

    fn for_segment(&self, _: SegmentOrdinal, segment: &SegmentReader) -> tantivy::Result<SegmentEntries> {
        Ok(SegmentEntries { entries: segment.fast_fields().u64("entry")?, found: Vec::new(), max: self.max })
    }

    fn requires_scoring(&self) -> bool {
        false
    }

    fn merge_fruits(&self, found: Vec<Vec<u64>>) -> tantivy::Result<Vec<u64>> {
        Ok(found.concat())
    }
}

impl SegmentCollector for SegmentEntries {
    type Fruit = Vec<u64>;

    fn collect(&mut self, document: DocId, _: Score) {
        if self.found.len() <= self.max {
            self.found.extend(self.entries.first(document));
        }
    }

    fn harvest(self) -> Vec<u64> {
        self.found
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{need, terms};

    fn standing(entries: u64) -> Standing {
        Standing { entries, root: [entries as u8; 32] }
    }

    fn key(number: u8) -> Key {
        [number; 16]
    }

    fn opened(folder: &Path, goes_on: impl Fn(Standing) -> bool) -> (Arc<Index>, Standing) {
        let (index, standing) = Index::open(folder, goes_on).expect("an index");
        (Arc::new(index), standing)
    }

    fn lamps(folder: &Path) -> Arc<Index> {
        let (index, begun) = opened(folder, |_| true);
        assert_eq!(begun.entries, 0);
        let mut writer = index.writer().expect("a writer");
        for (number, title) in [(1, "Lamp"), (2, "Pump"), (3, "Lamp")] {
            let terms = terms(&json!({ "title": title }));
            writer.add(&key(number), u64::from(number), &terms, Some(u64::from(number) * 10)).expect("added");
        }
        writer.add(&key(4), 4, &Terms::Any, None).expect("added");
        writer.commit(standing(5)).expect("committed");
        drop(writer);
        index
    }

    fn found(index: &Index, query: &str) -> Option<Vec<u64>> {
        index.view().candidates(&need(query), 100).expect("it is searched")
    }

    const LAMPS: &str = "$[?@.title=='Lamp']";

    #[test]
    fn candidates_have_what_is_needed_or_may_have_anything() {
        let folder = tempfile::tempdir().expect("a folder");
        let index = lamps(folder.path());
        assert_eq!(index.view().entries(), 5);
        assert_eq!(found(&index, LAMPS), Some(vec![1, 3, 4]));
        assert_eq!(found(&index, "$[?@.title=='Lamp' && @.x]"), Some(vec![4]));
        assert_eq!(found(&index, "$[?@.title=='Lamp' || @.title=='Pump']"), Some(vec![1, 2, 3, 4]));
        assert_eq!(found(&index, "$[*]"), None);
        assert_eq!(index.view().candidates(&need(LAMPS), 2).expect("it is searched"), None, "too many");
        let before = index.view();
        let mut writer = index.writer().expect("a writer");
        writer.remove(&key(1));
        writer.add(&key(1), 6, &terms(&json!({ "title": "Pump" })), None).expect("added");
        writer.remove_ended(30).expect("removed");
        assert_eq!(found(&index, LAMPS), Some(vec![1, 3, 4]), "nothing is seen before it is committed");
        writer.commit(standing(7)).expect("committed");
        assert_eq!(found(&index, LAMPS), Some(vec![4]));
        assert_eq!(found(&index, "$[?@.title=='Pump']"), Some(vec![4, 6]));
        assert_eq!(before.candidates(&need(LAMPS), 9).expect("it is searched"), Some(vec![1, 3, 4]), "a view stays");
    }

    #[test]
    fn an_index_is_kept_and_begun_anew_where_it_is_of_no_use() {
        let folder = tempfile::tempdir().expect("a folder");
        drop(lamps(folder.path()));
        let (index, kept) = opened(folder.path(), |kept| kept == standing(5));
        assert_eq!((kept, found(&index, LAMPS)), (standing(5), Some(vec![1, 3, 4])));
        // What was not committed is not kept.
        let writer = index.writer().expect("a writer");
        writer.remove(&key(1));
        drop(writer);
        drop(index);
        let (index, kept) = opened(folder.path(), |_| true);
        assert_eq!((kept, found(&index, LAMPS)), (standing(5), Some(vec![1, 3, 4])));
        drop(index);
        let (index, begun) = opened(folder.path(), |_| false);
        assert_eq!((begun.entries, found(&index, LAMPS)), (0, Some(vec![])), "another log");
        drop(index);
        for damage in ["one byte", "the end is missing", "no list of files", "a file is missing"] {
            drop(lamps(folder.path()));
            let path = |wanted: &str| {
                let files = fs::read_dir(folder.path()).expect("a folder").map(|file| file.expect("a file").path());
                files.into_iter().find(|path| path.to_string_lossy().ends_with(wanted)).expect("it is there")
            };
            match damage {
                "one byte" => {
                    let mut bytes = fs::read(path(".idx")).expect("read");
                    bytes[0] ^= 1;
                    fs::write(path(".idx"), bytes).expect("written");
                }
                "the end is missing" => {
                    let bytes = fs::read(path(".fast")).expect("read");
                    fs::write(path(".fast"), &bytes[..bytes.len() / 2]).expect("written");
                }
                "no list of files" => fs::write(path("meta.json"), "{").expect("written"),
                _ => fs::remove_file(path(".term")).expect("removed"),
            }
            let (_, begun) = opened(folder.path(), |_| true);
            assert_eq!(begun.entries, 0, "{damage}");
            fs::remove_dir_all(folder.path()).expect("removed");
        }
    }

    #[test]
    fn what_stands_in_an_index_is_read_as_it_was_written() {
        assert_eq!(Standing::read(&standing(9).text()), Some(standing(9)));
        for other in ["", "althing-search 0\n1\n00", "althing-search 1\nx\n00", "althing-search 1\n1\n0"] {
            assert_eq!(Standing::read(other), None, "{other}");
        }
    }
}
