// Package sum adds numbers up. It does so wrongly: the example codex-fix mends it.
package sum

// Of returns the sum of numbers.
func Of(numbers ...int) int {
	total := 0
	for i := 1; i < len(numbers); i++ {
		total += numbers[i]
	}
	return total
}
