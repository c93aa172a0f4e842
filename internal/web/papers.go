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

	"github.com/plait-run/plait/internal/task"
)

// A shelf is what people read in a task's directory.
type shelf struct {
	Groups []group
	More   bool
	Wrong  string // why some of it cannot be listed
}

// A group is papers of one kind.
type group struct {
	Kind   string
	Papers []paper
}

type paper struct {
	task.Paper
	Read, Load string // addresses
}

// papers lists what there is to read in a task's directory, if it is there. base is
// before the addresses.
func papers(dir task.Dir, base string) (shelf, error) {
	c, err := dir.Browse()
	if errors.Is(err, fs.ErrNotExist) {
		return shelf{}, nil
	}
	if err != nil {
		return shelf{}, err
	}
	defer c.Close()
	sh, err := shelved(c, base)
	if err != nil {
		sh.Wrong = err.Error()
	}
	return sh, nil
}

// shelved lists what there is to read, by kind. What cannot be listed is told by the
// error, beside the rest.
func shelved(c *task.Copy, base string) (shelf, error) {
	list, more, err := c.Papers()
	sh := shelf{More: more}
	for _, p := range list {
		if n := len(sh.Groups); n == 0 || sh.Groups[n-1].Kind != p.Kind {
			sh.Groups = append(sh.Groups, group{Kind: p.Kind})
		}
		g := &sh.Groups[len(sh.Groups)-1]
		g.Papers = append(g.Papers, paper{p, base + "/read/" + escaped(p.Name), base + "/files/" + escaped(p.Name)})
	}
	return sh, err
}

// escaped is a path as it stands in a URL.
func escaped(name string) string {
	parts := strings.Split(name, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return strings.Join(parts, "/")
}

// shownPaper is how much of a file a page has, in bytes.
const shownPaper = 1 << 20

// A reading is the page of one file.
type reading struct {
	Name, Kind, Load, Back string
	Size                   int64
	Head                   string // front matter
	Prose                  template.HTML
	Text                   string
	Binary, Cut            bool
}

// readPaper reads a file for its page. What is no text is not shown: no image is, and
// nothing that a browser would take for a page.
func readPaper(c *task.Copy, name, base string, cite citer) (reading, error) {
	v := reading{Name: name, Load: base + "/files/" + escaped(name)}
	f, n, err := c.Open(name)
	if err != nil {
		return v, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, shownPaper))
	if err != nil {
		return v, err
	}
	v.Size, v.Cut = n, n > int64(len(data))
	for i := 0; v.Cut && i < utf8.UTFMax && !utf8.Valid(data); i++ {
		data = data[:len(data)-1] // a character was cut
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

// frontMatter parts a text from what is said about it above.
func frontMatter(text string) (head, rest string, ok bool) {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	if !strings.HasPrefix(text, "---\n") {
		return "", text, false
	}
	return strings.Cut(text[len("---\n"):], "\n---\n")
}

// readPage shows one file of a task's directory.
func (s *Server) readPage(w http.ResponseWriter, r *http.Request) error {
	row, err := s.taskRow(r)
	if err != nil {
		return err
	}
	c, err := task.At(row.Workspace, row.ID).Browse()
	if err != nil {
		return err
	}
	defer c.Close()
	entries, err := s.cfg.Board.Evidence(r.Context(), row.ID)
	if err != nil {
		return err
	}
	title, err := s.book.Title(r.Context(), row)
	if err != nil {
		return err
	}
	at := "/tasks/" + row.ID
	name := r.PathValue("path")
	v, err := readPaper(c, name, at, citing(entries, name, at+"?tab=evidence"))
	if err != nil {
		return err
	}
	v.Back = at + "?tab=reports"
	return s.show(w, r, http.StatusOK, "read", page{
		Title: path.Base(name), Nav: "tasks", Follow: row.ID, Body: v,
		Crumbs: []crumb{{"Tasks", "/tasks"}, {line(60, title), at}, {path.Base(name), ""}},
	})
}
