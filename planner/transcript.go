package planner

import (
	"bytes"
	"encoding/json"
)

// Transcript writes commands as a plan in the format that the model is asked
// for, on one line: what the history keeps of a turn. It is "" when there are
// none.
func Transcript(commands []Command) string {
	if len(commands) == 0 {
		return ""
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // the model reads it
	err := enc.Encode(struct {
		Type     string    `json:"type"`
		Commands []Command `json:"commands"`
	}{"plan", commands})
	if err != nil {
		return "" // entities came from JSON and go back to it
	}
	return string(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
}
