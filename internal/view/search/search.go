// Package search finds steps and tasks by their words: titles, prompts, outputs, commands, and names of changed files.
//
// An Index is a full-text index of one record, in an SQLite file of this machine beside the other views of that record.
// Its input is the record, which it reads through a [view.Reader], and what a person typed, which [Parse] reads; its
// output is what was found. Laws:
//
//   - It is a view: the file can be deleted, and is built again from the record. Any process may add to it.
//   - A search first reads what the record has since, or says how far the index has come.
//   - What was removed or redacted, on whatever machine, is gone from the file before anything is found in it.
//   - What people type is words: none of it is syntax of the index's own language.
//   - What the words of another step only repeat, as a join does, is not found twice.
//
// It never changes the record, and draws nothing for people: what is found is as agents wrote it.
package search

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/view"
)

// An Index is the index of a record. The zero Index is that of a record without a place for it, where a search fails.
// Methods may be called concurrently, also by several processes.
type Index struct {
	views   *view.Reader
	path    string
	changed Changed
}

// Changed returns the names of the files that two git trees of the repository of a directory differ in, none if it does
// not have them.
type Changed func(ctx context.Context, dir, from, to string) []string

// New returns the index of the record that views reads, below home, which is PLAIT_HOME.
func New(views *view.Reader, home string, changed Changed) Index {
	if home == "" {
		return Index{}
	}
	dir := thread.Views{Dir: home, Record: views.Store.ID()}.Root()
	return Index{views: views, path: filepath.Join(dir, "search.db"), changed: changed}
}

// Is reports whether path, below home, is a file of an index of any record: nobody else may change it.
func Is(home, path string) bool {
	rel, err := filepath.Rel(home, path)
	if err != nil {
		return false
	}
	for _, pattern := range []string{"search.db*", filepath.Join(thread.ViewsOf("*"), "search.db*")} {
		if is, _ := filepath.Match(pattern, rel); is {
			return true
		}
	}
	return false
}

// patience is how long to wait for another process that is adding to the index.
const patience = 10 * time.Second

// format is the version of the schema. An index of another one is built again.
const format = 2

// The tokens of unicode61 are runs of letters and digits, so a path, a flag or an identifier is a phrase. Of the writing
// systems that do not separate words each character is one, see spaced.
const schema = `
CREATE TABLE state (position INTEGER NOT NULL, leaf TEXT NOT NULL, removals INTEGER NOT NULL);
INSERT INTO state VALUES (0, '', 0);
CREATE TABLE doc (id INTEGER PRIMARY KEY, task TEXT NOT NULL, thread TEXT NOT NULL, step TEXT NOT NULL UNIQUE,
  n INTEGER NOT NULL, role TEXT NOT NULL, agent TEXT NOT NULL, at INTEGER NOT NULL, origin TEXT NOT NULL);
CREATE INDEX doc_task ON doc (task);
CREATE INDEX doc_origin ON doc (origin) WHERE origin <> '';
CREATE VIRTUAL TABLE words USING fts5 (title, prompt, output, command, file, tokenize = 'unicode61 remove_diacritics 2');
`

// open opens the index, and creates it if there is none.
func (x Index) open(ctx context.Context) (*sqlite.Conn, error) {
	if x.path == "" {
		return nil, errors.New("there is no directory for it")
	}
	if _, err := os.Stat(x.path); errors.Is(err, fs.ErrNotExist) {
		if err := x.create(); err != nil {
			return nil, err
		}
	}
	return x.connect(ctx, x.path)
}

// create makes the file, complete, so that no process finds a part of one.
func (x Index) create() error {
	if err := os.MkdirAll(filepath.Dir(x.path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(x.path), "search.db-new-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if err := f.Close(); err != nil {
		return err
	}
	c, err := x.connect(context.Background(), f.Name())
	if err != nil {
		return err
	}
	if err := c.Close(); err != nil {
		return err
	}
	if err := os.Link(f.Name(), x.path); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// connect opens a file whose schema is the one of this version.
func (x Index) connect(ctx context.Context, path string) (c *sqlite.Conn, err error) {
	if c, err = sqlite.OpenConn(path, sqlite.OpenReadWrite); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	c.SetInterrupt(ctx.Done())
	c.SetBusyTimeout(patience)
	for _, q := range []string{
		"PRAGMA journal_mode = WAL",
		"PRAGMA synchronous = NORMAL", // what a power failure takes is read again
		"PRAGMA secure_delete = ON",
		"PRAGMA cache_size = -8192",
	} {
		if err := sqlitex.ExecuteTransient(c, q, nil); err != nil {
			return nil, err
		}
	}
	var is int
	err = sqlitex.ExecuteTransient(c, "PRAGMA user_version", &sqlitex.ExecOptions{ResultFunc: func(s *sqlite.Stmt) error {
		is = s.ColumnInt(0)
		return nil
	}})
	if err == nil && is != format {
		err = within(c, func() error { return empty(c) })
	}
	return c, err
}

// empty takes everything out of the index.
func empty(c *sqlite.Conn) error {
	return sqlitex.ExecScript(c, "DROP TABLE IF EXISTS words; DROP TABLE IF EXISTS doc; DROP TABLE IF EXISTS state;"+
		schema+fmt.Sprintf("PRAGMA user_version = %d;", format))
}

// within calls do in a transaction that no other process writes in.
func within(c *sqlite.Conn, do func() error) (err error) {
	end, err := sqlitex.ImmediateTransaction(c)
	if err != nil {
		return err
	}
	defer end(&err)
	return do()
}

// exec executes a statement that returns rows to each, which may be nil.
func exec(c *sqlite.Conn, query string, each func(*sqlite.Stmt) error, args ...any) error {
	return sqlitex.Execute(c, query, &sqlitex.ExecOptions{Args: args, ResultFunc: each})
}

// settle merges the log of the file into it, so that nothing is left there of what was deleted.
func settle(c *sqlite.Conn) error {
	return exec(c, "PRAGMA wal_checkpoint(TRUNCATE)", func(s *sqlite.Stmt) error {
		if s.ColumnInt(0) != 0 {
			return errors.New("another process is reading it: what was removed is not yet gone from its log")
		}
		return nil
	})
}

// explain names the file in an error.
func (x Index) explain(err error) error {
	if err == nil || errors.Is(err, context.Canceled) || sqlite.ErrCode(err) == sqlite.ResultInterrupt {
		return err
	}
	if code := sqlite.ErrCode(err).ToPrimary(); code == sqlite.ResultCorrupt || code == sqlite.ResultNotADB {
		return fmt.Errorf("search index %s: %w; delete it: it is built again", x.path, err)
	}
	return fmt.Errorf("search index %s: %w", x.path, err)
}

// there opens the index if there is one.
func (x Index) there(ctx context.Context) (*sqlite.Conn, error) {
	if x.path == "" {
		return nil, nil
	}
	if _, err := os.Stat(x.path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return x.open(ctx)
}

// Forget takes tasks that were removed out of the index, and their words out of its file.
func (x Index) Forget(ctx context.Context, tasks []string) error {
	return x.drop(ctx, func(c *sqlite.Conn) error { return x.forget(ctx, c, tasks) })
}

// Clear takes everything out of the index, and its words out of its file: the record was redacted.
func (x Index) Clear(ctx context.Context) error { return x.drop(ctx, empty) }

func (x Index) drop(ctx context.Context, do func(*sqlite.Conn) error) error {
	c, err := x.there(ctx)
	if c == nil {
		return x.explain(err)
	}
	defer c.Close()
	if err = within(c, func() error { return do(c) }); err == nil {
		err = settle(c)
	}
	return x.explain(err)
}
