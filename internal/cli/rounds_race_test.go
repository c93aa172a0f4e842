//go:build race

package cli

// Few kills here: the detector makes a run of plait twenty times slower.
const (
	killsAnywhere = 12
	killsTeam     = 6
	killsPlan     = 4
)
