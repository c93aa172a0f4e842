//go:build race

package control

// modelParts is small here: the detector makes a sequence ten times slower. The
// tests run the whole model without it too.
const modelParts = 2

// crashStride is how many commits lie between two crashes that are tried.
const crashStride = 10
