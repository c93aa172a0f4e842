package text

import "strings"

// Nearest returns the word that k was most likely meant to be, "" if none is similar: at most two
// edits away, with fewer than half of the letters wrong, or letters only missing. Among equally
// similar words, it prefers one of the same length.
func Nearest(k string, among []string) string {
	best, dist := "", 3
	for _, c := range among {
		d := distance(strings.ToLower(k), strings.ToLower(c))
		near := 2*d < max(len(c), len(k)) || k != "" && d == len(c)-len(k)
		if near && (d < dist || d == dist && len(best) != len(k) && len(c) == len(k)) {
			best, dist = c, d
		}
	}
	return best
}

// distance returns the number of edits between a and b, and 99 if one is over 40 bytes. An edit
// adds, drops or changes a letter, or swaps two adjacent ones.
func distance(a, b string) int {
	if len(a) > 40 || len(b) > 40 {
		return 99
	}
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			change := 0
			if a[i-1] != b[j-1] {
				change = 1
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
