package app

import (
	"fmt"
	"io"
	"strings"
)

// barWidth is how many characters the bar itself has.
const barWidth = 30

// progress draws a bar on a terminal, and nothing elsewhere.
type progress struct{ out io.Writer }

func newProgress(out io.Writer) progress {
	if !isTerminal(out) {
		out = io.Discard
	}
	return progress{out}
}

// show draws the bar over the one before.
func (p progress) show(done, all int) {
	full := done * barWidth / max(1, all)
	fmt.Fprintf(p.out, "\r[%s%s] %d of %d", strings.Repeat("=", full), strings.Repeat(" ", barWidth-full), done, all)
}

// clear takes the bar away, so that what is printed next has the line.
func (p progress) clear() { fmt.Fprint(p.out, "\r\x1b[K") }
