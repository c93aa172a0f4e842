package web

import (
	"bytes"
	"errors"
	"html/template"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/view/taskdir"
)

// documents are the files in a task directory that are meant for people.
type documents struct {
	Groups []group
	More   bool
	Wrong  string // why the list is incomplete
}

// A group is the documents of one kind.
type group struct {
	Kind      string
	Documents []document
}

type document struct {
	taskdir.Document
	Read, Load string // URLs
}

// listDocuments lists the documents in a task directory, if it exists. base is the prefix of
// their URLs.
func listDocuments(dir taskdir.Dir, base string) (documents, error) {
	c, err := dir.Browse()
	if errors.Is(err, fs.ErrNotExist) {
		return documents{}, nil
	}
	if err != nil {
		return documents{}, err
	}
	defer c.Close()
	docs, err := documentsIn(c, base)
	if err != nil {
		docs.Wrong = err.Error()
	}
	return docs, nil
}

// A session is the work of one agent, with links to more files.
type session struct {
	taskdir.Worker
	Files []document
}

// newSession returns the session of an agent, with its URLs below base.
func newSession(w taskdir.Worker, base string) session {
	v := session{Worker: w}
	for _, f := range w.Files {
		v.Files = append(v.Files, newDocument(f, base))
	}
	return v
}

// listSessions lists the sessions of a task's agents, if its directory exists.
func listSessions(dir taskdir.Dir, base string) ([]session, error) {
	c, err := dir.Browse()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer c.Close()
	workers, err := c.Workers()
	var out []session
	for _, w := range workers {
		out = append(out, newSession(w, base))
	}
	return out, err
}

func newDocument(p taskdir.Document, base string) document {
	return document{p, base + "/read/" + escaped(p.Name), base + "/files/" + escaped(p.Name)}
}

// documentsIn lists the documents by kind. If there is an error, the list is incomplete.
func documentsIn(c *taskdir.DirReader, base string) (documents, error) {
	list, more, err := c.Documents()
	docs := documents{More: more}
	for _, p := range list {
		if n := len(docs.Groups); n == 0 || docs.Groups[n-1].Kind != p.Kind {
			docs.Groups = append(docs.Groups, group{Kind: p.Kind})
		}
		g := &docs.Groups[len(docs.Groups)-1]
		g.Documents = append(g.Documents, newDocument(p, base))
	}
	return docs, err
}

// escaped escapes a path for a URL.
func escaped(name string) string {
	parts := strings.Split(name, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return strings.Join(parts, "/")
}

// shownText limits how much of a file a page shows, in bytes.
const shownText = 1 << 20

// A reading is the page of one file.
type reading struct {
	Name, Kind, Load, Back string
	Size                   int64
	Head                   string // front matter
	Prose                  template.HTML
	Text                   string
	Binary, Cut            bool
	Tail                   bool // only the end of the file is shown
}

// readDocument reads a file for its page. Only text is shown: no images, and nothing that a
// browser could interpret.
func readDocument(c *taskdir.DirReader, name, base string, cite citer) (reading, error) {
	v := reading{Name: name, Load: base + "/files/" + escaped(name)}
	f, n, err := c.Open(name)
	if err != nil {
		return v, err
	}
	defer f.Close()
	if log, ok := f.(io.Seeker); ok && n > shownText && path.Base(path.Dir(name)) == "runtime" {
		if _, err := log.Seek(n-shownText, io.SeekStart); err != nil {
			return v, err
		}
		v.Tail = true
	}
	data, err := io.ReadAll(io.LimitReader(f, shownText))
	if err != nil {
		return v, err
	}
	if v.Tail { // start with a whole line
		if _, rest, ok := bytes.Cut(data, []byte("\n")); ok {
			data = rest
		}
	}
	v.Size, v.Cut = n, n > int64(len(data)) && !v.Tail
	for i := 0; v.Cut && i < utf8.UTFMax && !utf8.Valid(data); i++ {
		data = data[:len(data)-1] // remove a partial character
	}
	if !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0 {
		v.Binary, v.Cut = true, false
		return v, nil
	}
	switch text := string(data); strings.ToLower(path.Ext(name)) {
	case ".md", ".markdown":
		if head, rest, ok := frontMatter(text); ok {
			v.Head, text = head, rest
		}
		v.Prose, err = prose([]byte(text), cite)
	case ".json":
		v.Text = pretty(text)
	default:
		v.Text = text
	}
	return v, err
}

// frontMatter splits a text into front matter and body.
func frontMatter(text string) (head, rest string, ok bool) {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	if !strings.HasPrefix(text, "---\n") {
		return "", text, false
	}
	return strings.Cut(text[len("---\n"):], "\n---\n")
}

// readPage shows one file of a task directory.
func (s *Server) readPage(w http.ResponseWriter, r *http.Request, row store.Thread) error {
	c, err := taskdir.At(row.Workspace, row.ID).Browse()
	if err != nil {
		return err
	}
	defer c.Close()
	entries, err := s.cfg.Dirs.Evidence(r.Context(), row.ID)
	if err != nil {
		return err
	}
	title, err := s.views.Title(r.Context(), row)
	if err != nil {
		return err
	}
	at := "/tasks/" + row.ID
	name := r.PathValue("path")
	v, err := readDocument(c, name, at, newCiter(entries, name, at+"?tab=evidence"))
	if err != nil {
		return err
	}
	v.Back = at + "?tab=reports"
	return s.show(w, r, http.StatusOK, "read", page{
		Title: path.Base(name), Nav: "tasks", Follow: row.ID, Body: v,
		Crumbs: []crumb{{"Tasks", "/tasks"}, {line(60, title), at}, {path.Base(name), ""}},
	})
}
