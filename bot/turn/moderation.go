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
	"github.com/planbot-go/planbot/bot/turn/internal/ask"
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

// guard asks the moderator about the turn. What has passed is noted in the run, so that nothing is
// judged twice, and a process that takes the turn over runs no plan without a verdict.
type guard struct{ *execution }

// off reports whether nobody judges.
func (g guard) off() bool { return g.engine.cfg.Moderation.Moderator == nil }

// input judges what the planner is about to see: the person's text, what it quotes, and what actions have read.
func (g guard) input(ctx context.Context) error {
	if g.off() {
		return nil
	}
	said := []string{g.Text}
	for _, q := range g.Activity.Quotes() {
		said = append(said, q.Text)
	}
	for _, shared := range g.Activity.Shared() {
		said = append(said, shared.Text)
	}
	if err := g.judge(ctx, moderation.Said, said...); err != nil {
		return err
	}
	var read []string
	for _, o := range g.Outcomes() {
		if o.Action != plan.Say {
			read = append(read, o.Text)
		}
	}
	return g.judge(ctx, moderation.Document, read...)
}

// document judges a text of others that the planner is about to show the model.
func (g guard) document(ctx context.Context, text string) error {
	return g.judge(ctx, moderation.Document, text)
}

// screen is [actions.Turn.Screen]. Calls of a plan may run at the same time, so it leaves the record alone.
func (g guard) screen(ctx context.Context, list []string, write func(may []bool) string) (string, error) {
	may := slices.Repeat([]bool{true}, len(list))
	if g.off() || len(list) == 0 {
		return write(may), nil
	}
	all := pieces(moderation.Document, list)
	verdict, err := g.ask(ctx, all)
	switch {
	case err != nil && ctx.Err() != nil:
		return "", ctx.Err()
	case err != nil && !g.engine.cfg.Moderation.FailOpen:
		g.Count(CountModeration, "failed")
		return "", err
	case err != nil:
		g.Count(CountModeration, "let_through")
		zerolog.Ctx(ctx).Error().Str("error", cause(err)).Msg("a text could not be judged and is let through")
	case verdict.Flagged():
		g.Count(CountModeration, "flagged")
		for i := range may {
			may[i] = !verdict.Has(i)
		}
		zerolog.Ctx(ctx).Warn().Strs("kinds", []string{string(moderation.Document)}).Strs("categories", verdict.Categories).Str("hash", hashOf(list)).
			Msg("left out by moderation")
	default:
		g.Count(CountModeration, "passed")
	}
	text := write(may)
	g.screened.Store(hashOf(moderation.Document, text)[:32], true)
	return text, nil
}

// attached judges what the model is about to see of what came with the message: as what a person said,
// and as what may try to command the model.
func (g guard) attached(ctx context.Context) error {
	if g.off() {
		return nil
	}
	var all []moderation.Piece
	for _, a := range g.Attached {
		if len(a.Picture) > 0 {
			all = append(all, moderation.Piece{Kind: moderation.Image, Picture: a.Picture})
		} else {
			all = append(all, pieces(moderation.Said, []string{a.Text})...)
			all = append(all, pieces(moderation.Document, []string{a.Text})...)
		}
	}
	return g.pieces(ctx, all)
}

// plan judges what is left to run of the current plan.
func (g guard) plan(ctx context.Context, p *plan.Progress) error {
	if g.off() {
		return nil
	}
	var said, entities []string
	for _, c := range p.Plan.Commands[p.Next:] {
		said = append(said, c.Response)
		entities = append(entities, textsIn(c.Entities)...)
	}
	return g.pieces(ctx, append(pieces(moderation.PlannedSay, said), pieces(moderation.PlannedEntity, entities)...))
}

// call judges the entities of a DO once its variables are filled in.
func (g guard) call(ctx context.Context, index int) error {
	if g.off() {
		return nil
	}
	c, err := g.rec.Run.Progress.Command(index)
	if err != nil {
		return nil //nolint:nilerr // the check of the call says so
	}
	return g.judge(ctx, moderation.PlannedEntity, textsIn(c.Entities)...)
}

// cards judges what people read on the cards of results.
func (g guard) cards(ctx context.Context, cards []activity.Card) error {
	if g.off() || len(cards) == 0 {
		return nil
	}
	var all []string
	for _, card := range cards {
		var content any
		_ = json.Unmarshal(card.Attachment().Content, &content) // it was encoded here
		all = append(append(all, card.Fallback), shownIn(content)...)
	}
	return g.judge(ctx, moderation.PlannedSay, all...)
}

// readOn are the fields of a card that people read.
var readOn = []string{"text", "title", "subtitle", "value", "label", "placeholder", "altText", "fallbackText", "errorMessage", "tooltip", "name"}

// question judges what people read on the card of a question.
func (g guard) question(ctx context.Context, form *actions.Form) error {
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
	return g.judge(ctx, moderation.PlannedSay, all...)
}

// answer judges what a person typed into such a card, before the call gets it.
func (g guard) answer(ctx context.Context, q *ask.Question) error {
	if q == nil || q.Reply == nil {
		return nil
	}
	return g.typed(ctx, q.Reply.Values)
}

// typed judges what a person typed into a card. What they wrote before stays.
func (g guard) typed(ctx context.Context, values map[string]any) error {
	text, kept := g.Text, g.rec.Text
	err := g.judge(ctx, moderation.Said, textsIn(values)...)
	stops := is[*stopError](err) && g.rec.Run != nil
	if stops { // it was put there without its text
		g.takeBack()
	}
	g.Text, g.rec.Text = text, kept
	if stops {
		g.withheld = withheldTyped
		g.remember()
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

func (g guard) judge(ctx context.Context, kind moderation.Kind, list ...string) error {
	if g.off() {
		return nil
	}
	return g.pieces(ctx, pieces(kind, list))
}

// pieces judges what was not judged before. Its error is a [*stopError] if anything is flagged.
func (g guard) pieces(ctx context.Context, all []moderation.Piece) error {
	var known, asked []string // hashes
	if g.rec.Run != nil {
		known = g.rec.Run.Judged
	}
	all = slices.DeleteFunc(all, func(p moderation.Piece) bool {
		hash := hashOf(p.Kind, p.Text)[:32]
		if len(p.Picture) > 0 {
			hash = hashOf(p.Kind, sha256.Sum256(p.Picture))[:32]
		}
		_, screened := g.screened.Load(hash)
		skip := strings.TrimSpace(p.Text) == "" && len(p.Picture) == 0 || screened || slices.Contains(known, hash) || slices.Contains(asked, hash)
		if !skip {
			asked = append(asked, hash)
		}
		return skip
	})
	if len(all) == 0 {
		return nil
	}
	verdict := g.stream.Flagged()
	err := error(nil)
	if kind := all[0].Kind; !verdict.Flagged() || kind != moderation.PlannedSay && kind != moderation.PlannedEntity {
		verdict, err = g.ask(ctx, all)
	}
	switch open := g.engine.cfg.Moderation.FailOpen; {
	case err != nil && ctx.Err() != nil:
		return ctx.Err()
	case err != nil && !open:
		g.Count(CountModeration, "failed")
		return err
	case err != nil:
		g.Count(CountModeration, "let_through")
		zerolog.Ctx(ctx).Error().Str("error", cause(err)).Msg("a text could not be judged and is let through")
	case verdict.Flagged():
		g.Count(CountModeration, "flagged")
		return g.flagged(ctx, all, verdict, asked)
	default:
		g.Count(CountModeration, "passed")
	}
	if g.rec.Run != nil {
		g.rec.Run.Judged = append(slices.Clip(known), asked...)
	}
	return nil
}

// ask asks the moderator. Its error wraps [moderation.ErrUnjudged].
func (g guard) ask(ctx context.Context, all []moderation.Piece) (verdict moderation.Verdict, err error) {
	ctx, end := g.step(ctx, "moderate")
	defer func() { end(err) }()
	defer func() {
		if p := recover(); p != nil { // the moderator is third-party code, and a stream calls it on a goroutine of its own
			verdict, err = moderation.Verdict{}, fmt.Errorf("%w: the moderator panicked: %v", moderation.ErrUnjudged, p)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, judgeWithin)
	defer cancel()
	verdict, err = g.engine.cfg.Moderation.Moderator.Judge(ctx, all)
	if err != nil && !errors.Is(err, moderation.ErrUnjudged) {
		err = fmt.Errorf("%w: %w", moderation.ErrUnjudged, err)
	}
	return verdict, err
}

// flagged tells the operator, takes the flagged texts out of what the turn keeps, and returns the
// error that ends the turn.
func (g guard) flagged(ctx context.Context, all []moderation.Piece, verdict moderation.Verdict, asked []string) error {
	var kinds []string
	for _, p := range all {
		kinds = append(kinds, string(p.Kind))
	}
	kind := all[0].Kind
	kinds = slices.Compact(kinds)
	zerolog.Ctx(ctx).Warn().Strs("kinds", kinds).Strs("categories", verdict.Categories).Str("hash", hashOf(asked)).Msg("flagged by moderation")
	g.note(&g.rec, Note{
		What: "moderation", Outcome: "flagged", Action: strings.Join(verdict.Categories, ","), Of: asked, ID: strings.Join(kinds, ","),
	})
	say, done := flaggedSaid, ""
	switch kind {
	case moderation.Said, moderation.Image:
		kind = moderation.Said
		g.Text, g.rec.Text, g.Attached = withheldText, withheldText, nil
	case moderation.Document:
		say = flaggedDocument
	default:
		say = flaggedAnswer
	}
	if did := g.titles(completed(g.Outcomes())); len(did) > 0 {
		done = " " + g.Translate("Before that I did: %s.", strings.Join(did, ", "))
	}
	if kind != moderation.Said {
		g.withheld = withheldAnswer
		for _, round := range g.Rounds {
			for i := range round.Outcomes {
				if o := &round.Outcomes[i]; o.Action != plan.Say { // it may be what was flagged
					o.Text, o.Shown = "", ""
				}
			}
		}
	}
	if g.rec.Run != nil {
		g.remember()
	}
	return &stopError{cmp.Or(g.engine.cfg.FilteredText, g.Translate(say)) + done}
}

// click judges the texts of a click on a card, which calls an action outside of any plan. It returns
// what to answer if they are flagged.
func (g guard) click(ctx context.Context, entities map[string]any) (actions.Result, error) {
	err := g.typed(ctx, entities)
	if flagged, ok := errors.AsType[*stopError](err); ok {
		return actions.Fail("%s", flagged.say), nil
	}
	return actions.Result{}, err
}

// edited judges the words of an edited message and returns what may be kept of them. Nobody waits for a reply
// to an edit, so what was flagged or could not be judged is withheld without one.
func (g guard) edited(ctx context.Context, text string) (string, error) {
	err := g.judge(ctx, moderation.Said, text)
	switch {
	case err == nil:
		return text, nil
	case ctx.Err() != nil:
		return "", err
	case is[*stopError](err):
		return withheldText, nil
	case errors.Is(err, moderation.ErrUnjudged):
		zerolog.Ctx(ctx).Error().Str("error", cause(err)).Msg("the words of an edited message could not be judged and are withheld")
		return withheldText, nil
	}
	return "", err
}
