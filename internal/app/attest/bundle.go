package attest

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

// The files of a bundle, besides those of an export of the task.
const (
	fileEnvelope   = "attestation.dsse.json"
	fileCheckpoint = "checkpoint"
	fileEntries    = "entries.json"
	fileSums       = "SHA256SUMS" // of the files of the export, but for objects, which are named by theirs
)

// objects is where an export has its objects.
const objects = "objects/"

// sealPrefix begins the comment of the ZIP file; the SHA-256 of all bytes before the comment follows. So a change of any
// byte is found, even of one that says nothing.
const sealPrefix = "plait.change/1 sha256:"

const sealLength = len(sealPrefix) + 2*sha256.Size

// Limits on a bundle.
const (
	maxFiles     = 1 << 20
	maxUnpacked  = 8 << 30 // bytes of all files
	maxSums      = 8 << 20
	maxDirectory = 256 << 20 // bytes of the names of files
)

// A Bundle is what Pack writes.
type Bundle struct {
	Envelope   []byte
	Checkpoint []byte
	Entries    []byte
	Sums       []byte      // nil without Record
	Record     *zip.Reader // an export of the task; nil for none
	// Shown are texts that the statement names by their hashes, see [Shown]; without Record only.
	Shown []store.Object
}

// sums returns SHA256SUMS for an export: a line for each file but objects, as sha256sum prints it.
func sums(export *zip.Reader) ([]byte, error) {
	var b bytes.Buffer
	for _, f := range export.File {
		if strings.HasPrefix(f.Name, objects) {
			continue
		}
		h, err := sumFile(f, &budget{maxUnpacked})
		if err != nil {
			return nil, fmt.Errorf("sum export: %w", err)
		}
		fmt.Fprintf(&b, "%s  %s\n", h, f.Name)
	}
	if b.Len() > maxSums {
		return nil, fmt.Errorf("sum export: the names of its files take more than %d bytes", maxSums)
	}
	return b.Bytes(), nil
}

// NewBundle returns a bundle without its envelope, and completes the statement that is to be signed: it names the other
// files. export is that of the task, nil for a bundle without its record.
func NewBundle(s *Statement, checkpoint []byte, entries *Entries, export *zip.Reader) (b Bundle, err error) {
	b = Bundle{Checkpoint: checkpoint, Record: export}
	if b.Entries, err = dag.MarshalWithin(entries, maxEntries); err != nil {
		return b, fmt.Errorf("write entries: %w", err)
	}
	if export != nil {
		if b.Sums, err = sums(export); err != nil {
			return b, err
		}
		s.Predicate.Files[fileSums] = dag.Sum(b.Sums)
	}
	s.Predicate.Files[fileCheckpoint] = dag.Sum(checkpoint)
	s.Predicate.Files[fileEntries] = dag.Sum(b.Entries)
	return b, nil
}

// Pack writes a bundle. The same parts always make the same bytes.
func Pack(out io.Writer, b Bundle) error {
	if err := pack(out, b); err != nil {
		return fmt.Errorf("pack bundle: %w", err)
	}
	return nil
}

func pack(out io.Writer, b Bundle) error {
	s := newSealer(out)
	z := zip.NewWriter(s)
	type file struct {
		name string
		data []byte
	}
	files := []file{{fileEnvelope, b.Envelope}, {fileCheckpoint, b.Checkpoint}, {fileEntries, b.Entries}, {fileSums, b.Sums}}
	for _, o := range b.Shown {
		files = append(files, file{objects + o.Hash.String(), o.Data})
	}
	for _, f := range files {
		if f.data == nil {
			continue
		}
		h := &zip.FileHeader{Name: f.name, Method: zip.Deflate}
		h.SetMode(0o644)
		w, err := z.CreateHeader(h)
		if err == nil {
			_, err = w.Write(f.data)
		}
		if err != nil {
			return err
		}
	}
	if b.Record != nil {
		for _, f := range b.Record.File {
			if err := z.Copy(f); err != nil {
				return err
			}
		}
	}
	if err := z.SetComment(sealPrefix + strings.Repeat("0", 2*sha256.Size)); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	return s.seal()
}

// A sealer writes all but the last bytes that it is given, which are the comment, and sums them.
type sealer struct {
	to   io.Writer
	sum  hash.Hash
	held []byte
}

func newSealer(to io.Writer) *sealer { return &sealer{to: to, sum: sha256.New()} }

func (s *sealer) Write(p []byte) (int, error) {
	s.held = append(s.held, p...)
	if n := len(s.held) - sealLength; n > 0 {
		s.sum.Write(s.held[:n])
		if _, err := s.to.Write(s.held[:n]); err != nil {
			return 0, err
		}
		s.held = append([]byte(nil), s.held[n:]...)
	}
	return len(p), nil
}

func (s *sealer) seal() error {
	_, err := io.WriteString(s.to, sealPrefix+hex.EncodeToString(s.sum.Sum(nil)))
	return err
}

// An opened is a bundle whose container is sound: it has only known files, each once, and no byte besides.
type opened struct {
	files map[string]*zip.File
	left  budget
}

// open reads the container of a bundle.
func open(ctx context.Context, in io.ReaderAt, size int64) (*opened, error) {
	if err := checkSeal(in, size); err != nil {
		return nil, err
	}
	if err := checkEnd(in, size); err != nil {
		return nil, err
	}
	z, err := zip.NewReader(in, size)
	if err != nil {
		return nil, refused("bundle: %v", err)
	}
	o := &opened{map[string]*zip.File{}, budget{maxUnpacked}}
	for _, f := range z.File {
		switch {
		case len(o.files) == maxFiles:
			return nil, refused("bundle: more than %d files", maxFiles)
		case !fs.ValidPath(f.Name) || strings.ContainsAny(f.Name, "\\:") || !known(f.Name):
			return nil, refused("bundle: %q is no file of a bundle", clip(f.Name))
		case o.files[f.Name] != nil:
			return nil, refused("bundle: %s is there twice", clip(f.Name))
		case f.Method != zip.Deflate || !f.Mode().IsRegular():
			return nil, refused("bundle: %s is not a plain file", clip(f.Name))
		}
		o.files[f.Name] = f
	}
	return o, checkBytes(ctx, in, size, z)
}

func known(name string) bool {
	if slices.Contains([]string{fileEnvelope, fileCheckpoint, fileEntries, fileSums, "manifest.json"}, name) {
		return true
	}
	hash, is := strings.CutPrefix(name, objects)
	if is {
		_, err := dag.ParseHash(hash)
		return err == nil
	}
	return strings.HasPrefix(name, "index/") || strings.HasPrefix(name, "task/")
}

func clip(name string) string {
	if len(name) > 100 {
		return name[:100] + "…"
	}
	return name
}

// checkSeal checks the sum at the end of the file.
func checkSeal(in io.ReaderAt, size int64) error {
	body := size - int64(sealLength)
	if body < 0 {
		return refused("bundle: it is no bundle: only %d bytes", size)
	}
	seal := make([]byte, sealLength)
	if _, err := in.ReadAt(seal, body); err != nil {
		return fmt.Errorf("read bundle: %w", err)
	}
	want, ok := strings.CutPrefix(string(seal), sealPrefix)
	if !ok {
		return refused("bundle: it is no bundle, or not a whole one: it does not end with a sum")
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, io.NewSectionReader(in, 0, body)); err != nil {
		return fmt.Errorf("read bundle: %w", err)
	}
	if hex.EncodeToString(sum.Sum(nil)) != want {
		return refused("bundle: it was damaged: its bytes do not have the sum at its end")
	}
	return nil
}

// checkEnd bounds what the reader of ZIP files allocates: the directory must be smaller than a limit.
func checkEnd(in io.ReaderAt, size int64) error {
	var end [22]byte // the record of the end, before the comment
	at := size - int64(sealLength) - int64(len(end))
	if at < 0 {
		return refused("bundle: it is no ZIP file")
	}
	if _, err := in.ReadAt(end[:], at); err != nil {
		return fmt.Errorf("read bundle: %w", err)
	}
	if string(end[:4]) != "PK\x05\x06" {
		return refused("bundle: it is no ZIP file")
	}
	if n := int64(end[12]) | int64(end[13])<<8 | int64(end[14])<<16 | int64(end[15])<<24; n > maxDirectory && n != 1<<32-1 {
		return refused("bundle: its directory has %d bytes", n)
	}
	return nil
}

// checkBytes writes the container again, with the compressed bytes as they are, and compares: nothing may be hidden
// between the files, and no file may have two names.
func checkBytes(ctx context.Context, in io.ReaderAt, size int64, z *zip.Reader) error {
	c := &comparer{ctx: ctx, in: in, size: size}
	w := zip.NewWriter(c)
	var err error
	for _, f := range z.File {
		err = errors.Join(err, w.Copy(f))
	}
	err = errors.Join(err, w.SetComment(z.Comment), w.Close())
	if errors.Is(err, errOther) {
		return refused("bundle: it has bytes that belong to no file")
	}
	return err
}

var errOther = errors.New("other bytes")

// A comparer is a writer that fails once what is written differs from a file.
type comparer struct {
	ctx  context.Context
	in   io.ReaderAt
	at   int64
	size int64
}

func (c *comparer) Write(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	have := make([]byte, len(p))
	if int64(len(p)) > c.size-c.at {
		return 0, errOther
	}
	if _, err := c.in.ReadAt(have, c.at); err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	if !bytes.Equal(have, p) {
		return 0, errOther
	}
	c.at += int64(len(p))
	return len(p), nil
}

// A budget is how many bytes may still be unpacked.
type budget struct{ bytes int64 }

// read returns a file of at most some bytes.
func (o *opened) read(name string, most int64) ([]byte, error) {
	f := o.files[name]
	if f == nil {
		return nil, refused("bundle: it has no %s", name)
	}
	var b bytes.Buffer
	if _, err := unpack(f, &b, most, &o.left); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// unpack writes the bytes of a file, of at most some.
func unpack(f *zip.File, to io.Writer, most int64, left *budget) (int64, error) {
	most = min(most, left.bytes)
	r, err := f.Open()
	if err != nil {
		return 0, refused("bundle: %s: %v", clip(f.Name), err)
	}
	defer r.Close()
	n, err := io.Copy(to, io.LimitReader(r, most+1))
	left.bytes -= n
	switch {
	case err != nil:
		return n, refused("bundle: %s: %v", clip(f.Name), err)
	case n > most:
		return n, refused("bundle: %s has more than %d bytes", clip(f.Name), most)
	}
	return n, nil
}

// sumFile returns the SHA-256 of a file.
func sumFile(f *zip.File, left *budget) (dag.Hash, error) {
	var sum hash.Hash = sha256.New()
	if _, err := unpack(f, sum, left.bytes, left); err != nil {
		return dag.Hash{}, err
	}
	return dag.Hash(sum.Sum(nil)), nil
}
