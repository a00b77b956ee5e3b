package console

// maxHistory is how many lines the arrow keys bring back.
const maxHistory = 200

// history is what the arrow keys bring back, the latest first. Blank lines and
// repetitions of the latest are left out. It has one user, the line editor.
type history struct {
	lines []string
}

// Add keeps the line as the latest.
func (h *history) Add(line string) {
	if line == "" || len(h.lines) > 0 && h.At(0) == line {
		return
	}
	h.lines = append(h.lines, line)
	if len(h.lines) > maxHistory {
		h.lines = h.lines[1:]
	}
}

// Len is how many lines there are.
func (h *history) Len() int { return len(h.lines) }

// At returns the line that was typed as many lines ago.
func (h *history) At(ago int) string { return h.lines[len(h.lines)-1-ago] }
