package flow

// Limits are the limits of a thread. 0 means no limit, but reading a flow fills in [DefaultLimits] where
// a file has 0.
type Limits struct {
	MaxRounds       int      `json:"maxRounds"`
	MaxDepth        int      `json:"maxDepth"`
	Timeout         Duration `json:"timeout"`
	MaxConcurrent   int      `json:"maxConcurrent"`
	MaxTokens       int64    `json:"maxTokens"`
	MaxCostMicroUSD int64    `json:"maxCostMicroUSD"`
	MaxActions      int      `json:"maxActions"`
	MaxTaskActions  int      `json:"maxTaskActions"`
	MaxOutput       Size     `json:"maxOutput"`
	MaxAttempts     int      `json:"maxAttempts"`
}

// DefaultLimits returns the limits of a flow that does not set any.
func DefaultLimits() Limits {
	return Limits{
		MaxRounds: 40, MaxDepth: 4, MaxConcurrent: 4,
		MaxActions: 32, MaxTaskActions: 256, MaxOutput: 8 << 20,
	}
}

// Fill sets the limits that are 0 to their defaults.
func (l *Limits) Fill() {
	d := DefaultLimits()
	for _, f := range []struct{ have, def *int }{
		{&l.MaxRounds, &d.MaxRounds},
		{&l.MaxDepth, &d.MaxDepth},
		{&l.MaxConcurrent, &d.MaxConcurrent},
		{&l.MaxActions, &d.MaxActions},
		{&l.MaxTaskActions, &d.MaxTaskActions},
	} {
		if *f.have == 0 {
			*f.have = *f.def
		}
	}
	if l.MaxOutput == 0 {
		l.MaxOutput = d.MaxOutput
	}
}

// With returns l overridden by the limits that over sets.
func (l Limits) With(over Limits) Limits {
	return l.each(over, func(base, over int64) int64 {
		if over != 0 {
			return over
		}
		return base
	})
}

// Cap returns the lower of each limit of l and by; zero means no limit.
func (l Limits) Cap(by Limits) Limits {
	return l.each(by, func(a, b int64) int64 {
		if a == 0 || b != 0 && b < a {
			return b
		}
		return a
	})
}

// Max returns the higher of each limit of l and by.
func (l Limits) Max(by Limits) Limits {
	return l.each(by, func(a, b int64) int64 { return max(a, b) })
}

// Above returns the limits of l that are higher than those of by.
func (l Limits) Above(by Limits) Limits {
	return l.each(by, func(a, b int64) int64 {
		if b == 0 || a <= b {
			return 0
		}
		return a
	})
}

func (l Limits) each(b Limits, pick func(a, b int64) int64) Limits {
	return Limits{
		MaxRounds:       int(pick(int64(l.MaxRounds), int64(b.MaxRounds))),
		MaxDepth:        int(pick(int64(l.MaxDepth), int64(b.MaxDepth))),
		Timeout:         Duration(pick(int64(l.Timeout), int64(b.Timeout))),
		MaxConcurrent:   int(pick(int64(l.MaxConcurrent), int64(b.MaxConcurrent))),
		MaxTokens:       pick(l.MaxTokens, b.MaxTokens),
		MaxCostMicroUSD: pick(l.MaxCostMicroUSD, b.MaxCostMicroUSD),
		MaxActions:      int(pick(int64(l.MaxActions), int64(b.MaxActions))),
		MaxTaskActions:  int(pick(int64(l.MaxTaskActions), int64(b.MaxTaskActions))),
		MaxOutput:       Size(pick(int64(l.MaxOutput), int64(b.MaxOutput))),
		MaxAttempts:     int(pick(int64(l.MaxAttempts), int64(b.MaxAttempts))),
	}
}
