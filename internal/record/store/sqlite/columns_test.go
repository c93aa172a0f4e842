package sqlite

import (
	"path/filepath"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/plait-run/plait/internal/testing/storetest"
)

// docs/format.md says of each column what proves it, or that nothing does.
func TestColumnsAreListed(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(t.Context(), Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	conn, err := sqlite.OpenConn(filepath.Join(dir, "plait.db"), sqlite.OpenReadOnly)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	listed := storetest.Columns(t, "../../../../docs/format.md", "In SQLite")
	there := map[storetest.Column]bool{}
	const all = "SELECT t.name, c.name FROM sqlite_schema t, pragma_table_info(t.name) c WHERE t.type = 'table'"
	if err := sqlitex.ExecuteTransient(conn, all, &sqlitex.ExecOptions{ResultFunc: func(stmt *sqlite.Stmt) error {
		c := storetest.Column{Table: stmt.ColumnText(0), Name: stmt.ColumnText(1)}
		if there[c] = true; !listed[c] {
			t.Errorf("column %s of %s is in neither list", c.Name, c.Table)
		}
		return nil
	}}); err != nil {
		t.Fatal(err)
	}
	for c := range listed {
		if !there[c] && c.Table != "recent" && c.Table != "objects" { // they share their lines
			t.Errorf("there is no column %s of %s", c.Name, c.Table)
		}
	}
}
