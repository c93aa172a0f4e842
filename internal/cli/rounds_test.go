//go:build !race

package cli

// How often plait is killed in each test, together 200 times. A kill of a plan takes 20 times longer than the others.
const (
	killsAnywhere = 130
	killsTeam     = 62
	killsPlan     = 8
)
