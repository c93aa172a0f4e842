package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// usage: part VAR TASK NAME sets VAR to the newest thread of a task that is a path
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
			is := t.Kind == "call" && t.Flow == args[2] || t.Path != nil && t.Path.ID == args[2] && t.Kind == "path"
			at := t.CreatedAt
			if t.Path != nil {
				at = int64(t.Path.N) // successors may be made in one moment
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

// usage: most FILE N: of the lines of FILE, each + when something begins and - when
// it ends, there were at most N begun at once, and once that many.
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

// usage: alter HASH OLD NEW replaces text in an object, where it is kept.
func alter(ts *testscript.TestScript, neg bool, args []string) {
	raw, err := hex.DecodeString(args[0])
	ts.Check(err)
	conn := openDB(ts)
	defer conn.Close()
	var data []byte
	ts.Check(sqlitex.Execute(conn, "SELECT b.data FROM bodies b JOIN objects o ON o.body = b.id WHERE o.hash = ?", &sqlitex.ExecOptions{
		Args: []any{raw}, ResultFunc: func(stmt *sqlite.Stmt) error {
			data = make([]byte, stmt.ColumnLen(0))
			stmt.ColumnBytes(0, data)
			return nil
		},
	}))
	if !bytes.Contains(data, []byte(args[1])) {
		ts.Fatalf("object %s has no %q: %s", args[0], args[1], data)
	}
	data = bytes.ReplaceAll(data, []byte(args[1]), []byte(args[2]))
	ts.Check(sqlitex.Execute(conn, "UPDATE bodies SET data = ? WHERE id = (SELECT body FROM objects WHERE hash = ?)",
		&sqlitex.ExecOptions{Args: []any{data, raw}}))
}
