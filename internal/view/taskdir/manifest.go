package taskdir

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/sys/text"
)

// Limits on attachments: how many there are, and bytes of each and of the manifest.
const (
	maxAttachments = 64
	maxAttachment  = 256 << 10
	maxManifest    = 64 << 10
)

// An entry is an entry of context-manifest.yaml.
type entry struct {
	ID     string `yaml:"id"`
	Kind   string `yaml:"kind"`
	Path   string `yaml:"path"`
	Range  []int  `yaml:"range"`
	Text   string `yaml:"text"`
	Reason string `yaml:"reason"`
}

var attachmentID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]*$`)

// Attachments reads context-manifest.yaml. Paths are relative to tree, the working tree of the
// agent. An invalid entry is not attached, and its line says why.
func (d Dir) Attachments(tree string) []agent.Attachment {
	wrong := func(what error) []agent.Attachment {
		return []agent.Attachment{{Line: manifestFile + " is not used: " + text.OneLine(what.Error(), 300)}}
	}
	root, err := d.openExisting()
	if err != nil {
		return nil // without a manifest there are no entries
	}
	defer root.Close()
	data, _, err := readPlain(root, manifestFile, maxManifest)
	if errors.Is(err, fs.ErrNotExist) || string(data) == manifest {
		return nil
	}
	if err != nil {
		return wrong(err)
	}
	var doc struct {
		Attachments []yaml.Node `yaml:"attachments"`
	}
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return wrong(err)
	}
	if len(doc.Attachments) == 0 {
		return nil
	}
	files, err := os.OpenRoot(tree)
	if err != nil {
		return wrong(err)
	}
	defer files.Close()
	var out []agent.Attachment
	seen := map[string]bool{}
	for i, node := range doc.Attachments {
		if i == maxAttachments {
			return append(out, agent.Attachment{Line: fmt.Sprintf("%d more attachments are left out: there may be %d",
				len(doc.Attachments)-i, maxAttachments)})
		}
		var e entry
		var a agent.Attachment
		err := node.Decode(&e)
		if err == nil && seen[e.ID] {
			err = errors.New("another one has its id")
		}
		if err == nil {
			a, err = e.attach(files)
		}
		if err != nil {
			name := cmp.Or(e.ID, fmt.Sprintf("number %d", i+1))
			a = agent.Attachment{Line: fmt.Sprintf("attachment %s is missing: %s", text.OneLine(name, 80),
				text.OneLine(err.Error(), 200))}
		} else if e.Reason != "" {
			a.Line += ", because " + text.OneLine(e.Reason, 300)
		}
		seen[e.ID] = true
		if a.Name != "" {
			a.Line += ", in $PLAIT_CONTEXT/" + a.Name
		}
		out = append(out, a)
	}
	return out
}

// attach returns the attachment for an entry. The attachment's line does not include the reason.
func (e entry) attach(files *os.Root) (agent.Attachment, error) {
	a := agent.Attachment{Line: "attachment " + e.ID + ": "}
	switch {
	case len(e.ID) > 63 || !attachmentID.MatchString(e.ID):
		return a, errors.New("an id has letters, digits, - and _, at most 63")
	case e.Kind == "snippet" && e.Text == "":
		return a, errors.New("a snippet needs text")
	case e.Kind == "snippet" && len(e.Text) > maxAttachment:
		return a, fmt.Errorf("it has more than %d bytes", maxAttachment)
	case e.Kind == "snippet":
		a.Line += "a snippet"
		a.Name, a.Data = "attachment-"+e.ID+".txt", []byte(e.Text)
		return a, nil
	case e.Kind != "file":
		return a, fmt.Errorf("there is no kind %q: file or snippet", e.Kind)
	case !filepath.IsLocal(e.Path):
		return a, fmt.Errorf("path %q is not inside the working tree", e.Path)
	case e.Range != nil && (len(e.Range) != 2 || e.Range[0] < 1 || e.Range[1] < e.Range[0]):
		return a, errors.New("a range is [from, to], in lines from 1")
	}
	f, err := files.OpenFile(e.Path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return a, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return a, err
	}
	if !info.Mode().IsRegular() {
		return a, fmt.Errorf("%s is %w", e.Path, errNotPlain)
	}
	a.Line += text.OneLine(filepath.ToSlash(e.Path), 300)
	if e.Range == nil {
		a.Line += " in the working tree" // the agent can read it there
		return a, nil
	}
	if a.Data, err = lines(f, e.Range[0], e.Range[1]); err != nil {
		return a, fmt.Errorf("%s: %w", e.Path, err)
	}
	a.Line += fmt.Sprintf(" lines %d-%d", e.Range[0], e.Range[1])
	a.Name = "attachment-" + e.ID + extension(e.Path)
	return a, nil
}

// maxSkipped limits the offset at which a range of a file begins, in bytes.
const maxSkipped = 16 << 20

// lines reads a range of lines of a file, fewer if the file is shorter.
func lines(r io.Reader, from, to int) ([]byte, error) {
	in := bufio.NewReader(io.LimitReader(r, maxSkipped))
	var out bytes.Buffer
	for n := 1; n <= to; {
		part, err := in.ReadSlice('\n')
		if n >= from {
			out.Write(part)
		}
		switch {
		case out.Len() > maxAttachment:
			return nil, fmt.Errorf("these lines have more than %d bytes", maxAttachment)
		case err == nil:
			n++
		case errors.Is(err, io.EOF):
			to = n - 1
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
	switch {
	case out.Len() == 0:
		return nil, fmt.Errorf("it has no line %d", from)
	case !utf8.Valid(out.Bytes()):
		return nil, errors.New("it is not UTF-8 text")
	}
	return out.Bytes(), nil
}

var plainExtension = regexp.MustCompile(`^\.[A-Za-z0-9]+$`)

// extension returns the extension of a file name, if it is safe.
func extension(path string) string {
	if ext := filepath.Ext(path); len(ext) <= 13 && plainExtension.MatchString(ext) {
		return strings.ToLower(ext)
	}
	return ".txt"
}
