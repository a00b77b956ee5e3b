// Package turnlog tells which turn a context belongs to, for the kit and for recordings: it
// reads that off the logger which the bot hands to all that it calls.
package turnlog

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/rs/zerolog"
)

// Of says which turn something belongs to: its id, and the conversation and the activity
// that it answers. They are empty where there is no turn.
type Of struct {
	Turn         string `json:"turn"`
	Conversation string `json:"conversation"`
	Activity     string `json:"activity"`
}

// From is the turn of the context.
func From(ctx context.Context) (of Of) {
	var line bytes.Buffer
	log := zerolog.Ctx(ctx).Output(&line).Level(zerolog.InfoLevel)
	log.Info().Send()
	_ = json.Unmarshal(line.Bytes(), &of) // no logger, no turn
	return of
}
