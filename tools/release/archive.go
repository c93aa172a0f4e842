package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/plait-run/plait/internal/ui/cli"
)

// An entry is a file of an archive.
type entry struct {
	name string
	mode int64
	data []byte
}

// pages writes the man pages and the completions, where packages take them from: work/man/*.1.gz and
// work/completions/.
func (r *release) pages() error {
	root := cli.Program{Name: "plait"}.Command()
	man := filepath.Join(r.work, "man")
	header := &doc.GenManHeader{Section: "1", Date: &r.date, Source: "Plait " + r.version, Manual: "Plait"}
	if err := os.Mkdir(man, 0o755); err != nil {
		return err
	}
	root.DisableAutoGenTag = true
	if err := doc.GenManTree(root, header, man); err != nil {
		return fmt.Errorf("write man pages: %w", err)
	}
	pages, err := os.ReadDir(man)
	if err != nil {
		return err
	}
	for _, page := range pages {
		text, err := os.ReadFile(filepath.Join(man, page.Name()))
		if err != nil {
			return err
		}
		packed, err := zipped(text)
		if err != nil {
			return err
		}
		if err := errors.Join(os.Remove(filepath.Join(man, page.Name())),
			r.put(filepath.Join("man", page.Name()+".gz"), packed)); err != nil {
			return err
		}
	}
	return r.completions(root)
}

func (r *release) completions(root *cobra.Command) error {
	for name, write := range map[string]func(*bytes.Buffer) error{
		"plait":      func(b *bytes.Buffer) error { return root.GenBashCompletionV2(b, true) },
		"_plait":     func(b *bytes.Buffer) error { return root.GenZshCompletion(b) },
		"plait.fish": func(b *bytes.Buffer) error { return root.GenFishCompletion(b, true) },
	} {
		var text bytes.Buffer
		if err := errors.Join(write(&text), r.put(filepath.Join("completions", name), text.Bytes())); err != nil {
			return fmt.Errorf("write completions: %w", err)
		}
	}
	return nil
}

// put writes a file of work, as old as the commit.
func (r *release) put(name string, data []byte) error {
	name = filepath.Join(r.work, name)
	return errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, data, 0o644),
		os.Chtimes(name, r.date, r.date))
}

// archives writes an archive for each platform: the binary, its pages, and the license.
func (r *release) archives() error {
	rest := []entry{}
	for from, to := range map[string]string{"man/*": "man/", "completions/*": "completions/"} {
		names, err := filepath.Glob(filepath.Join(r.work, from))
		if err != nil {
			return err
		}
		for _, name := range names {
			data, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			rest = append(rest, entry{to + filepath.Base(name), 0o644, data})
		}
	}
	license, err := os.ReadFile("LICENSE")
	if err != nil {
		return err
	}
	rest = append(rest, entry{"LICENSE", 0o644, license})
	for _, p := range platforms {
		binary, err := os.ReadFile(r.binary(p))
		if err != nil {
			return err
		}
		all := append([]entry{{"plait", 0o755, binary}}, rest...)
		if err := r.archive(r.name(p)+".tar.gz", r.name(p)+"/", all); err != nil {
			return err
		}
	}
	return nil
}

// archive writes entries, sorted, below a directory.
func (r *release) archive(name, dir string, entries []entry) error {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, e := range sorted(entries) {
		err := w.WriteHeader(&tar.Header{Name: dir + e.name, Mode: e.mode, Size: int64(len(e.data)), ModTime: r.date,
			Format: tar.FormatUSTAR})
		if err == nil {
			_, err = w.Write(e.data)
		}
		if err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	packed, err := zipped(buf.Bytes())
	if err != nil {
		return err
	}
	return os.WriteFile(r.file(name), packed, 0o644)
}

// zipped compresses data as gzip -n does: without a name or a time.
func zipped(data []byte) ([]byte, error) {
	var buf bytes.Buffer
	w, err := gzip.NewWriterLevel(&buf, gzip.BestCompression)
	if err == nil {
		w.ModTime = time.Time{}
		_, err = w.Write(data)
	}
	if err == nil {
		err = w.Close()
	}
	return buf.Bytes(), err
}
