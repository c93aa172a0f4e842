// Package rooms reads the plan of the house: which package below internal, called a room, may import which.
//
// A folder below internal is a floor or two of rooms. docs/HOUSE.md has the table of which folder may import which,
// and README.md of a folder that of its rooms. The tests compare both with what the code imports, and tools/house
// measures by them.
package rooms

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A Plan is what the tables say.
type Plan struct {
	Folders map[string][]string            // by folder: which it may import
	Rooms   map[string]map[string][]string // by folder and room: which rooms of the folder it may import
}

// A Room is a package below internal, with the packages in its directory.
type Room struct{ Folder, Name string }

func (r Room) String() string {
	if r.Folder == r.Name {
		return r.Name
	}
	return r.Folder + "/" + r.Name
}

// Read reads the plan of the repository at root.
func Read(root string) (*Plan, error) {
	p := &Plan{Rooms: map[string]map[string][]string{}}
	page, err := os.ReadFile(filepath.Join(root, "docs", "HOUSE.md"))
	if err != nil {
		return nil, err
	}
	if p.Folders, err = crosses(table(string(page), "folder")); err != nil {
		return nil, fmt.Errorf("read docs/HOUSE.md: %w", err)
	}
	for folder := range p.Folders {
		name := filepath.Join(root, "internal", folder, "README.md")
		page, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		p.Rooms[folder] = map[string][]string{}
		for _, row := range table(string(page), "room") {
			if len(row) < 2 {
				return nil, fmt.Errorf("read %s: %s has no second column", name, row[0])
			}
			p.Rooms[folder][row[0]] = strings.FieldsFunc(row[1], func(r rune) bool { return r == ',' || r == ' ' })
		}
	}
	return p, nil
}

// crosses reads a table whose columns are its rows, in the same order; a cell with a mark allows.
func crosses(rows [][]string) (map[string][]string, error) {
	allowed := map[string][]string{}
	for _, row := range rows {
		if len(row) != len(rows)+1 {
			return nil, fmt.Errorf("row %s has %d columns, want %d", row[0], len(row), len(rows)+1)
		}
		allowed[row[0]] = nil
		for i, cell := range row[1:] {
			if cell != "" {
				allowed[row[0]] = append(allowed[row[0]], rows[i][0])
			}
		}
	}
	return allowed, nil
}

// table returns the rows of the Markdown table whose first heading is given, without marks of emphasis and code.
func table(page, heading string) [][]string {
	var rows [][]string
	inside := false
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			inside = false
			continue
		}
		row := strings.Split(strings.Trim(line, "|"), "|")
		for i := range row {
			row[i] = strings.Trim(row[i], " `*")
		}
		switch {
		case row[0] == heading:
			inside = true
		case inside && strings.Trim(row[0], "-:") != "":
			rows = append(rows, row)
		}
	}
	return rows
}

// Of returns the room of a directory below internal. Its name is "" if the plan does not have the room.
func (p *Plan) Of(dir string) Room {
	folder, rest, _ := strings.Cut(filepath.ToSlash(dir), "/")
	name, _, _ := strings.Cut(rest, "/")
	if name == "" {
		name = folder
	}
	if _, ok := p.Rooms[folder][name]; !ok {
		name = ""
	}
	return Room{folder, name}
}

// Allows reports whether one room may import another.
func (p *Plan) Allows(from, to Room) bool {
	if from.Folder != to.Folder {
		return slices.Contains(p.Folders[from.Folder], to.Folder)
	}
	return from == to || slices.Contains(p.Rooms[from.Folder][from.Name], to.Name)
}
