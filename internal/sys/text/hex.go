package text

// IsHex reports whether s has only lower-case hexadecimal digits, from least to most of them.
func IsHex(s string, least, most int) bool {
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return least <= len(s) && len(s) <= most
}
