//go:build race

package cli

// killRounds is small here: the detector makes a run of plait twenty times slower.
const killRounds = 6

// planKills is how often TestKillPlan kills.
const planKills = 4
