package skills

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// Fault is something wrong with a skill.
type Fault struct {
	Path string `json:"path"`           // the file or folder
	Line int    `json:"line,omitempty"` // from 1; 0 for the whole of it
	Text string `json:"text"`
	// Warning says that the skill is used in spite of it. Without, it is left out.
	Warning bool `json:"warning"`
}

// String is the fault on one line, without control characters: path:line: text.
func (f Fault) String() string {
	where := f.Path
	if f.Line > 0 {
		where += ":" + strconv.Itoa(f.Line)
	}
	if f.Warning {
		where += ": warning"
	}
	return onOneLine(where + ": " + f.Text)
}

func onOneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if r != ' ' && !unicode.IsGraphic(r) || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r) {
			return '?'
		}
		return r
	}, text)
}

// quoted shows what a stranger wrote, cut to a length that somebody reads.
func quoted(text string) string {
	const most = 80
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most]) + "…"
	}
	return strconv.Quote(text)
}

// faults collects what is wrong with one file or folder.
type faults struct {
	path    string
	lenient bool
	list    []Fault
}

// maxFaults of one skill are kept: a broken one stays readable.
const maxFaults = 100

func (f *faults) note(warning bool, line int, format string, args []any) {
	if len(f.list) < maxFaults {
		f.list = append(f.list, Fault{Path: f.path, Line: line, Text: fmt.Sprintf(format, args...), Warning: warning})
	}
}

// add notes what no mode can live with.
func (f *faults) add(line int, format string, args ...any) { f.note(false, line, format, args) }

// mend notes what the lenient mode lives with.
func (f *faults) mend(line int, format string, args ...any) { f.note(f.lenient, line, format, args) }

// warn notes what both modes live with.
func (f *faults) warn(line int, format string, args ...any) { f.note(true, line, format, args) }

// sound says that nothing is noted but warnings.
func (f *faults) sound() bool { return sound(f.list) }

func sound(list []Fault) bool {
	for _, fault := range list {
		if !fault.Warning {
			return false
		}
	}
	return true
}
