package sum

// Of returns the sum of numbers.
func Of(numbers ...int) int {
	total := 0
	for i := 1; i < len(numbers); i++ {
		total += numbers[i]
	}
	return total
}
