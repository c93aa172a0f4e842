package cli

import (
	"archive/zip"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// usage: part VAR TASK NAME sets VAR to the newest thread of a task that is a path or an action
// of that id, or a call of that flow. It waits until there is one.
func partOf(ts *testscript.TestScript, neg bool, args []string) {
	find := func() string {
		ts.Check(ts.Exec("plait", "thread", "list", "--parts", "--all", "-n", "0", "--json"))
		var v struct {
			Data struct {
				Threads []struct {
					ID, Task, Kind, Flow string
					CreatedAt            int64
					Path                 *struct {
						ID string
						N  int
					}
				}
			}
		}
		ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &v))
		found, newest := "", int64(-1)
		for _, t := range v.Data.Threads {
			is := t.Kind == "call" && t.Flow == args[2] || t.Path != nil && t.Path.ID == args[2]
			at := t.CreatedAt
			if t.Path != nil {
				at = int64(t.Path.N) // successors may be made in the same millisecond
			}
			if is && t.Task == args[1] && at > newest {
				found, newest = t.ID, at
			}
		}
		return found
	}
	poll(ts, func() bool { return find() != "" }, "task "+args[1]+" has no part "+args[2])
	ts.Setenv(args[0], find())
}

// usage: awaitended THREAD waits until a thread has ended.
func awaitEnded(ts *testscript.TestScript, neg bool, args []string) {
	poll(ts, func() bool {
		ts.Check(ts.Exec("plait", "thread", "show", args[0], "--json"))
		status, _ := lookAt(ts, "stdout", "data.status")
		return status == "completed" || status == "failed" || status == "cancelled"
	}, "thread "+args[0]+" did not end")
}

// usage: most FILE N: FILE has a + whenever something begins and a - whenever it
// ends; at most N ran at once, and N did at least once.
func mostAtOnce(ts *testscript.TestScript, neg bool, args []string) {
	now, most := 0, 0
	for _, line := range strings.Fields(ts.ReadFile(args[0])) {
		if line == "+" {
			now++
		} else {
			now--
		}
		most = max(most, now)
	}
	if strconv.Itoa(most) != args[1] || now != 0 {
		ts.Fatalf("%s: %d at once, want %s; %d have not ended", args[0], most, args[1], now)
	}
}

// usage: alter HASH OLD NEW replaces one hash by another in a stored node. Hashes
// inside nodes are stored as bytes.
func alter(ts *testscript.TestScript, neg bool, args []string) {
	raw, err := hex.DecodeString(args[0])
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
	from, err := hex.DecodeString(args[1])
	ts.Check(err)
	to, err := hex.DecodeString(args[2])
	ts.Check(err)
	if !bytes.Contains(data, from) {
		ts.Fatalf("node %s has no link to %s: %q", args[0], args[1], data)
	}
	data = bytes.ReplaceAll(data, from, to)
	ts.Check(sqlitex.Execute(conn, "UPDATE bodies SET data = ?2 WHERE id IN ("+bodyOf+")",
		&sqlitex.ExecOptions{Args: []any{raw, data}}))
}

// usage: unzip FILE.zip DIR unpacks an archive.
func unzip(ts *testscript.TestScript, neg bool, args []string) {
	z, err := zip.OpenReader(ts.MkAbs(args[0]))
	ts.Check(err)
	defer z.Close()
	ts.Check(os.CopyFS(ts.MkAbs(args[1]), z))
}
