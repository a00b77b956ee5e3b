package turn

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/state"
)

// keeps is what a feature of these tests keeps.
type keeps struct {
	Words []string `json:"words,omitempty"`
}

// TestSlots: a record keeps what features keep, also those that are absent here, byte by byte.
func TestSlots(t *testing.T) {
	t.Parallel()
	slot := NewSlot[keeps]("words")
	r := Record{Phase: planning, head: head{ID: "one", Activity: []byte(`{}`)}}
	slot.Of(&Note{rec: &r}).Words = []string{"<a>"}
	raw, err := r.Encode()
	if err != nil || !strings.Contains(string(raw), `,"words":{"words":["<a>"]}`) {
		t.Fatalf("%s, %v", raw, err)
	}
	absent := strings.Replace(string(raw), `"words":{`, `"absent":{"any":1.50},"words":{`, 1)
	read, err := Decode([]byte(absent))
	if err != nil {
		t.Fatal(err)
	}
	got := slot.Of(&Note{rec: &read})
	if len(got.Words) != 1 || got.Words[0] != "<a>" {
		t.Errorf("read %+v", got)
	}
	got.Words = append(got.Words, "b")
	if slot.Of(&Note{rec: &read}) != got {
		t.Error("the value of a slot is another one")
	}
	raw, err = read.Encode()
	if err != nil || !strings.Contains(string(raw), `"absent":{"any":1.50}`) || !strings.Contains(string(raw), `"words":{"words":["<a>","b"]}`) {
		t.Errorf("%s, %v", raw, err)
	}
	*got = keeps{}
	raw, err = read.Encode()
	if err != nil || strings.Contains(string(raw), `words`) {
		t.Errorf("%s, %v", raw, err)
	}
}

// TestNumbersInARecord stay as the model wrote them.
func TestNumbersInARecord(t *testing.T) {
	t.Parallel()
	r := Record{Phase: planning, Run: &Run{Rounds: []actions.Round{{Outcomes: []actions.Outcome{{Entities: map[string]any{"n": json.Number("1.50")}}}}}}}
	raw, err := r.Encode()
	if err != nil || !strings.Contains(string(raw), `{"n":1.50}`) {
		t.Errorf("%s, %v", raw, err)
	}
}

// TestASlotOfAnotherAttempt: what a turn that runs again has is what the copy had.
func TestASlotOfAnotherAttempt(t *testing.T) {
	t.Parallel()
	slot := NewSlot[keeps]("words")
	var r Record
	first := slot.Of(&Note{rec: &r})
	first.Words = []string{"saved"}
	if err := r.closeSlots(); err != nil {
		t.Fatal(err)
	}
	base := r.clone()
	first.Words = []string{"not saved"}
	if got := slot.Of(&Note{rec: &base}).Words; len(got) != 1 || got[0] != "saved" {
		t.Errorf("got %q", got)
	}
}

// TestSlotsThatCannotBeKept make no record, so that nothing is overwritten.
func TestSlotsThatCannotBeKept(t *testing.T) {
	t.Parallel()
	slot := NewSlot[keeps]("words")
	r, err := Decode([]byte(`{"v":2,"id":"one","phase":"planning","activity":{},"words":[1]}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := slot.Of(&Note{rec: &r}); got.Words != nil {
		t.Errorf("read %+v", got)
	}
	if raw, err := r.Encode(); !is[*deadLetter](err) || raw != nil {
		t.Errorf("%s, %v", raw, err)
	}
	r = Record{}
	slot.Of(&Note{rec: &r}).Words = []string{strings.Repeat("x", maxSlot)}
	if raw, err := r.Encode(); !errors.Is(err, state.ErrTooLarge) || raw != nil {
		t.Errorf("%.20s, %v", raw, err)
	}
}

// TestNamesOfSlots are not those of members of the record.
func TestNamesOfSlots(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "phase", "Run", "v", "activity"} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("there is a slot %q", name)
				}
			}()
			NewSlot[keeps](name)
		}()
	}
	pauses := map[string]func() Pause{"sleep": nil}
	err := checkFeatures([]Feature{{Name: "a"}, {}, {}, {Name: "a", Pauses: pauses}})
	if err == nil || !strings.Contains(err.Error(), "two features") || !strings.Contains(err.Error(), `Pauses: "sleep"`) {
		t.Errorf("got %v", err)
	}
}
