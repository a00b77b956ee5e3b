package models

import "strings"

// callDraft is a call as its pieces come.
type callDraft struct {
	id, name  string
	arguments strings.Builder
	whole     bool // the first piece of the arguments is all of them
}

// rawCall and rawText are a call as it stands in a completion.
type (
	rawCall struct {
		ID       string  `json:"id,omitempty"`
		Type     string  `json:"type"`
		Function rawText `json:"function"`
	}
	rawText struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	}
)

func (d *callDraft) raw() rawText { return rawText{d.name, d.arguments.String()} }

// add adds a piece and is how many bytes the call grew by. The first id and the
// first name count: servers repeat them, or send empty ones later.
func (d *callDraft) add(p *callPiece) (grown int64) {
	if d.id == "" {
		d.id = p.ID
		grown += int64(len(p.ID))
	}
	if d.name == "" {
		d.name = p.Function.Name
		grown += int64(len(p.Function.Name))
	}
	text := p.Function.arguments()
	if d.arguments.Len() == 0 {
		d.whole = isObject(text)
	}
	d.arguments.WriteString(text)
	return grown + int64(len(text))
}

// isOver reports whether p begins another call than d, though it comes in the same
// place: servers number each call from zero, or not at all.
func (d *callDraft) isOver(p *callPiece) bool {
	switch {
	case p.Function.Name == "" || d.name == "": // goes on
		return false
	case p.ID != "" && d.id != "":
		return p.ID != d.id
	case p.Function.Name != d.name:
		return true
	default:
		return d.whole && strings.TrimSpace(p.Function.arguments()) != ""
	}
}

// callPieces puts the pieces of calls together, which may come interleaved.
type callPieces struct {
	drafts []*callDraft
	at     map[int]*callDraft    // the last one of each index
	named  map[string]*callDraft // by id
}

// of is the call that p is a piece of, which may be a new one.
func (c *callPieces) of(p *callPiece) *callDraft {
	draft := c.known(p)
	if draft == nil || draft.isOver(p) {
		draft = &callDraft{}
		c.drafts = append(c.drafts, draft)
	}
	if c.at == nil {
		c.at, c.named = map[int]*callDraft{}, map[string]*callDraft{}
	}
	if p.Index != nil {
		c.at[*p.Index] = draft
	}
	if p.ID != "" && draft.id == "" { // only its own: some servers make up one a piece
		c.named[p.ID] = draft
	}
	return draft
}

// known is the call of that index, without an index the one of that id, and
// without either the last one.
func (c *callPieces) known(p *callPiece) *callDraft {
	if p.Index != nil {
		return c.at[*p.Index]
	}
	if draft := c.named[p.ID]; draft != nil {
		return draft
	}
	if len(c.drafts) == 0 {
		return nil
	}
	return c.drafts[len(c.drafts)-1]
}
