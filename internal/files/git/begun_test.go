package git_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/plait-run/plait/internal/files/git"
)

// large makes a repository of 500 files.
func large(t testing.TB) string {
	t.Helper()
	f := files{}
	for i := range 500 {
		f[fmt.Sprintf("d%d/f%d", i%20, i)] = strings.Repeat(fmt.Sprintf("line %d\n", i), 40)
	}
	return commit(t, f)
}

// three changes three small files.
func three(i int) files {
	f := files{}
	for n := range 3 {
		f[fmt.Sprintf("d%d/f%d", n, n)] = strings.Repeat(fmt.Sprintf("line %d of %d\n", n, i), 40)
	}
	return f
}

// begun returns a bundle of the work tree that builds on a tree, and its bytes.
func begun(t testing.TB, r *git.Repo, onto, tree string) (git.Bundle, []byte) {
	t.Helper()
	b, f, err := r.Bundle(t.Context(), git.Packing{Ref: "refs/plait/t/files", Tree: snapshot(t, r, ""), Onto: onto,
		Begun: tree})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return b, data
}

// TestBundleOfAStep checks what a step of three small files adds, and that it adds the same whatever git has packed.
func TestBundleOfAStep(t *testing.T) {
	dir := large(t)
	r := open(t, dir)
	first := snapshot(t, r, "")
	three(1).write(t, dir)
	b, data := begun(t, r, "", first)
	if head := userGit(t, dir, "rev-parse", "HEAD"); b.Onto != head || len(data) > 4<<10 {
		t.Errorf("the first step is onto %s, want HEAD %s, and adds %d bytes", b.Onto, head, len(data))
	}
	three(2).write(t, dir)
	next, more := begun(t, r, b.Commit, first)
	if next.Onto != b.Commit || len(more) > 4<<10 {
		t.Errorf("the next is onto %s, want %s, and adds %d bytes", next.Onto, b.Commit, len(more))
	}
	userGit(t, dir, "add", "-A")
	userGit(t, dir, "gc", "-q", "--aggressive")
	if again, repacked := begun(t, r, b.Commit, first); again != next || !bytes.Equal(more, repacked) {
		t.Errorf("after git gc it is %+v of %d bytes, want %+v of %d", again, len(repacked), next, len(more))
	}
	there := newDir(t)
	userGit(t, there, "clone", "-q", "file://"+dir, ".")
	for _, x := range []struct {
		b    git.Bundle
		data []byte
	}{{b, data}, {next, more}} {
		if err := takeIn(open(t, there), x.b, x.data); err != nil {
			t.Error(err)
		}
	}
}

// TestBundleOfChangesOfOnesOwn checks that what a person had changed before is named, kept in the repository, and not
// packed.
func TestBundleOfChangesOfOnesOwn(t *testing.T) {
	for name, dir := range map[string]func(testing.TB) string{
		"commit": func(t testing.TB) string { return commit(t, files{"a": "1"}) },
		"none": func(t testing.TB) string {
			dir := newDir(t)
			userGit(t, dir, "init", "-q")
			return dir
		},
		"shallow": func(t testing.TB) string {
			of := commit(t, files{"a": "1"})
			userGit(t, of, "commit", "-q", "--allow-empty", "-m", "second")
			dir := newDir(t)
			userGit(t, dir, "clone", "-q", "--depth=1", "file://"+of, ".")
			return dir
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := dir(t)
			r := open(t, dir)
			own := strings.Repeat("kept by no one else\n", 1000)
			files{"own": own, "noise": noise(100 << 10)}.write(t, dir)
			first := snapshot(t, r, "")
			files{"own": own + "more\n"}.write(t, dir)
			b, data := begun(t, r, "", first)
			if tree := userGit(t, dir, "rev-parse", b.Onto+"^{tree}"); tree != first || len(data) > 2000 {
				t.Errorf("it builds on %s, want %s, and has %d bytes", tree, first, len(data))
			}
			userGit(t, dir, "-c", "gc.pruneExpire=now", "gc", "-q")
			if got := userGit(t, dir, "show", b.Onto+":own"); got+"\n" != own {
				t.Errorf("after git gc the beginning has %d bytes", len(got))
			}
			if err := takeIn(r, b, data); err != nil {
				t.Error(err)
			}
			there := newDir(t)
			userGit(t, there, "init", "-q")
			if err := takeIn(open(t, there), b, data); err == nil {
				t.Error("another repository takes it in")
			}
		})
	}
}

// noise returns letters that cannot be packed.
func noise(n int) string {
	out := make([]byte, n)
	x := uint32(1)
	for i := range out {
		x = x*1664525 + 1013904223
		out[i] = 'a' + byte(x>>24)%26
	}
	return string(out)
}

// TestBundleNamesLargeFiles checks that a large file is named and not kept, and that this is said where it is missing.
func TestBundleNamesLargeFiles(t *testing.T) {
	dir := commit(t, files{"a": "1"})
	r := open(t, dir)
	first := snapshot(t, r, "")
	files{"a": "2"}.write(t, dir)
	for name, size := range map[string]int64{"large": git.MaxKept + 1, "fits": git.MaxKept} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(filepath.Join(dir, name), size); err != nil {
			t.Fatal(err)
		}
	}
	b, data := begun(t, r, "", first)
	if len(data) > 200<<10 {
		t.Errorf("it has %d bytes", len(data))
	}
	if err := takeIn(r, b, data); err != nil {
		t.Error(err)
	}
	there := newDir(t)
	userGit(t, there, "clone", "-q", "file://"+dir, ".")
	err := takeIn(open(t, there), b, data)
	if err == nil || !strings.Contains(err.Error(), "a file of over 64 MiB was not kept") {
		t.Errorf("where the large file is missing: %v", err)
	}
	files{"large": "small\n"}.write(t, dir)
	b, data = begun(t, r, "", first)
	if err := takeIn(open(t, there), b, data); err != nil {
		t.Errorf("the file that fits: %v", err)
	}
}

// BenchmarkBundle measures what it costs that a step keeps three small files of 500, besides its snapshot.
func BenchmarkBundle(b *testing.B) {
	dir := large(b)
	r := open(b, dir)
	first := snapshot(b, r, "")
	onto, size, cpu := "", 0, int64(0)
	for i := range b.N {
		three(i).write(b, dir)
		snapshot(b, r, "") // writes what both find then
		before := spent(b)
		snapshot(b, r, "refs/plait/t/1")
		cpu -= spent(b) - before
		before = spent(b)
		tree := snapshot(b, r, "")
		bundle, f, err := r.Bundle(b.Context(), git.Packing{Ref: "refs/plait/t/files", Tree: tree, Onto: onto, Begun: first})
		if err != nil {
			b.Fatal(err)
		}
		cpu += spent(b) - before
		info, err := f.Stat()
		if err != nil {
			b.Fatal(err)
		}
		f.Close()
		onto, size = bundle.Commit, size+int(info.Size())
	}
	b.ReportMetric(float64(size)/float64(b.N), "bytes/step")
	b.ReportMetric(float64(cpu)/float64(b.N)/1e3, "cpu-ms/step")
}

// spent returns the processor time of this process and its children, in microseconds.
func spent(b *testing.B) (us int64) {
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if err := syscall.Getrusage(who, &u); err != nil {
			b.Fatal(err)
		}
		us += u.Utime.Nano()/1e3 + u.Stime.Nano()/1e3
	}
	return us
}
