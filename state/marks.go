package state

import (
	"crypto/rand"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// marksName is a value in which a document keeps the names of the last deltas
// that were saved with it. No type has such a name.
const (
	marksName = "state.marks"
	maxMarks  = 16 // more than a person's turns save in the time that a takeover takes
)

// MarkChanges is [Scope.Changes] for a journal: it gives the changes a mark, which
// is saved with them, so that [Scope.Apply] can tell whether they were, whatever
// others changed after that. What is not changed gets none, nor does a document
// that will be deleted.
func (s *Scope) MarkChanges() (Delta, error) {
	d, err := s.Changes()
	if err != nil || len(d.Values) == 0 {
		return d, err
	}
	if some, err := s.holdsSome(); err != nil || !some {
		return d, err
	}
	marks := At[[]string](s, marksName)
	if unsaved, ok := d.Values[marksName]; ok {
		*marks = decodeMarks(unsaved.From)
	}
	mark := rand.Text()[:10]
	*marks = append(slices.Clone(*marks), mark)
	*marks = (*marks)[max(0, len(*marks)-maxMarks):]
	d.Values[marksName] = Change{To: jsontext.Value(`["` + mark + `"]`)}
	return d, s.Err()
}

// holdsSome: s will be a document, with something beside marks in it.
func (s *Scope) holdsSome() (bool, error) {
	buf := borrow()
	defer giveBack(buf)
	for i := range s.values {
		if s.values[i].name == marksName {
			continue
		}
		if raw, err := s.now(&s.values[i], buf); err != nil || raw != nil {
			return err == nil, err
		}
	}
	return false, nil
}

// has: d was saved with the document that marks are of.
func has(marks jsontext.Value, d Delta) bool {
	saved := decodeMarks(marks)
	return slices.ContainsFunc(decodeMarks(d.Values[marksName].To), func(mark string) bool {
		return slices.Contains(saved, mark)
	})
}

// decodeMarks reads what may be no marks, in a document that others wrote.
func decodeMarks(raw jsontext.Value) (marks []string) {
	if raw == nil || json.Unmarshal(raw, &marks) != nil {
		return nil
	}
	return marks
}
