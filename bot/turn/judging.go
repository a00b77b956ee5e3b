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

	"github.com/go-json-experiment/json"
	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/models/moderation"
	"github.com/planbot-go/planbot/planner/plan"
)

// Judging is what a feature's Judge is asked about. What it flags is kept nowhere, and ends the turn.
type Judging struct {
	Pieces []moderation.Piece
	// Draft says that a person reads it while the model writes the rest. It is judged once more with all of the plan, so
	// count and note it then.
	Draft bool
	// Drafted is what was said of a part of it, as a draft: it cannot pass. nil: nothing.
	Drafted *Flagged
	// Parts says that what is flagged is left out, and the turn goes on with the other pieces.
	Parts bool
	// Of is what a log line or a [Note] has the hash of.
	Of any

	may []bool // of Parts: which pieces pass
}

// Flagged is the error of a feature's Judge about what must not be used.
type Flagged struct {
	moderation.Verdict
	Say string // to the person
}

// Error is documented at [error].
func (f *Flagged) Error() string { return "flagged as " + strings.Join(f.Categories, ", ") }

const (
	// withheldText replaces a flagged message wherever the turn keeps it.
	withheldText = "[This message was withheld by moderation.]"
	// withheldAnswer is what the history has in place of a flagged answer.
	withheldAnswer = "[The answer was withheld by moderation.]"
	// withheldTyped is what it has besides if what a person filled in was flagged.
	withheldTyped = "[What the person filled in was withheld by moderation.]"
)

// What has passed is noted in the run, so that nothing is judged twice, and a process that takes the turn over
// runs no plan without a verdict.

// unjudged reports whether nobody judges.
func unjudged(x *execution) bool {
	return !x.engine.has(func(f *Feature) bool { return f.Judge != nil })
}

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
	err := judge(ctx, x, Judging{Pieces: pieces(moderation.Document, list), Parts: true, Of: list, may: may})
	if err != nil {
		return "", err
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
	j, kind := Judging{Pieces: all, Of: asked}, all[0].Kind
	if kind == moderation.PlannedSay || kind == moderation.PlannedEntity {
		j.Drafted, _ = errors.AsType[*Flagged](x.stream.Unfit())
	}
	err := judge(ctx, x, j)
	if flagged, ok := errors.AsType[*Flagged](err); ok {
		return withhold(x, kind, flagged.Say)
	}
	if err == nil && x.rec.Run != nil {
		x.rec.Run.Judged = append(slices.Clip(known), asked...)
	}
	return err
}

// judge asks all features that judge: each has to pass the pieces. Its error is a [*Flagged], wraps
// [moderation.ErrUnjudged], or is that of ctx. A stream calls it on a goroutine of its own.
func judge(ctx context.Context, x *execution, j Judging) (err error) {
	ctx, end := x.step(ctx, StepJudge)
	defer func() {
		if is[*Flagged](err) { // that is a verdict
			end(nil)
			return
		}
		end(err)
	}()
	for _, f := range x.engine.cfg.Features {
		if f.Judge == nil {
			continue
		}
		err := safely(x.Turn, func() error { return f.Judge(ctx, x.Turn, j) })
		flagged, ok := errors.AsType[*Flagged](err)
		switch {
		case err == nil:
		case ok && j.Parts:
			for i := range j.may {
				j.may[i] = j.may[i] && !flagged.Has(i)
			}
		case ok:
			return flagged
		case ctx.Err() != nil:
			return ctx.Err()
		case !errors.Is(err, moderation.ErrUnjudged):
			return fmt.Errorf("%w: feature %s: %w", moderation.ErrUnjudged, f.Name, err)
		default:
			return err
		}
	}
	if j.Drafted != nil { // somebody flagged a part of it
		return j.Drafted
	}
	return nil
}

// withhold takes what was flagged out of what the turn keeps, and returns the error that ends the turn.
func withhold(x *execution, kind moderation.Kind, say string) error {
	done := BeforeThat(x.Turn)
	if kind == moderation.Said || kind == moderation.Image {
		x.Text, x.rec.Text, x.Attached = withheldText, withheldText, nil
	} else {
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
	return &stopError{say + done}
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
