package turn

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/planbot-go/planbot/bot/turn/internal/stream"
)

// TestSplitCode: each part of a code block that is cut is a code block, and no line is lost.
func TestSplitCode(t *testing.T) {
	t.Parallel()
	for _, mark := range []string{"```", "~~~", "`````"} {
		for _, line := range []string{"key_%04d: value", "key_%04d: " + strings.Repeat("x", 300), "__init_%04d__ ``` #", "key_%04d: value\n"} {
			var code strings.Builder
			for i := range 1400 {
				fmt.Fprintf(&code, line+"\n", i)
			}
			parts := split("Config:\n\n" + mark + "yaml\n" + code.String() + mark + "\n\nDone.")
			var got strings.Builder
			for i, part := range parts {
				if n := len(utf16.Encode([]rune(part))); n > stream.MaxUnits {
					t.Errorf("%s %q: part %d has %d code units", mark, line, i, n)
				}
				if opening, _ := openFence(part); opening != "" {
					t.Errorf("%s %q: part %d ends in %q", mark, line, i, opening)
				}
				_, inside, ok := strings.Cut(part, mark+"yaml\n")
				inside, _, closed := strings.Cut(inside, "\n"+mark)
				if ok && closed {
					got.WriteString(inside + "\n")
				}
			}
			if got, want := strings.Fields(got.String()), strings.Fields(code.String()); len(parts) < 2 || strings.Join(got, " ") != strings.Join(want, " ") {
				t.Errorf("%s %q: %d words of code in %d parts, want %d", mark, line, len(got), len(parts), len(want))
			}
		}
	}
}
