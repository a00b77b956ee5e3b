// Package moderation has the words for judging whether texts and pictures are fit to be read: what a person said and
// sent, what a model plans to say and do, and what was read on the way. Package service asks services, and any other
// [Moderator] works as well. Package bot asks one before it plans and before it runs a plan.
package moderation

import (
	"context"
	"errors"
	"slices"
)

// Moderator judges texts. Concurrent turns call it at the same time.
type Moderator interface {
	// Judge judges the pieces together: the verdict is that of the worst. It ignores kinds that it
	// is not made for. An error means that there is no verdict, whatever Verdict says. Those of
	// package service wrap [ErrUnjudged] and have no text of a piece in them.
	Judge(ctx context.Context, pieces []Piece) (Verdict, error)
}

// Piece is a text or a picture to judge.
type Piece struct {
	Kind Kind
	Text string
	// Picture is a PNG or JPEG, of the kind Image.
	Picture []byte
}

// Kind says where a text comes from.
type Kind string

// The kinds of pieces.
const (
	Said          Kind = "said"           // by a person
	PlannedSay    Kind = "planned-say"    // what the bot is about to say
	PlannedEntity Kind = "planned-entity" // a text that an action is about to get
	Document      Kind = "document"       // what an action or a file has; it may try to command the model
	Image         Kind = "image"          // a picture that a person sent
)

// Verdict says what is wrong with the pieces. The zero Verdict: nothing.
type Verdict struct {
	// Categories are the names of what was found, sorted, such as "hate". They are short and contain
	// nothing of the pieces.
	Categories []string
	// Pieces are the places of the pieces in which that was found, or may be, sorted. nil: nobody knows, so it
	// may be in any.
	Pieces []int
}

// Flagged reports whether something is wrong.
func (v Verdict) Flagged() bool { return len(v.Categories) > 0 }

// Has reports whether something is wrong with that piece, or may be.
func (v Verdict) Has(piece int) bool {
	return v.Flagged() && (v.Pieces == nil || slices.Contains(v.Pieces, piece))
}

// ErrUnjudged says that there is no verdict: the service did not answer in time, or its answer was
// not a verdict.
var ErrUnjudged = errors.New("a text could not be judged")
