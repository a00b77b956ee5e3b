package turn

import (
	"encoding/json"
	"testing"
)

// TestTheFormatOfABurst: an older program reads what is none, and refuses a burst, of which it would answer a part.
func TestTheFormatOfABurst(t *testing.T) {
	t.Parallel()
	for want, parts := range map[int][]part{recordVersion - 1: nil, recordVersion: {{ID: "two", Activity: []byte(`{"type":"message","id":"2","conversation":{"id":"a:mia"}}`)}}} {
		r := Record{Phase: planning, Parts: parts, head: head{ID: "one", Activity: []byte(`{"type":"message","id":"1","conversation":{"id":"a:mia"}}`)}}
		raw, err := r.Encode()
		if err != nil {
			t.Fatal(err)
		}
		var of struct{ V int }
		if err := json.Unmarshal(raw, &of); err != nil || of.V != want {
			t.Errorf("version %d (%v) of %s, want %d", of.V, err, raw, want)
		}
		read, err := Decode(raw)
		if err != nil || len(read.Parts) != len(parts) {
			t.Errorf("read %+v, %v", read, err)
		}
		if a, err := read.Read(); err != nil || a.ID != []string{"1", "2"}[len(parts)] {
			t.Errorf("it answers %v, %v", a, err)
		}
	}
}
