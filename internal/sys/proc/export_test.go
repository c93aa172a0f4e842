package proc

// CutLines passes in to a stream in chunks and returns when the stream has ended.
func CutLines(in []byte, chunk, maxLine int, line func([]byte, bool) error) {
	r := &running{cfg: Config{MaxLine: maxLine, MaxBytes: DefaultMaxBytes}, stop: make(chan cause, 1)}
	s := &stream{r: r, line: line}
	for len(in) > 0 {
		n := min(chunk, len(in))
		s.handle(in[:n])
		in = in[n:]
	}
	s.flush()
}

// CloseListed is what closeInherited does where it has to list descriptors.
func CloseListed() { closeListed() }
