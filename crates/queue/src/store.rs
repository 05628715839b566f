//! The database.

use std::fs::{DirBuilder, File};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use host::beneath::Dir;
use rusqlite::limits::Limit;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Row, TransactionBehavior, params};

use crate::error::{Error, Result};
use crate::job::{Job, State, Times, Wanted};
use crate::lock::{self, Held};

/// How often a job is begun that is cut each time.
pub const MOST_TRIES: u32 = 3;

/// Tells the file from any other database: `dior`.
const APPLICATION: i64 = 0x6469_6f72;
const VERSION: i64 = 1;
const TABLES: &str = "
    CREATE TABLE job (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        dir TEXT NOT NULL,
        words TEXT NOT NULL,
        place TEXT NOT NULL,
        priority INTEGER NOT NULL,
        state TEXT NOT NULL,
        tries INTEGER NOT NULL DEFAULT 0,
        cuts INTEGER NOT NULL DEFAULT 0,
        code INTEGER,
        why TEXT,
        added INTEGER NOT NULL,
        begun INTEGER,
        over INTEGER,
        to_cancel INTEGER NOT NULL DEFAULT 0
    );
    CREATE INDEX by_turn ON job (state, priority DESC, id);";
const ALL: &str =
    "SELECT id, dir, words, place, priority, state, tries, code, why, added, begun, over, to_cancel, cuts FROM job";
/// As long as others have the database.
const PATIENCE: Duration = Duration::from_secs(30);
/// The longest row of a job, in bytes: words of a command, paths, a reason; and how many are read at once.
const LONGEST: i32 = 256 << 10;
const PAGE: u32 = 16;

/// A queue.
#[derive(Debug)]
pub struct Queue {
    connection: Connection,
    file: PathBuf,
    /// Locks and logs of its jobs.
    dir: PathBuf,
}

/// The path of a queue's file without symbolic links. None of another user's is followed to its folder, and none at all
/// from there: not to its file, and not to the directory of its jobs.
fn plain(file: &Path) -> Result<PathBuf> {
    let failed = || Error::file(file, "cannot be a queue");
    let name = file.file_name().ok_or_else(|| failed()(std::io::ErrorKind::IsADirectory.into()))?;
    let folder = file.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
    Dir::open_or_make(folder).map_err(failed())?;
    let folder = folder.canonicalize().map_err(failed())?;
    // With what the database plays back into the file, and the directory of its jobs.
    for end in ["", ".jobs", "-journal", "-wal", "-shm"] {
        let mut part = name.to_owned();
        part.push(end);
        let Ok(found) = folder.join(&part).symlink_metadata() else { continue };
        if found.is_symlink() {
            return Err(failed()(std::io::Error::other("it, or its directory NAME.jobs, is a symbolic link")));
        }
        // Its jobs are carried out with the rights of whoever carries them out: what they do is up to who filled it.
        if !is_of_ours(found.uid()) {
            let what = format!(
                "{}: it is another user's (number {}), who would have you run what he likes; have him run it, or make \
                 it yours (`chown`)",
                folder.join(&part).display(),
                found.uid()
            );
            return Err(Error::Input(what));
        }
    }
    Ok(folder.join(name))
}

/// Whether a user is root, who runs this, or who has asked root by `sudo`.
fn is_of_ours(user: u32) -> bool {
    let caller = host::beneath::caller().map(|(user, _)| user.as_raw());
    user == 0 || user == rustix::process::getuid().as_raw() || caller == Some(user)
}

impl Queue {
    /// Opens the queue in a file, or makes it.
    pub fn open(file: &Path) -> Result<Queue> {
        let mut dir = file.as_os_str().to_owned();
        dir.push(".jobs");
        let dir = PathBuf::from(dir);
        let plain = plain(file)?;
        let make = |dir: &Path| DirBuilder::new().recursive(true).mode(0o700).create(dir);
        make(&dir).map_err(Error::file(&dir, "cannot make a directory"))?;
        let fails = || Error::database(file);
        let flags = OpenFlags::default() | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        let mut connection = Connection::open_with_flags(&plain, flags).map_err(fails())?;
        connection.busy_timeout(PATIENCE).map_err(fails())?;
        // Somebody may have named any database of his.
        connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, LONGEST).map_err(fails())?;
        let begin = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(fails())?;
        let number = |name: &str| begin.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        let (application, version) =
            (number("application_id").map_err(fails())?, number("user_version").map_err(fails())?);
        match (application, version) {
            (APPLICATION, VERSION) => (),
            (0, 0) if is_empty(&begin).map_err(fails())? => {
                begin.execute_batch(TABLES).map_err(fails())?;
                begin.pragma_update(None, "application_id", APPLICATION).map_err(fails())?;
                begin.pragma_update(None, "user_version", VERSION).map_err(fails())?;
            }
            (APPLICATION, newer) => {
                let what =
                    format!("{}: this queue is of version {newer}; this program knows {VERSION}", file.display());
                return Err(Error::Input(what));
            }
            _ => {
                let what = "this is a database, but no queue; name another file with --queue";
                return Err(Error::Input(format!("{}: {what}", file.display())));
            }
        }
        begin.commit().map_err(fails())?;
        Ok(Queue { connection, file: file.into(), dir })
    }

    /// Where it is.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Where what the program of a job writes is kept.
    pub fn log(&self, id: i64) -> PathBuf {
        self.dir.join(format!("{id}.log"))
    }

    /// The end of that, of so many bytes.
    pub fn end_of_log(&self, id: i64, most: u64) -> std::io::Result<Vec<u8>> {
        let mut file = File::open(self.log(id))?;
        file.seek(SeekFrom::Start(file.metadata()?.len().saturating_sub(most)))?;
        let mut text = Vec::new();
        file.take(most).read_to_end(&mut text).map(|_| text)
    }

    /// Adds jobs, all or none; gives their numbers. `place` is told each one's number, and says where its results go.
    pub fn add<W: IntoIterator<Item = Wanted>>(
        &mut self,
        jobs: W,
        place: impl Fn(i64, &Wanted) -> PathBuf,
    ) -> Result<Vec<i64>> {
        let file = self.file.clone();
        let fails = || Error::database(&file);
        let change = self.connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(fails())?;
        let mut added = Vec::new();
        for job in jobs {
            let words = serde_json::to_string(&job.words).map_err(|e| Error::Input(e.to_string()))?;
            let text = |path: &Path| {
                path.to_str()
                    .map(str::to_owned)
                    .ok_or_else(|| Error::Input(format!("{}: its name is not in UTF-8", path.display())))
            };
            let insert = "INSERT INTO job (dir, words, place, priority, state, added) VALUES (?, ?, '', ?, ?, ?)";
            let values = params![text(&job.dir)?, words, job.priority, State::Waiting.name(), now()];
            change.execute(insert, values).map_err(fails())?;
            let id = change.last_insert_rowid();
            let values = params![text(&place(id, &job))?, id];
            change.execute("UPDATE job SET place = ? WHERE id = ?", values).map_err(fails())?;
            added.push(id);
        }
        change.commit().map_err(fails())?;
        Ok(added)
    }

    /// All jobs, in the order in which they were added.
    pub fn jobs(&self) -> Result<Vec<Job>> {
        let mut all = Vec::new();
        self.each(|job| {
            all.push(job);
            Ok::<_, Error>(())
        })?;
        Ok(all)
    }

    /// Hands over all jobs in that order, one by one, for there may be very many.
    pub fn each<E: From<Error>>(
        &self,
        mut take: impl FnMut(Job) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let mut last = 0;
        loop {
            // Whoever takes them may stand still, and others must not wait for him.
            let page = self.page_after(last)?;
            let Some(end) = page.last() else { return Ok(()) };
            last = end.id;
            page.into_iter().try_for_each(&mut take)?;
        }
    }

    /// The first jobs with a higher number.
    fn page_after(&self, id: i64) -> Result<Vec<Job>> {
        let fails = || Error::database(&self.file);
        let few = format!("{ALL} WHERE id > ? ORDER BY id LIMIT {PAGE}");
        let mut query = self.connection.prepare(&few).map_err(fails())?;
        let rows = query.query_map([id], job).map_err(fails())?;
        rows.collect::<rusqlite::Result<_>>().map_err(fails())
    }

    /// How many jobs are in states of some kind.
    pub fn count(&self, of: impl Fn(State) -> bool) -> Result<u32> {
        let fails = || Error::database(&self.file);
        let mut query = self.connection.prepare("SELECT state, count(*) FROM job GROUP BY state").map_err(fails())?;
        let rows = query.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, u32>(1)?))).map_err(fails())?;
        rows.map(|row| row.map(|(state, count)| if State::of(&state).is_some_and(&of) { count } else { 0 }))
            .sum::<rusqlite::Result<u32>>()
            .map_err(fails())
    }

    /// A job.
    pub fn job(&self, id: i64) -> Result<Job> {
        let query = self.connection.query_row(&format!("{ALL} WHERE id = ?"), [id], job).optional();
        let found = query.map_err(Error::database(&self.file))?;
        found.ok_or_else(|| Error::Input(format!("there is no job {id}: `diorama batch list` prints those that are")))
    }

    /// Takes back a job: one that waits at once; of one that runs, who makes it is told to end it. Gives the job as it
    /// was.
    pub fn cancel(&mut self, id: i64) -> Result<Job> {
        let file = self.file.clone();
        let fails = || Error::database(&file);
        let change = self.connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(fails())?;
        let found = change.query_row(&format!("{ALL} WHERE id = ?"), [id], job).optional().map_err(fails())?;
        let Some(found) = found else {
            let what = format!("there is no job {id}: `diorama batch list` prints those that are");
            return Err(Error::Input(what));
        };
        let update = match found.state {
            State::Waiting => "UPDATE job SET state = 'cancelled', over = ?2 WHERE id = ?1",
            State::Running => "UPDATE job SET to_cancel = 1 WHERE id = ?1 AND ?2",
            over => return Err(Error::Input(format!("job {id} is {over} already"))),
        };
        change.execute(update, params![id, now()]).map_err(fails())?;
        change.commit().map_err(fails())?;
        Ok(found)
    }

    /// Has jobs that have failed wait again, as if they had not been tried; gives how many.
    pub fn retry(&mut self) -> Result<usize> {
        let update = "UPDATE job SET state = 'waiting', cuts = 0, code = NULL, over = NULL WHERE state = 'failed'";
        self.connection.execute(update, []).map_err(Error::database(&self.file))
    }

    /// Takes the next job that waits, to make it; `None` if there is none. Jobs that were cut wait again.
    pub fn take(&mut self) -> Result<Option<Held>> {
        self.find_cut()?;
        let file = self.file.clone();
        let fails = || Error::database(&file);
        let change = self.connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(fails())?;
        let waiting: Vec<i64> = {
            let order = "SELECT id FROM job WHERE state = 'waiting' ORDER BY priority DESC, id";
            let mut query = change.prepare(order).map_err(fails())?;
            let rows = query.query_map([], |row| row.get(0)).map_err(fails())?;
            rows.collect::<rusqlite::Result<_>>().map_err(fails())?
        };
        for id in waiting {
            // One that waits is locked only for the moment in which its last try ends.
            let Some(lock) = lock::take(&self.dir, id)? else { continue };
            let update = "UPDATE job SET state = 'running', tries = tries + 1, begun = ?, why = NULL WHERE id = ?";
            change.execute(update, params![now(), id]).map_err(fails())?;
            let taken = change.query_row(&format!("{ALL} WHERE id = ?"), [id], job).map_err(fails())?;
            change.commit().map_err(fails())?;
            return Ok(Some(Held::new(taken, lock)));
        }
        Ok(None)
    }

    /// Jobs that are noted as running and that nobody makes: they wait again, or have failed if that was too often.
    pub fn find_cut(&mut self) -> Result<()> {
        let running: Vec<i64> = {
            let fails = || Error::database(&self.file);
            let mut query = self.connection.prepare("SELECT id FROM job WHERE state = 'running'").map_err(fails())?;
            let rows = query.query_map([], |row| row.get(0)).map_err(fails())?;
            rows.collect::<rusqlite::Result<_>>().map_err(fails())?
        };
        for id in running {
            let Some((lock, path)) = lock::take(&self.dir, id)? else { continue };
            // With the lock in hand: it may have ended in between.
            let found = self.job(id)?;
            if found.state == State::Running {
                let why = format!("try {} was cut: its process was killed, or the machine stopped", found.tries);
                self.again(&Held::new(found, (lock, path)), &why)?;
            }
        }
        Ok(())
    }

    /// Notes that a job was cut: it waits again, or has failed if that was too often, or is cancelled if somebody
    /// wanted that.
    pub(crate) fn again(&mut self, held: &Held, why: &str) -> Result<()> {
        let job = &held.job;
        let (state, over) = match job.cuts + 1 {
            _ if self.job(job.id)?.to_cancel => (State::Cancelled, Some(now())),
            cuts if cuts >= MOST_TRIES => (State::Failed, Some(now())),
            _ => (State::Waiting, None),
        };
        let update = "UPDATE job SET state = ?, why = ?, over = ?, cuts = cuts + 1 WHERE id = ?";
        self.execute(update, params![state.name(), why, over, job.id])
    }

    /// Notes that the run of a job was interrupted, which does not count as a try.
    pub(crate) fn put_back(&mut self, held: &Held, why: &str) -> Result<()> {
        let update = "UPDATE job SET state = 'waiting', why = ? WHERE id = ?";
        self.execute(update, params![why, held.job.id])
    }

    /// Notes how a job has ended.
    pub(crate) fn close(&mut self, held: Held, state: State, code: Option<u8>, why: Option<&str>) -> Result<()> {
        let update = "UPDATE job SET state = ?, code = ?, why = ?, over = ? WHERE id = ?";
        self.execute(update, params![state.name(), code, why, now(), held.job.id])?;
        held.forget();
        Ok(())
    }

    fn execute(&mut self, update: &str, values: impl rusqlite::Params) -> Result<()> {
        self.connection.execute(update, values).map(drop).map_err(Error::database(&self.file))
    }

    pub(crate) fn open_log(&self, id: i64) -> Result<File> {
        let path = self.log(id);
        let open = File::options().create(true).append(true).open(&path);
        open.map_err(Error::file(&path, "cannot write"))
    }
}

fn is_empty(connection: &Connection) -> rusqlite::Result<bool> {
    connection.query_row("SELECT count(*) = 0 FROM sqlite_schema", [], |row| row.get(0))
}

fn job(row: &Row) -> rusqlite::Result<Job> {
    let wrong = |column: usize, what: &str| {
        rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Text, what.to_owned().into())
    };
    let words: String = row.get(2)?;
    let state: String = row.get(5)?;
    Ok(Job {
        id: row.get(0)?,
        wanted: Wanted {
            dir: row.get::<_, String>(1)?.into(),
            words: serde_json::from_str(&words).map_err(|_| wrong(2, "no list of words"))?,
            priority: row.get(4)?,
        },
        place: row.get::<_, String>(3)?.into(),
        state: State::of(&state).ok_or_else(|| wrong(5, "no state of a job"))?,
        tries: row.get(6)?,
        code: row.get(7)?,
        why: row.get(8)?,
        times: Times { added: row.get(9)?, begun: row.get(10)?, over: row.get(11)? },
        to_cancel: row.get(12)?,
        cuts: row.get(13)?,
    })
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64)
}
