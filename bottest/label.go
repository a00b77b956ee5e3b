package bottest

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"

	"github.com/rs/zerolog"
)

// Of says which turn something belongs to: its id, and the conversation and the activity
// that it answers. They are empty where there is no turn.
type Of struct {
	Turn         string `json:"turn"`
	Conversation string `json:"conversation"`
	Activity     string `json:"activity"`
}

// OfContext reads the turn off the logger of the context, which the bot hands to all that it
// calls.
func OfContext(ctx context.Context) (of Of) {
	var line bytes.Buffer
	log := zerolog.Ctx(ctx).Output(&line).Level(zerolog.InfoLevel)
	log.Info().Send()
	_ = json.Unmarshal(line.Bytes(), &of) // no logger, no turn
	return of
}

const ofHeader = "X-Bottest-Of"

// labelled tells the stand-ins which turn a request belongs to.
type labelled struct{ http.RoundTripper }

func (l labelled) RoundTrip(r *http.Request) (*http.Response, error) {
	label, err := json.Marshal(OfContext(r.Context()))
	if err != nil {
		return nil, err
	}
	out := r.Clone(r.Context())
	out.Header.Set(ofHeader, string(label))
	return l.RoundTripper.RoundTrip(out)
}

func labelOf(h http.Header) (of Of) {
	_ = json.Unmarshal([]byte(h.Get(ofHeader)), &of) // of a bot with a client of its own there is none
	return of
}
