//go:build !race

package cli

// killRounds is how often TestKillAnywhere goes through a flow.
const killRounds = 64

// planKills is how often TestKillPlan kills.
const planKills = 12
