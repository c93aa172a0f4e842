package proc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/sys/proc"
	"github.com/plait-run/plait/internal/testing/agenttest"
)

// hostile is what no parser expects.
var hostile = []byte("\xef\xbb\xbfa\r\n\xff\xfe\xc3\x28\n\x00\x00\n\n\x1b]52;c;Zm9v\x07\\ud800\r\nlast")

func TestBytesAreExact(t *testing.T) {
	t.Parallel()
	big := bytes.Repeat([]byte("0123456789abcdef\x00\n"), 200_000) // larger than any pipe
	for _, tt := range []struct {
		name string
		in   []byte
	}{
		{"nothing", nil},
		{"hostile", hostile},
		{"big", big},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cfg := fakeConfig(t, "echo")
			var out, lines bytes.Buffer
			cfg.Stdin, cfg.Stdout = bytes.NewReader(tt.in), &out
			cfg.Line = func(line []byte, cut bool) error {
				if cut {
					t.Errorf("line %.20q is called cut", line)
				}
				if out.Len() < lines.Len()+len(line) {
					t.Error("a line came before its bytes were written")
				}
				lines.Write(append(line, '\n'))
				return nil
			}
			res := mustRun(t.Context(), t, cfg)
			if !bytes.Equal(out.Bytes(), tt.in) {
				t.Errorf("got %d bytes, want the %d that were sent", out.Len(), len(tt.in))
			}
			if got, want := bytes.TrimSuffix(lines.Bytes(), []byte("\n")),
				bytes.TrimSuffix(tt.in, []byte("\n")); !bytes.Equal(got, want) {
				t.Errorf("the lines are not the output's")
			}
			if res.Exit != 0 || res.Reason != "" {
				t.Errorf("got %+v", res)
			}
		})
	}
}

// TestOneWriter checks that a writer for both outputs is never written to twice at once.
func TestOneWriter(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	cfg := proc.Config{Path: "/bin/sh", Dir: t.TempDir(), Env: []string{"PATH=/usr/bin:/bin"}, Stdout: &out, Stderr: &out,
		Args: []string{"-c", "yes out | head -c 4000000 & yes err | head -c 4000000 >&2; wait"}}
	mustRun(t.Context(), t, cfg)
	if out.Len() != 8_000_000 {
		t.Errorf("%d bytes are left", out.Len())
	}
}

func TestExit(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		mode   []string
		exit   int
		signal syscall.Signal
	}{
		{"zero", []string{"exit", "0"}, 0, 0},
		{"code", []string{"exit", "42"}, 42, 0},
		{"signal", []string{"kill", "9"}, -1, syscall.SIGKILL},
		{"hangup", []string{"kill", "1"}, -1, syscall.SIGHUP},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			res := mustRun(t.Context(), t, fakeConfig(t, tt.mode[0], tt.mode[1:]...))
			if res.Exit != tt.exit || res.Signal != tt.signal || res.Reason != "" {
				t.Errorf("got exit %d, signal %v, reason %q; want %d, %v", res.Exit, res.Signal, res.Reason, tt.exit,
					tt.signal)
			}
		})
	}
}

func TestNothingIsInherited(t *testing.T) {
	t.Setenv("PROC_TEST_SECRET", "canary")
	for _, env := range [][]string{nil, {}, {"ONLY=this"}} {
		cfg := fakeConfig(t, "env")
		cfg.Env = env
		var out bytes.Buffer
		cfg.Stdout = &out
		mustRun(t.Context(), t, cfg)
		if got, want := strings.TrimSpace(out.String()), strings.Join(env, "\n"); got != want {
			t.Errorf("with environment %q the child has %q", env, got)
		}
	}
}

func TestStops(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		mode   []string
		set    func(*proc.Config)
		cancel bool
		reason proc.Reason
		out    string
	}{
		{"cancelled", []string{"hang"}, nil, true, proc.Cancelled, "ready\n"},
		{"stubborn", []string{"stubborn"}, nil, true, proc.Cancelled, "ready\n"},
		{"stopped", []string{"stop"}, nil, true, proc.Cancelled, "ready\n"},
		{"kill at once", []string{"hang"}, func(c *proc.Config) { c.Signals = []syscall.Signal{} }, true,
			proc.Cancelled, "ready\n"},
		{"wall", []string{"hang"}, func(c *proc.Config) { c.Wall = 3 * time.Second }, false, proc.WallTime, "ready\n"},
		{"idle", []string{"hang"}, func(c *proc.Config) { c.Idle = 3 * time.Second }, false, proc.IdleTime, "ready\n"},
		{"idle without a word", []string{"mute"}, func(c *proc.Config) { c.Idle = 100 * time.Millisecond }, false,
			proc.IdleTime, ""},
		{"idle in a line", []string{"partial"}, func(c *proc.Config) { c.Idle = 3 * time.Second }, false, proc.IdleTime,
			"half a li"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cfg := fakeConfig(t, tt.mode[0], tt.mode[1:]...)
			if tt.set != nil {
				tt.set(&cfg)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			out := newWatched()
			cfg.Stdout = out
			if tt.cancel {
				go func() { <-out.wrote; cancel() }()
			}
			var lines []string
			cfg.Line = func(b []byte, _ bool) error { lines = append(lines, string(b)); return nil }
			res := mustRun(ctx, t, cfg)
			if tt.name == "stopped" && res.Signal != syscall.SIGINT {
				t.Errorf("a stopped child ended by %v, want the first signal to reach it", res.Signal)
			}
			if res.Reason != tt.reason || out.String() != tt.out {
				t.Errorf("got reason %q and output %q, want %q and %q", res.Reason, out, tt.reason, tt.out)
			}
			if got, want := strings.Join(lines, "\n"), strings.TrimSuffix(tt.out, "\n"); got != want {
				t.Errorf("got the lines %q, want %q", got, want)
			}
		})
	}
}

func TestPoliteSignalIsEnough(t *testing.T) {
	t.Parallel()
	cfg := fakeConfig(t, "hang")
	cfg.Grace = time.Minute // reached only if SIGINT were not sent first
	ctx, cancel := context.WithCancel(t.Context())
	out := newWatched()
	cfg.Stdout = out
	go func() { <-out.wrote; cancel() }()
	if res := mustRun(ctx, t, cfg); res.Signal != syscall.SIGINT {
		t.Errorf("the child ended by signal %v, want SIGINT", res.Signal)
	}
}

func TestCallerErrorsStop(t *testing.T) {
	t.Parallel()
	broken := errors.New("disk full")
	for _, tt := range []struct {
		name   string
		mode   string
		set    func(*proc.Config)
		reason proc.Reason
	}{
		{"line", "tick", func(c *proc.Config) { c.Line = func([]byte, bool) error { return broken } }, proc.LineError},
		{"stdout", "tick", func(c *proc.Config) { c.Stdout = failing{broken} }, proc.IOError},
		{"stdin", "echo", func(c *proc.Config) {
			c.Stdin = io.MultiReader(strings.NewReader("half a prompt"), failing{broken})
		}, proc.IOError},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cfg := fakeConfig(t, tt.mode)
			tt.set(&cfg)
			calls := 0
			if line := cfg.Line; line != nil {
				cfg.Line = func(b []byte, cut bool) error { calls++; return line(b, cut) }
			}
			res, err := run(t.Context(), t, cfg)
			if !errors.Is(err, broken) || res.Reason != tt.reason {
				t.Errorf("got reason %q and error %v, want %q and %v", res.Reason, err, tt.reason, broken)
			}
			if calls > 1 {
				t.Errorf("Line was called %d times, also after its error", calls)
			}
		})
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
func (f failing) Read([]byte) (int, error)  { return 0, f.err }

func TestStdinThatNobodyReads(t *testing.T) {
	t.Parallel()
	cfg := fakeConfig(t, "exit", "5")
	cfg.Stdin = strings.NewReader(strings.Repeat("x", 4<<20))
	if res := mustRun(t.Context(), t, cfg); res.Exit != 5 {
		t.Errorf("got exit %d, want 5", res.Exit)
	}
}

func TestStdinThatNeverEnds(t *testing.T) {
	t.Parallel()
	cfg := fakeConfig(t, "exit", "5")
	r, w := io.Pipe() // Run closes r, which releases its Read
	defer w.Close()
	cfg.Stdin = r
	if res := mustRun(t.Context(), t, cfg); res.Exit != 5 {
		t.Errorf("got exit %d, want 5", res.Exit)
	}
}

func TestStartErrors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, mode := range map[string]fs.FileMode{"data": 0o600, "garbage": 0o700, "script": 0o700} {
		text := map[string]string{"script": "#!/no/such/interpreter\n"}[name]
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text+"\x01"), mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name      string
		path, dir string
		env       []string
		want      error
	}{
		{"no program", "no-such-program", dir, []string{"PATH=/bin"}, fs.ErrNotExist},
		{"no PATH", "sh", dir, nil, fs.ErrNotExist},
		{"relative PATH", "garbage", dir, []string{"PATH=.:"}, fs.ErrNotExist},
		{"no file", "./none", dir, nil, fs.ErrNotExist},
		{"no interpreter", "./script", dir, nil, fs.ErrNotExist},
		{"not executable", "./data", dir, nil, fs.ErrPermission},
		{"not executable in PATH", "data", dir, []string{"PATH=" + dir}, fs.ErrPermission},
		{"a directory", dir, dir, nil, fs.ErrPermission},
		{"not a program", "./garbage", dir, nil, syscall.ENOEXEC},
		{"directory gone", "/bin/sh", filepath.Join(dir, "gone"), nil, fs.ErrNotExist},
		{"directory is a file", "/bin/sh", filepath.Join(dir, "data"), nil, nil},
		{"relative directory", "/bin/sh", ".", nil, nil},
		{"empty path", "", dir, nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := run(t.Context(), t, proc.Config{Path: tt.path, Dir: tt.dir, Env: tt.env, Tag: newTag(),
				Started: func(int, int64) { t.Error("Started was called") }})
			var se *proc.StartError
			if !errors.As(err, &se) || tt.want != nil && !errors.Is(err, tt.want) {
				t.Fatalf("got %v, want a StartError with %v", err, tt.want)
			}
			if byDir := strings.Contains(tt.name, "directory ") || tt.dir == "."; byDir != (se.Dir != "") {
				t.Errorf("%v: the directory is blamed: %t, want %t", err, se.Dir != "", byDir)
			}
		})
	}
}

func TestContextEndedBefore(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	cfg := fakeConfig(t, "hang")
	cfg.Started = func(int, int64) { t.Error("a child was started") }
	if res := mustRun(ctx, t, cfg); res.Reason != proc.Cancelled {
		t.Errorf("got reason %q", res.Reason)
	}
}

func TestStartedComesFirst(t *testing.T) {
	t.Parallel()
	cfg := fakeConfig(t, "say", agenttest.Base64([]byte("a\nb\n")))
	var log []string
	cfg.Started = func(pid int, start int64) {
		if !proc.Alive(pid, start) {
			// It may have ended; then it still waits to be reaped under that id.
			if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); err != nil {
				t.Errorf("process %d is not there", pid)
			}
		}
		log = append(log, "started")
	}
	cfg.Line = func(b []byte, _ bool) error { log = append(log, string(b)); return nil }
	mustRun(t.Context(), t, cfg)
	if diff := cmp.Diff([]string{"started", "a", "b"}, log); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}
