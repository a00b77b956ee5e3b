package sandbox

import "cmp"

// With is the sandbox with other limits, as far as they are set.
func (s *Sandbox) With(limits Config) *Sandbox {
	other := *s
	other.cfg.Wall = cmp.Or(limits.Wall, s.cfg.Wall)
	other.cfg.CPU = cmp.Or(limits.CPU, s.cfg.CPU)
	other.cfg.MemoryBytes = cmp.Or(limits.MemoryBytes, s.cfg.MemoryBytes)
	other.cfg.ScratchBytes = cmp.Or(limits.ScratchBytes, s.cfg.ScratchBytes)
	other.cfg.FileBytes = cmp.Or(limits.FileBytes, s.cfg.FileBytes)
	other.cfg.Processes = cmp.Or(limits.Processes, s.cfg.Processes)
	other.cfg.OpenFiles = cmp.Or(limits.OpenFiles, s.cfg.OpenFiles)
	other.cfg.OutputBytes = cmp.Or(limits.OutputBytes, s.cfg.OutputBytes)
	return &other
}
