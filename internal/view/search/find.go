package search

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/plait-run/plait/internal/record/store"
)

// Found is what was found, the best first.
type Found struct {
	Hits  []Hit    `json:"hits"`
	More  bool     `json:"more"`  // there are more than the limit
	Index Progress `json:"index"` // of what was searched
}

// A Hit is a step, or what a task was asked, that has the words.
type Hit struct {
	Name    string   `json:"name"` // what users type for it: k7f2/3, or k7f2 for what a task was asked
	Task    string   `json:"task"`
	Title   string   `json:"title"` // of the task
	Flow    string   `json:"flow"`  // of the task
	Thread  string   `json:"thread"`
	Step    string   `json:"step"` // its hash, "" for what a task was asked
	N       int      `json:"n"`    // its number along the chain, or 0
	Role    string   `json:"role"`
	Agent   string   `json:"agent"`
	At      int64    `json:"at"`
	Found   string   `json:"found"`   // where: title, prompt, output, command or file
	Snippet string   `json:"snippet"` // of that
	Matches [][2]int `json:"matches"` // in the snippet: from and to, in bytes
}

// columns are those of the index, the first to be shown first, with their places in it.
var columns = []struct {
	name string
	at   int
}{{"title", 0}, {"output", 2}, {"prompt", 1}, {"command", 3}, {"file", 4}}

// snippetWords is the length of a snippet.
const snippetWords = 24

// Search reads what the record has since the last search, for about as long as most, and finds what q asks for.
func (x Index) Search(ctx context.Context, q Query, most time.Duration) (*Found, error) {
	c, err := x.open(ctx)
	if err != nil {
		return nil, x.explain(err)
	}
	defer c.Close()
	f := &Found{Hits: []Hit{}}
	if f.Index, err = x.catchUp(ctx, c, most); err == nil {
		err = x.find(ctx, c, q, f)
	}
	return f, x.explain(err)
}

// errEnough ends a query.
var errEnough = errors.New("enough")

func (x Index) find(ctx context.Context, c *sqlite.Conn, q Query, f *Found) error {
	type selection struct {
		row   store.Thread
		title string
		is    bool
	}
	tasks, names := map[string]selection{}, x.views.Names()
	err := exec(c, `SELECT doc.id, task, thread, step, n, role, agent, at FROM words JOIN doc ON doc.id = words.rowid
		WHERE words MATCH ?1 AND rank MATCH 'bm25(10.0, 4.0, 1.0, 3.0, 5.0)' AND (?2 = '' OR agent = ?2) AND at >= ?3
		ORDER BY rank`, func(s *sqlite.Stmt) error {
		h := Hit{Task: s.ColumnText(1), Thread: s.ColumnText(2), Step: s.ColumnText(3), N: s.ColumnInt(4),
			Role: s.ColumnText(5), Agent: s.ColumnText(6), At: s.ColumnInt64(7)}
		of, seen := tasks[h.Task]
		if !seen {
			var err error
			if of.row, err = x.views.Store.Thread(ctx, h.Task); err == nil {
				of.is, err = x.views.Selects(ctx, q.TaskFilter, of.row)
			}
			if err == nil && of.is {
				of.title, err = x.views.Title(ctx, of.row)
			}
			if err != nil && !errors.Is(err, store.ErrNotFound) { // it was removed meanwhile
				return err
			}
			of.is = of.is && err == nil
			tasks[h.Task] = of
		}
		if !of.is {
			return nil
		}
		if f.More = q.Limit > 0 && len(f.Hits) == q.Limit; f.More {
			return errEnough
		}
		h.Title, h.Flow, h.Name = of.title, of.row.Flow, names.ByID(ctx, h.Thread)
		if h.Step == h.Task {
			h.Step = ""
		} else {
			h.Name += fmt.Sprintf("/%d", h.N)
		}
		if err := show(c, q, s.ColumnInt64(0), &h); err != nil {
			return err
		}
		f.Hits = append(f.Hits, h)
		return nil
	}, q.match, q.Agent, q.Since)
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// show sets where a hit was found, and its snippet.
func show(c *sqlite.Conn, q Query, id int64, h *Hit) error {
	var parts []string
	for _, col := range columns {
		parts = append(parts, fmt.Sprintf("snippet(words, %d, '%c', '%c', '…', %d)", col.at, begins, ends, snippetWords))
	}
	query := "SELECT " + strings.Join(parts, ", ") + " FROM words WHERE words MATCH ? AND rowid = ?"
	return exec(c, query, func(s *sqlite.Stmt) error {
		for i, col := range columns {
			if marked := s.ColumnText(i); strings.ContainsRune(marked, begins) && h.Found == "" {
				h.Found = col.name
				h.Snippet, h.Matches = unmark(marked)
			}
		}
		return nil
	}, q.match, id)
}

// unmark returns a snippet in one line without its marks, and the matches that they were around. Matches that touch
// are one.
func unmark(marked string) (snippet string, matches [][2]int) {
	var b strings.Builder
	matches = [][2]int{}
	blank := true
	for _, r := range marked {
		n := len(matches)
		switch {
		case r == begins && n > 0 && matches[n-1][1] == b.Len():
		case r == begins:
			matches = append(matches, [2]int{b.Len(), b.Len()})
		case r == ends:
			matches[n-1][1] = b.Len()
		case r == between:
		case r == ' ' || r == '\n' || r == '\t' || r == '\r':
			if !blank {
				b.WriteByte(' ')
			}
			blank = true
		default:
			b.WriteRune(r)
			blank = false
		}
	}
	return strings.TrimRight(b.String(), " "), matches
}

// A Piece is a part of a snippet.
type Piece struct {
	Text  string
	Match bool
}

// Pieces returns the snippet of a hit in pieces, for surfaces that mark the matches.
func (h Hit) Pieces() (out []Piece) {
	at := 0
	for _, m := range h.Matches {
		out = append(out, Piece{h.Snippet[at:m[0]], false}, Piece{h.Snippet[m[0]:m[1]], true})
		at = m[1]
	}
	return append(out, Piece{h.Snippet[at:], false})
}
