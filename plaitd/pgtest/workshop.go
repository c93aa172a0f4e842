package pgtest

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
)

// A workshop is the directory with the servers of one test binary. All of it goes with
// the binary: see watch.
type workshop struct {
	dir      string
	bin      string              // directory of Postgres's programs
	as       *syscall.Credential // the user they run as; nil: ours
	password string              // of both roles

	mu   sync.Mutex
	made int // servers
}

// errNone says that this machine has no Postgres.
var errNone = errors.New("no initdb in PATH or in /usr/lib/postgresql/*/bin: make setup")

// open returns the workshop of this binary, made when a test first asks for a server.
var open = sync.OnceValues(newWorkshop)

func newWorkshop() (w *workshop, err error) {
	w = &workshop{password: rand.Text()}
	if w.bin, err = findPrograms(); err != nil {
		return nil, err
	}
	if w.as, err = runAs(); err != nil {
		return nil, err
	}
	if w.dir, err = os.MkdirTemp("", "plait-pgtest-"); err != nil {
		return nil, err
	}
	if err := watch(w.dir); err != nil {
		return nil, errors.Join(err, os.RemoveAll(w.dir))
	}
	if w.as != nil {
		if err := os.Chown(w.dir, int(w.as.Uid), int(w.as.Gid)); err != nil {
			return nil, err
		}
	}
	secret := filepath.Join(w.dir, "password")
	if err := os.WriteFile(secret, []byte(w.password+"\n"), 0o644); err != nil { // in a directory of mode 0700
		return nil, err
	}
	args := []string{"--pgdata=" + w.template(), "--no-sync", "--encoding=UTF8", "--locale=C", "--username=" + admin,
		"--auth=scram-sha-256", "--pwfile=" + secret}
	if help, err := w.command("initdb", "--help").Output(); err == nil && bytes.Contains(help, []byte("--icu-locale")) {
		// Sorted as people sort, unlike bytes: as in most databases outside of tests.
		args = append(args, "--locale-provider=icu", "--icu-locale=en")
	}
	cmd := w.command("initdb", args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	return w, nil
}

// template returns a data directory that no server uses: each server starts with a copy.
func (w *workshop) template() string { return filepath.Join(w.dir, "template") }

// command returns a command that runs one of Postgres's programs as a user it accepts.
func (w *workshop) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(w.bin, name), args...)
	cmd.Dir = w.dir
	cmd.Env = append(os.Environ(), "LC_ALL=C", "TZ=UTC", "HOME="+w.dir)
	// Its own process group: Ctrl-C in a terminal ends the test, and watch ends the rest.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: w.as}
	return cmd
}

// room makes the directory of another server, and returns it.
func (w *workshop) room() (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.made++
	dir := filepath.Join(w.dir, strconv.Itoa(w.made))
	return dir, errors.Join(os.Mkdir(dir, 0o700), w.give(dir))
}

// give makes a file or a directory Postgres's own.
func (w *workshop) give(name string) error {
	if w.as == nil {
		return nil
	}
	return os.Chown(name, int(w.as.Uid), int(w.as.Gid))
}

// findPrograms returns the directory of Postgres's programs: that of the initdb in PATH,
// or of Debian's newest.
func findPrograms() (string, error) {
	if found, err := exec.LookPath("initdb"); err == nil {
		// A symlink to it has no postgres next to it for initdb to find.
		if found, err = filepath.EvalSymlinks(found); err == nil {
			return filepath.Dir(found), nil
		}
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		return "", errNone
	}
	newest := slices.MaxFunc(found, func(a, b string) int { return cmp.Compare(version(a), version(b)) })
	return filepath.Dir(newest), nil
}

// version returns the number in /usr/lib/postgresql/17/bin/initdb.
func version(initdb string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(initdb))))
	return n
}

// runAs returns the user that Postgres runs as: it refuses to run as root.
func runAs() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		if u, err = user.Lookup("nobody"); err != nil {
			return nil, err
		}
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, errors.Join(err, err2)
}

// watcher waits for the end of its input, ends every server below its directory, and
// removes the directory. A postmaster removes its postmaster.pid when it ends.
const watcher = `
cat >/dev/null
cd "$1" || exit 0
for f in */data/postmaster.pid; do
  read -r pid <"$f" && kill -QUIT "$pid" && kill -CONT "$pid"
done
n=0
while [ $n -lt 200 ] && ls */data/postmaster.pid; do sleep 0.05; n=$((n+1)); done
for f in */data/postmaster.pid; do
  read -r pid <"$f" && kill -KILL "$pid"
done
for d in */; do umount -l "$d"; done
cd / && rm -rf "$1"
`

// watch makes dir, and the servers in it, go with this process, however it ends: killed, it
// cannot do that itself. The watcher holds one end of a pipe, and only this process the other.
func watch(dir string) error {
	cmd := exec.Command("/bin/sh", "-c", watcher, "pgtest", dir)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if _, err := cmd.StdinPipe(); err != nil { // closed when this process ends, and by nothing else
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("watch over the servers of a test: %w", err)
	}
	keep = append(keep, cmd)
	return nil
}

// keep holds a reference to the watcher: otherwise its pipe would be closed by the garbage collector.
var keep []*exec.Cmd
