package cli

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/plait-run/plait/internal/testing/housetest"
)

// scriptCommands are what the scripts can do besides testscript's own commands.
var scriptCommands = map[string]func(*testscript.TestScript, bool, []string){
	"jsoncheck":   jsonCheck,
	"jsonenv":     jsonEnv,
	"jsonlines":   jsonLines,
	"hashcheck":   hashCheck,
	"await":       awaitFile,
	"gone":        gone,
	"lines":       countLines,
	"flip":        flip,
	"edit":        edit,
	"quoting":     quoting,
	"userversion": userVersion,
	"collide":     collide,
	"copy":        copyFile,
	"bytes":       writeBytes,
	"status":      exitStatus,
	"opengate":    openGateFor,
	"awaitgate":   awaitGate,
	"awaititem":   awaitItem,
	"awaitgates":  awaitGates,
	"awaitevent":  awaitEvent,
	"nocodex":     noCodex,
	"part":        partOf,
	"most":        mostAtOnce,
	"alter":       alter,
	"awaitended":  awaitEnded,
	"visit":       visit,
	"send":        send,
	"codexuses":   codexUses,
	"claudeuses":  claudeUses,
	"unzip":       unzip,
	"gocache":     goCache,
	"bounded":     boundedRequests,
}

// goEnv is the output of go env, read once.
var goEnv = sync.OnceValue(func() map[string]string {
	env := map[string]string{}
	out, err := exec.Command("go", "env", "-json", "GOCACHE", "GOMODCACHE", "GOFLAGS", "GOROOT").Output()
	if err == nil {
		json.Unmarshal(out, &env) // without the go command it is empty
	}
	return env
})

// usage: status CODE COMMAND ARGS… runs a command that must exit with CODE.
func exitStatus(ts *testscript.TestScript, neg bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	if exit, ok := err.(*exec.ExitError); ok {
		got = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%s: %v", args[1], err)
	}
	if got != want {
		ts.Fatalf("%s: exit code %d, want %d", strings.Join(args[1:], " "), got, want)
	}
}

// lookAt finds what path names in the last JSON text of a file: keys and numbers
// separated by dots; "count" after a list is its length, "-1" its last entry.
func lookAt(ts *testscript.TestScript, file, path string) (any, bool) {
	var doc any
	dec := json.NewDecoder(strings.NewReader(ts.ReadFile(file)))
	dec.UseNumber()
	n := 0
	for ; dec.More(); n++ {
		doc = nil
		if err := dec.Decode(&doc); err != nil {
			ts.Fatalf("%s: not JSON: %v", file, err)
		}
	}
	if n == 0 {
		ts.Fatalf("%s: no JSON", file)
	}
	if path == "." {
		return doc, true
	}
	for _, key := range strings.Split(path, ".") {
		switch v := doc.(type) {
		case map[string]any:
			next, ok := v[key]
			if !ok {
				return nil, false
			}
			doc = next
		case []any:
			if key == "count" {
				doc = json.Number(strconv.Itoa(len(v)))
				continue
			}
			i, err := strconv.Atoi(key)
			if err != nil {
				return nil, false
			}
			if i < 0 {
				i += len(v)
			}
			if i < 0 || i >= len(v) {
				return nil, false
			}
			doc = v[i]
		default:
			return nil, false
		}
	}
	return doc, true
}

func textOf(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case nil:
		return "null"
	case json.Number:
		return v.String()
	}
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// usage: gocache TASK gives a task that has not run yet a cache with Go's library compiled.
func goCache(ts *testscript.TestScript, neg bool, args []string) {
	ts.Check(housetest.GoCache(filepath.Join(ts.Getenv("XDG_CACHE_HOME"), "plait", "tasks", args[0], "cache")))
}

// usage: [!] jsoncheck FILE PATH [= VALUE | ~ REGEXP | > N]: without more, the path exists.
func jsonCheck(ts *testscript.TestScript, neg bool, args []string) {
	v, ok := lookAt(ts, args[0], args[1])
	if len(args) == 2 {
		if ok == neg {
			ts.Fatalf("%s: %s exists: %t", args[0], args[1], ok)
		}
		return
	}
	if !ok {
		ts.Fatalf("%s: there is no %s", args[0], args[1])
	}
	got, match := textOf(v), false
	switch args[2] {
	case "=":
		match = got == args[3]
	case "~":
		match = regexp.MustCompile(args[3]).MatchString(got)
	case ">":
		g, err := strconv.ParseFloat(got, 64)
		ts.Check(err)
		w, err := strconv.ParseFloat(args[3], 64)
		ts.Check(err)
		match = g > w
	default:
		ts.Fatalf("jsoncheck: no operation %q", args[2])
	}
	if match == neg {
		ts.Fatalf("%s: %s is %s, want %s %s (not: %t)", args[0], args[1], got, args[2], args[3], neg)
	}
}

// usage: jsonenv VAR FILE PATH sets VAR.
func jsonEnv(ts *testscript.TestScript, neg bool, args []string) {
	v, ok := lookAt(ts, args[1], args[2])
	if !ok {
		ts.Fatalf("%s: there is no %s", args[1], args[2])
	}
	ts.Setenv(args[0], textOf(v))
}

// usage: jsonlines FILE [KEY…]: every line is one object with those keys, and there are some.
func jsonLines(ts *testscript.TestScript, neg bool, args []string) {
	lines := strings.Split(strings.TrimSuffix(ts.ReadFile(args[0]), "\n"), "\n")
	for i, line := range lines {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			ts.Fatalf("%s:%d: %v in %q", args[0], i+1, err, line)
		}
		for _, key := range args[1:] {
			if _, ok := m[key]; !ok && i < len(lines)-1 {
				ts.Fatalf("%s:%d: no %s in %s", args[0], i+1, key, line)
			}
		}
	}
}

// usage: hashcheck HASH: everything that can be reached from HASH hashes to its name.
func hashCheck(ts *testscript.TestScript, neg bool, args []string) {
	ts.Check(ts.Exec("plait", "cas", "walk", args[0], "--json"))
	var walk struct {
		Data struct {
			Objects []struct{ Hash, Kind string }
		}
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &walk))
	nodes := 0
	for _, o := range walk.Data.Objects {
		ts.Check(ts.Exec("plait", "cas", "get", o.Hash))
		sum := sha256.Sum256([]byte(ts.ReadFile("stdout")))
		if hex.EncodeToString(sum[:]) != o.Hash {
			ts.Fatalf("%s: the bytes hash to %x", o.Hash, sum)
		}
		if o.Kind == "node" {
			nodes++
		}
	}
	if nodes < 4 {
		ts.Fatalf("only %d nodes can be reached from %s", nodes, args[0])
	}
}

// usage: await FILE [TEXT] waits until a file exists, and has the text.
func awaitFile(ts *testscript.TestScript, neg bool, args []string) {
	poll(ts, func() bool {
		if len(args) == 1 {
			_, err := os.Stat(ts.MkAbs(args[0]))
			return err == nil
		}
		data, err := os.ReadFile(ts.MkAbs(args[0]))
		return err == nil && strings.Contains(string(data), args[1])
	}, strings.Join(args, " with ")+" did not appear")
}

func poll(ts *testscript.TestScript, done func() bool, complaint string) {
	for end := time.Now().Add(2 * time.Minute); !done(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			ts.Fatalf("%s", complaint)
		}
	}
}

// usage: [!] gone PIDFILE: the process has ended.
func gone(ts *testscript.TestScript, neg bool, args []string) {
	pid, err := strconv.Atoi(strings.TrimSpace(ts.ReadFile(args[0])))
	ts.Check(err)
	if alive(pid) != neg {
		ts.Fatalf("process %d lives: %t", pid, !neg)
	}
}

// alive reports whether a process runs; a zombie does not.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	after := stat[bytes.LastIndexByte(stat, ')')+1:]
	return !bytes.HasPrefix(after, []byte(" Z"))
}

// usage: lines FILE N: the file has N lines; one that is missing has none.
func countLines(ts *testscript.TestScript, neg bool, args []string) {
	data, err := os.ReadFile(ts.MkAbs(args[0]))
	if err != nil && !os.IsNotExist(err) {
		ts.Fatalf("%v", err)
	}
	if args[0] == "stdout" || args[0] == "stderr" {
		data = []byte(ts.ReadFile(args[0]))
	}
	if got := strconv.Itoa(bytes.Count(data, []byte("\n"))); got != args[1] {
		ts.Fatalf("%s has %s lines, want %s:\n%s", args[0], got, args[1], data)
	}
}

func openDB(ts *testscript.TestScript) *sqlite.Conn {
	conn, err := sqlite.OpenConn(filepath.Join(ts.Getenv("PLAIT_HOME"), "plait.db"), sqlite.OpenReadWrite)
	ts.Check(err)
	return conn
}

// bodyOf selects the row of bodies that has the bytes of an object.
const bodyOf = "SELECT id FROM recent WHERE hash = ?1 UNION SELECT body FROM objects WHERE hash = ?1"

// usage: flip HASH flips one bit in the middle of a stored object.
func flip(ts *testscript.TestScript, neg bool, args []string) {
	h := args[0]
	loose := filepath.Join(ts.Getenv("PLAIT_HOME"), "objects", h[:2], h)
	if data, err := os.ReadFile(loose); err == nil {
		data[len(data)/2] ^= 1
		ts.Check(os.Chmod(loose, 0o600))
		ts.Check(os.WriteFile(loose, data, 0o600))
		return
	}
	raw, err := hex.DecodeString(h)
	ts.Check(err)
	conn := openDB(ts)
	defer conn.Close()
	var data []byte
	ts.Check(sqlitex.Execute(conn, "SELECT data FROM bodies WHERE id IN ("+bodyOf+")", &sqlitex.ExecOptions{
		Args: []any{raw}, ResultFunc: func(stmt *sqlite.Stmt) error {
			data = make([]byte, stmt.ColumnLen(0))
			stmt.ColumnBytes(0, data)
			return nil
		},
	}))
	if len(data) == 0 {
		ts.Fatalf("no object %s to flip a bit of", h)
	}
	data[len(data)/2] ^= 1
	ts.Check(sqlitex.Execute(conn, "UPDATE bodies SET data = ?2 WHERE id IN ("+bodyOf+")",
		&sqlitex.ExecOptions{Args: []any{raw, data}}))
}

// usage: edit TABLE COLUMN VALUE sets a column of all rows, as someone could who can write to the record.
func edit(ts *testscript.TestScript, neg bool, args []string) {
	conn := openDB(ts)
	defer conn.Close()
	set := "UPDATE " + args[0] + " SET " + args[1] + " = ?"
	ts.Check(sqlitex.ExecuteTransient(conn, set, &sqlitex.ExecOptions{Args: []any{args[2]}}))
}

// usage: userversion N makes the record one of a later Plait.
func userVersion(ts *testscript.TestScript, neg bool, args []string) {
	conn := openDB(ts)
	defer conn.Close()
	ts.Check(sqlitex.ExecuteTransient(conn, "PRAGMA user_version = "+args[0], nil))
}

// usage: collide PREFIXVAR FILE1 FILE2 writes two files whose hashes begin alike.
func collide(ts *testscript.TestScript, neg bool, args []string) {
	seen := map[string]string{}
	for i := 0; ; i++ {
		text := strconv.Itoa(i)
		sum := sha256.Sum256([]byte(text))
		prefix := hex.EncodeToString(sum[:3])
		if other, ok := seen[prefix]; ok {
			ts.Setenv(args[0], prefix)
			ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(other), 0o600))
			ts.Check(os.WriteFile(ts.MkAbs(args[2]), []byte(text), 0o600))
			return
		}
		seen[prefix] = text
	}
}

// usage: copy FROM TO copies a file, with $ in FROM already replaced.
func copyFile(ts *testscript.TestScript, neg bool, args []string) {
	data, err := os.ReadFile(ts.MkAbs(args[0]))
	ts.Check(err)
	ts.Check(os.MkdirAll(filepath.Dir(ts.MkAbs(args[1])), 0o755))
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), data, 0o644))
}

// usage: bytes FILE TEXT writes TEXT, with Go's escapes interpreted.
func writeBytes(ts *testscript.TestScript, neg bool, args []string) {
	text, err := strconv.Unquote(`"` + args[1] + `"`)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o644))
}
