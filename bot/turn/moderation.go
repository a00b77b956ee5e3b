package turn

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/internal/texts"
	"github.com/planbot-go/planbot/models/moderation"
	"github.com/planbot-go/planbot/planner/plan"
)

// Moderation says who judges what people say and what the bot is about to say and do. A message is
// judged before the planner or the history gets it, a plan as a whole before its first command runs,
// and a text with variables when they are filled in. What is flagged ends the turn with one sentence
// and is kept nowhere. Where people see answers while they are written, each sentence is held back until it
// has passed. The zero value: nobody judges.
type Moderation struct {
	Moderator moderation.Moderator // nil: nobody judges
	// FailOpen lets through what could not be judged. false: the turn fails with an error that wraps
	// [moderation.ErrUnjudged].
	FailOpen bool
}

const (
	// judgeWithin limits one verdict, if the moderator has no limit of its own.
	judgeWithin = 10 * time.Second
	// withheldText replaces a flagged message wherever the turn keeps it.
	withheldText = "[This message was withheld by moderation.]"
	// withheldAnswer is what the history has in place of a flagged answer.
	withheldAnswer = "[The answer was withheld by moderation.]"
	// withheldTyped is what it has besides if what a person filled in was flagged.
	withheldTyped = "[What the person filled in was withheld by moderation.]"
)

// The sentences about what was flagged, unless the bot has a FilteredText.
const (
	flaggedSaid     texts.Text = "Sorry, I can't help with that message. Please try other words."
	flaggedAnswer   texts.Text = "Sorry, my answer did not pass a content check, so I held it back. Please try other words."
	flaggedDocument texts.Text = "Sorry, something that I read for this did not pass a content check, so I stopped."
)

// What has passed is noted in the run, so that nothing is judged twice, and a process that takes the turn over
// runs no plan without a verdict.

// unjudged reports whether nobody judges.
func unjudged(x *execution) bool { return x.engine.cfg.Moderation.Moderator == nil }

// judgeInput judges what the planner is about to see: the person's text, what it quotes, links to and brings, and what actions have read.
func judgeInput(ctx context.Context, x *execution) error {
	if unjudged(x) {
		return nil
	}
	said := append([]string{x.Text}, x.words...)
	for _, f := range x.Files {
		said = append(said, f.Name)
	}
	for _, q := range x.Activity.Quotes() {
		said = append(said, q.From.Name, q.Text)
	}
	said = append(said, x.Activity.Links()...)
	for _, shared := range x.Activity.Shared() {
		said = append(said, shared.Text)
	}
	if err := judgeTexts(ctx, x, moderation.Said, said...); err != nil {
		return err
	}
	var read []string
	for _, o := range x.Outcomes() {
		if o.Action != plan.Say {
			read = append(read, o.Text)
		}
	}
	return judgeTexts(ctx, x, moderation.Document, read...)
}

// screenTexts is [actions.Turn.Screen]. Calls of a plan may run at the same time, so it leaves the record alone.
func screenTexts(ctx context.Context, x *execution, list []string, write func(may []bool) string) (string, error) {
	may := slices.Repeat([]bool{true}, len(list))
	if unjudged(x) || len(list) == 0 {
		return write(may), nil
	}
	all := pieces(moderation.Document, list)
	verdict, err := askModerator(ctx, x, all)
	switch {
	case err != nil && ctx.Err() != nil:
		return "", ctx.Err()
	case err != nil && !x.engine.cfg.Moderation.FailOpen:
		x.Count(CountModeration, "failed")
		return "", err
	case err != nil:
		x.Count(CountModeration, "let_through")
		zerolog.Ctx(ctx).Error().Str("error", Cause(err)).Msg("a text could not be judged and is let through")
	case verdict.Flagged():
		x.Count(CountModeration, "flagged")
		for i := range may {
			may[i] = !verdict.Has(i)
		}
		zerolog.Ctx(ctx).Warn().Strs("kinds", []string{string(moderation.Document)}).Strs("categories", verdict.Categories).Str("hash", Hash(list)).
			Msg("left out by moderation")
	default:
		x.Count(CountModeration, "passed")
	}
	text := write(may)
	x.screened.Store(Hash(moderation.Document, text)[:32], true)
	return text, nil
}

// judgeAttached judges what the model is about to see of what came with the message: as what a person said,
// and as what may try to command the model.
func judgeAttached(ctx context.Context, x *execution) error {
	if unjudged(x) {
		return nil
	}
	var all []moderation.Piece
	for _, a := range x.Attached {
		if len(a.Picture) > 0 {
			all = append(all, moderation.Piece{Kind: moderation.Image, Picture: a.Picture})
		} else {
			all = append(all, pieces(moderation.Said, []string{a.Text})...)
			all = append(all, pieces(moderation.Document, []string{a.Text})...)
		}
	}
	return judgePieces(ctx, x, all)
}

// judgePlan judges what is left to run of the current plan.
func judgePlan(ctx context.Context, x *execution, p *plan.Progress) error {
	if unjudged(x) {
		return nil
	}
	var said, entities []string
	for _, c := range p.Plan.Commands[p.Next:] {
		said = append(said, c.Response)
		entities = append(entities, textsIn(c.Entities)...)
	}
	return judgePieces(ctx, x, append(pieces(moderation.PlannedSay, said), pieces(moderation.PlannedEntity, entities)...))
}

// judgeCall judges the entities of a DO once its variables are filled in.
func judgeCall(ctx context.Context, x *execution, index int) error {
	if unjudged(x) {
		return nil
	}
	c, err := x.rec.Run.Progress.Command(index)
	if err != nil {
		return nil //nolint:nilerr // the check of the call says so
	}
	return judgeTexts(ctx, x, moderation.PlannedEntity, textsIn(c.Entities)...)
}

// judgeCards judges what people read on the cards of results.
func judgeCards(ctx context.Context, x *execution, cards []activity.Card) error {
	if unjudged(x) || len(cards) == 0 {
		return nil
	}
	var all []string
	for _, card := range cards {
		var content any
		_ = json.Unmarshal(card.Attachment().Content, &content) // it was encoded here
		all = append(append(all, card.Fallback), shownIn(content)...)
	}
	return judgeTexts(ctx, x, moderation.PlannedSay, all...)
}

// readOn are the fields of a card that people read.
var readOn = []string{"text", "title", "subtitle", "value", "label", "placeholder", "altText", "fallbackText", "errorMessage", "tooltip", "name"}

// judgeQuestion judges what people read on the card of a question.
func judgeQuestion(ctx context.Context, x *execution, form *actions.Form) error {
	all := []string{form.Text}
	for _, f := range form.Fields {
		all = append(all, cmp.Or(f.Title, f.Name), f.Hint)
		if text, ok := f.Default.(string); ok {
			all = append(all, text)
		}
		for _, c := range f.Choices {
			all = append(all, cmp.Or(c.Title, c.Value))
		}
	}
	return judgeTexts(ctx, x, moderation.PlannedSay, all...)
}

// judgeTyped judges what a person typed into a card. What they wrote before stays.
func judgeTyped(ctx context.Context, x *execution, values map[string]any) error {
	text, kept := x.Text, x.rec.Text
	err := judgeTexts(ctx, x, moderation.Said, textsIn(values)...)
	stops := is[*stopError](err) && x.rec.Run != nil
	if stops { // it was put there without its text
		takeBack(x.Turn)
	}
	x.Text, x.rec.Text = text, kept
	if stops {
		x.withheld = withheldTyped
		remember(x.Turn)
	}
	return err
}

// shownIn lists the texts of a card that people read.
func shownIn(card any) (all []string) {
	switch card := card.(type) {
	case []any:
		for _, one := range card {
			all = append(all, shownIn(one)...)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(card)) {
			if text, ok := card[name].(string); !ok {
				all = append(all, shownIn(card[name])...)
			} else if slices.Contains(readOn, name) {
				all = append(all, text)
			}
		}
	}
	return all
}

// textsIn lists the texts of a JSON value, and the names in its objects: a model may have written those, too.
func textsIn(value any) (all []string) {
	switch value := value.(type) {
	case string:
		return []string{value}
	case []any:
		for _, one := range value {
			all = append(all, textsIn(one)...)
		}
	case map[string]any:
		names := slices.Sorted(maps.Keys(value))
		all = append(all, strings.Join(names, "\n"))
		for _, name := range names {
			all = append(all, textsIn(value[name])...)
		}
	}
	return all
}

func pieces(kind moderation.Kind, list []string) (all []moderation.Piece) {
	for _, text := range list {
		all = append(all, moderation.Piece{Kind: kind, Text: text})
	}
	return all
}

func judgeTexts(ctx context.Context, x *execution, kind moderation.Kind, list ...string) error {
	if unjudged(x) {
		return nil
	}
	return judgePieces(ctx, x, pieces(kind, list))
}

// judgePieces judges what was not judged before. Its error is a [*stopError] if anything is flagged.
func judgePieces(ctx context.Context, x *execution, all []moderation.Piece) error {
	var known, asked []string // hashes
	if x.rec.Run != nil {
		known = x.rec.Run.Judged
	}
	all = slices.DeleteFunc(all, func(p moderation.Piece) bool {
		hash := Hash(p.Kind, p.Text)[:32]
		if len(p.Picture) > 0 {
			hash = Hash(p.Kind, sha256.Sum256(p.Picture))[:32]
		}
		_, screened := x.screened.Load(hash)
		skip := strings.TrimSpace(p.Text) == "" && len(p.Picture) == 0 || screened || slices.Contains(known, hash) || slices.Contains(asked, hash)
		if !skip {
			asked = append(asked, hash)
		}
		return skip
	})
	if len(all) == 0 {
		return nil
	}
	verdict := x.stream.Flagged()
	err := error(nil)
	if kind := all[0].Kind; !verdict.Flagged() || kind != moderation.PlannedSay && kind != moderation.PlannedEntity {
		verdict, err = askModerator(ctx, x, all)
	}
	switch open := x.engine.cfg.Moderation.FailOpen; {
	case err != nil && ctx.Err() != nil:
		return ctx.Err()
	case err != nil && !open:
		x.Count(CountModeration, "failed")
		return err
	case err != nil:
		x.Count(CountModeration, "let_through")
		zerolog.Ctx(ctx).Error().Str("error", Cause(err)).Msg("a text could not be judged and is let through")
	case verdict.Flagged():
		x.Count(CountModeration, "flagged")
		return withholdFlagged(ctx, x, all, verdict, asked)
	default:
		x.Count(CountModeration, "passed")
	}
	if x.rec.Run != nil {
		x.rec.Run.Judged = append(slices.Clip(known), asked...)
	}
	return nil
}

// askModerator asks the moderator. Its error wraps [moderation.ErrUnjudged].
func askModerator(ctx context.Context, x *execution, all []moderation.Piece) (verdict moderation.Verdict, err error) {
	ctx, end := x.step(ctx, "moderate")
	defer func() { end(err) }()
	defer func() {
		if p := recover(); p != nil { // the moderator is third-party code, and a stream calls it on a goroutine of its own
			verdict, err = moderation.Verdict{}, fmt.Errorf("%w: the moderator panicked: %v", moderation.ErrUnjudged, p)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, judgeWithin)
	defer cancel()
	verdict, err = x.engine.cfg.Moderation.Moderator.Judge(ctx, all)
	if err != nil && !errors.Is(err, moderation.ErrUnjudged) {
		err = fmt.Errorf("%w: %w", moderation.ErrUnjudged, err)
	}
	return verdict, err
}

// withholdFlagged tells the operator, takes the flagged texts out of what the turn keeps, and returns the
// error that ends the turn.
func withholdFlagged(ctx context.Context, x *execution, all []moderation.Piece, verdict moderation.Verdict, asked []string) error {
	var kinds []string
	for _, p := range all {
		kinds = append(kinds, string(p.Kind))
	}
	kind := all[0].Kind
	kinds = slices.Compact(kinds)
	zerolog.Ctx(ctx).Warn().Strs("kinds", kinds).Strs("categories", verdict.Categories).Str("hash", Hash(asked)).Msg("flagged by moderation")
	NoteFor(x.Turn, &x.rec, Note{
		What: "moderation", Outcome: "flagged", Action: strings.Join(verdict.Categories, ","), Of: asked, ID: strings.Join(kinds, ","),
	})
	say := flaggedSaid
	switch kind {
	case moderation.Said, moderation.Image:
		kind = moderation.Said
		x.Text, x.rec.Text, x.Attached = withheldText, withheldText, nil
	case moderation.Document:
		say = flaggedDocument
	default:
		say = flaggedAnswer
	}
	done := BeforeThat(x.Turn)
	if kind != moderation.Said {
		x.withheld = withheldAnswer
		for _, round := range x.Rounds {
			for i := range round.Outcomes {
				if o := &round.Outcomes[i]; o.Action != plan.Say { // it may be what was flagged
					o.Text, o.Shown = "", ""
				}
			}
		}
	}
	if x.rec.Run != nil {
		remember(x.Turn)
	}
	return &stopError{cmp.Or(x.engine.cfg.FilteredText, x.Translate(say)) + done}
}

// judgeEdited judges the words of an edited message and returns what may be kept of them. Nobody waits for a reply
// to an edit, so what was flagged or could not be judged is withheld without one.
func judgeEdited(ctx context.Context, x *execution, text string) (string, error) {
	err := judgeTexts(ctx, x, moderation.Said, text)
	switch {
	case err == nil:
		return text, nil
	case ctx.Err() != nil:
		return "", err
	case is[*stopError](err):
		return withheldText, nil
	case errors.Is(err, moderation.ErrUnjudged):
		zerolog.Ctx(ctx).Error().Str("error", Cause(err)).Msg("the words of an edited message could not be judged and are withheld")
		return withheldText, nil
	}
	return "", err
}
