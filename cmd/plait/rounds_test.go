//go:build !race

package main

// killRounds is how often TestKillAnywhere goes through a flow.
const killRounds = 64

// planKills is how often TestKillPlan kills.
const planKills = 12
