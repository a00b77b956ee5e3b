package plan

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/planbot-go/planbot/internal/spelling"
)

// What a transcript keeps of the results of calls: of each, and of all. History
// keeps 8 KiB of an answer, and one that is cut there cannot be read.
const (
	maxResultBytes  = 1 << 10
	maxResultsBytes = 4 << 10
)

// cutMark ends a result that was cut, so that the model does not take its end
// for all there was.
const cutMark = " […]"

const planType = "plan"

// transcript is the JSON of what the history keeps of a turn.
type transcript struct {
	Type     string    `json:"type"`
	Commands []Command `json:"commands"`
}

// Transcript writes commands as a plan in the format of the [Sequence] planner,
// on one line: what the history keeps of a turn, whatever the planner. Results
// are kept of tool calls only, and cut where they are long. It is "" when there
// are no commands.
func Transcript(commands []Command) string {
	if len(commands) == 0 {
		return ""
	}
	kept := transcript{Type: planType, Commands: slices.Clone(commands)}
	limit := min(maxResultBytes, maxResultsBytes/len(commands))
	for i := range kept.Commands {
		c := &kept.Commands[i]
		if c.CallID == "" {
			c.Result = ""
		}
		c.Result = cutResult(c.Result, limit)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // the model reads it
	if enc.Encode(kept) != nil {
		return "" // entities came from JSON and go back to it
	}
	return string(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
}

// cutResult shortens a result to limit bytes, its mark included.
func cutResult(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	if limit < len(cutMark) {
		return ""
	}
	return spelling.Shorten(text, limit-len(cutMark)) + cutMark
}

// readTranscript reads what [Transcript] has written; ok says that it is that,
// and whole.
func ReadTranscript(text string) (commands []Command, ok bool) {
	var kept transcript
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	dec.DisallowUnknownFields()
	if dec.Decode(&kept) != nil || dec.More() || kept.Type != planType {
		return nil, false
	}
	return kept.Commands, true
}
