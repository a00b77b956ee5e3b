package sandbox

import "cmp"

// With is the sandbox with other limits, as far as they are set.
func (s *Sandbox) With(limits Config) *Sandbox {
	other := *s
	other.cfg.Wall = cmp.Or(limits.Wall, s.cfg.Wall)
	other.cfg.CPU = cmp.Or(limits.CPU, s.cfg.CPU)
	other.cfg.MemoryBytes = cmp.Or(limits.MemoryBytes, s.cfg.MemoryBytes)
	other.cfg.ScratchBytes = cmp.Or(limits.ScratchBytes, s.cfg.ScratchBytes)
	return &other
}

// OneByOne is the sandbox with one run at a time.
func (s *Sandbox) OneByOne() *Sandbox {
	other := *s
	other.slots = make(chan struct{}, 1)
	return &other
}
