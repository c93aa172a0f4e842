package proc

// closeInherited keeps descriptors that this process was started with from its children: Go opens its own so, but
// who started it may have left files open.
func closeInherited() { closeListed() }
